"""The public names, exactly; and what `import poolwise` does not do."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import poolwise

NAMES = [
    "Ascent",
    "Box",
    "Budget",
    "Callback",
    "Choice",
    "ConflictError",
    "Direct",
    "EnergyEntropy",
    "EntropySearch",
    "Estimate",
    "ExpectedImprovement",
    "Fixed",
    "Float",
    "GaussianProcess",
    "InputError",
    "Int",
    "JointEntropySearch",
    "KnowledgeGradient",
    "Lbfgsb",
    "LogExpectedImprovement",
    "LogNoisyExpectedImprovement",
    "LogProbabilityOfImprovement",
    "Matern12",
    "Matern32",
    "Matern52",
    "MaxValueEntropy",
    "Maxima",
    "MissingExtra",
    "Normal",
    "OneShot",
    "Pool",
    "PoolwiseError",
    "Posterior",
    "Probability",
    "ProbabilityOfImprovement",
    "Proposal",
    "RandomSearch",
    "Rotation",
    "RunInterrupted",
    "RunStopped",
    "Settings",
    "SimpleRegret",
    "Space",
    "SpaceError",
    "SpaceExhausted",
    "SquaredExponential",
    "Stochastic",
    "StorageError",
    "StorageUnavailable",
    "Study",
    "StudyNotFound",
    "Trend",
    "Trial",
    "TwoStepExpectedImprovement",
    "UpperConfidenceBound",
    "VersionError",
    "Warp",
    "__version__",
    "balanced",
    "exact",
    "expectation",
    "fit",
    "integrand",
    "keep_programs",
    "log_probability",
    "maximize",
    "minimize",
    "path_maxima",
    "propose",
    "sample_paths",
    "thompson",
]


def fresh(code):
    """What code prints as JSON in an interpreter of its own."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(run.stdout)


def test_the_public_names_are_these():
    """A name comes or goes by decision, not by accident."""
    assert NAMES == sorted(poolwise.__all__)
    assert NAMES == dir(poolwise)


def test_every_name_resolves():
    """Each public name is there, under its own name."""
    for name in NAMES:
        thing = getattr(poolwise, name)
        assert name in ("__version__", "exact") or name == thing.__name__


def test_an_unknown_name_is_an_attribute_error():
    """`hasattr` works; a misspelt name is not something else."""
    assert not hasattr(poolwise, "Expectation")


def test_type_checkers_see_the_same_names():
    """The imports under TYPE_CHECKING and the table of homes agree, name by name."""
    tree = ast.parse(Path(poolwise.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {a.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert all(a.name == a.asname for node in block.body if isinstance(node, ast.ImportFrom) for a in node.names)

    assert "acquisition" == seen.pop("exact")
    assert poolwise._HOMES == seen


def test_importing_is_light():
    """No JAX, no NumPy, nothing optional: names load when they are first used."""
    code = """
import json, sys, poolwise
heavy = {"jax", "numpy", "scipy", "pandas", "matplotlib", "sqlalchemy"} & set(sys.modules)
print(json.dumps(sorted(heavy)))
"""
    assert [] == fresh(code)


def test_importing_changes_no_setting_of_jax():
    """Every public name used once: JAX's configuration is what it was, and is back in 32 bit."""
    code = """
import json, jax
before = dict(jax.config.values)
import poolwise
for name in poolwise.__all__: getattr(poolwise, name)
posterior = poolwise.GaussianProcess(poolwise.Matern52(0.3)).condition([[0.1]], [1.0])
poolwise.expectation(poolwise.SimpleRegret(), posterior, [[0.5]], samples=4)
changed = [k for k, v in jax.config.values.items() if before.get(k) is not v and before.get(k) != v]
print(json.dumps([changed, str(jax.numpy.zeros(1).dtype)]))
"""
    assert [[], "float32"] == fresh(code)

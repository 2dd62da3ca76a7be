"""Programs on disk: kept where asked, never over a setting of the user's."""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poolwise import programs

SCRIPT = """
import sys, jax
if sys.argv[2] == "mine":
    jax.config.update("jax_compilation_cache_dir", sys.argv[1] + "/user")
import poolwise as pw
kept = pw.keep_programs(sys.argv[1] + "/kept")
posterior = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition([[0.1], [0.7]], [0.0, 1.0])
posterior([[0.3]])
print(kept is not None, jax.config.jax_compilation_cache_dir == sys.argv[1] + "/user")
"""


def run(folder, whose):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), whose], capture_output=True, text=True, env=environment
    )


def test_programs_are_kept(tmp_path):
    """The folder fills with compiled programs."""
    ran = run(tmp_path, "ours")

    assert "True False" == ran.stdout.strip(), ran.stderr
    assert any((tmp_path / "kept").iterdir())


def test_a_users_own_cache_is_left_alone(tmp_path):
    """Where JAX's cache is set up already, nothing is changed and nothing is made."""
    ran = run(tmp_path, "mine")

    assert "False True" == ran.stdout.strip(), ran.stderr
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, mode):
    """What lies there would be run; a group is others too."""
    shared = tmp_path / "kept"
    shared.mkdir()
    shared.chmod(mode)
    ran = run(tmp_path, "ours")

    assert "others may write" in ran.stderr


STRANGER = """
import os, sys
import poolwise as pw

own = os.getuid()
os.getuid = lambda: own + 1
pw.keep_programs(sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners are not told apart here")
def test_a_folder_of_somebody_else_is_refused(tmp_path):
    """Its owner could write there."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    ran = subprocess.run(
        [sys.executable, "-c", STRANGER, str(tmp_path)], capture_output=True, text=True, env=environment
    )

    assert "somebody else's" in ran.stderr


HOMELESS = """
import sys
from pathlib import Path

def home():
    raise RuntimeError("Could not determine home directory.")

Path.home = home
import poolwise as pw
if sys.argv[1] == "study":
    study = pw.Study(space={"x": pw.Float(0, 1)}, minimize="loss")
    for x in (0.0, 0.3, 0.7, 1.0):
        study.add({"x": x}, x)
    study.ask(1)
else:
    print(pw.keep_programs(*sys.argv[2:]))
"""


def homeless(*arguments, **environment):
    """What is printed and what is warned of where a user has no home, as in some containers."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX", "XDG"))}
    command = [sys.executable, "-c", HOMELESS, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**kept, **environment})
    return ran.stdout.strip(), ran.stderr


def test_a_folder_that_is_named_needs_no_home(tmp_path):
    """Neither where the caller names it nor where the environment does; without one the error says what to name."""
    folder = str(tmp_path / "kept")

    assert folder == homeless("keep", folder)[0]
    assert folder == homeless("keep", POOLWISE_PROGRAMS=folder)[0]
    assert re.search(r"FileNotFoundError: .*POOLWISE_PROGRAMS", homeless("keep")[1])


def test_a_study_without_a_home_has_its_model():
    """Its programs are not kept, and that is all."""
    warned = homeless("study")[1]

    assert "compiled programs are not kept" in warned
    assert "could not be used" not in warned and "Traceback" not in warned


@programs.quickly("power")
def raised(x, power):
    return jnp.sum(x**power)


def test_a_quick_program_is_compiled_once_for_its_shapes():
    """Called with numbers it is a program of its own, one for each shape and each static argument."""
    values = [float(raised(np.arange(3.0, dtype=np.float32), power=p)) for p in (2, 2, 3)]

    assert [5.0, 5.0, 9.0] == values
    assert 2 == raised._cache_size()


def test_a_quick_program_is_part_of_another():
    """JAX refuses compiler options inside another program; there the function is inlined."""
    x = jnp.arange(3.0)

    np.testing.assert_allclose([0.0, 2.0, 4.0], jax.grad(lambda x: raised(x, power=2))(x))
    assert 5.0 == float(jax.jit(lambda x: raised(x, power=2))(x))


@pytest.mark.parametrize("unknown", [{}, {"xla_no_such_option": True}])
def test_a_compiler_that_does_not_know_an_option_goes_without_it(unknown, monkeypatch):
    """They are XLA's own and may go in another version; the others are still of use."""
    known = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 256}
    monkeypatch.setattr(programs, "QUICK", known | unknown)

    assert known == programs._known_options.__wrapped__()


TWICE = """
import sys, numpy as np
import poolwise as pw
from poolwise import kept
pw.keep_programs(sys.argv[1])
traced, write = [], kept.write
kept.write = lambda path, *rest: (traced.append(path), write(path, *rest))
X = np.random.default_rng(0).random((9, 2))
belief = pw.fit(X, X.sum(axis=1))
settings = pw.Ascent(samples=64, candidates=16, starts=2, rounds=2, polish=2)
pool = pw.propose(belief, pw.UpperConfidenceBound(), q=2, maximizer=settings).pool
print(len(traced), pool.tobytes().hex())
"""


def twice(folder):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    ran = subprocess.run([sys.executable, "-c", TWICE, str(folder)], capture_output=True, text=True, env=environment)
    assert 0 == ran.returncode, ran.stderr
    made, pool = ran.stdout.split()
    return int(made), pool


def test_a_second_process_traces_nothing(tmp_path):
    """It reads what the first has traced, and finds the same pool; a file that is damaged is made again."""
    folder = tmp_path / "kept"
    first, again = twice(folder), twice(folder)

    assert (6, first[1]) == first
    assert (0, first[1]) == again

    whole, cut = sorted(folder.glob("*-traced"))[:2]
    whole.write_bytes(b"nothing")
    cut.write_bytes(cut.read_bytes()[:-1000])

    assert (2, first[1]) == twice(folder)


MANY = """
import sys
from pathlib import Path
import numpy as np
import poolwise as pw
from poolwise import programs
from poolwise.belief.gaussian_process import _condition

if sys.argv[1] != "off":
    pw.keep_programs(sys.argv[1])
programs.MOST = programs.MOST_SHAPES = 2
maps, values = [], []
for d in [*range(2, 12), 2]:  # the first again at the end
    X = np.random.default_rng(0).random((9, d))
    values.append(pw.GaussianProcess(pw.Matern52(0.5), noise=1e-2).condition(X, X[:, 0]).log_evidence)
    maps.append(Path("/proc/self/maps").read_text().count(chr(10)))
print(max(maps[4:]) - maps[3], values[0] == values[-1], len(programs._programs), _condition._cache_size())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory maps are counted in Linux's /proc")
@pytest.mark.parametrize("kept", [True, False])
def test_programs_that_were_not_used_lately_are_let_go(tmp_path, kept):
    """Each holds memory maps, and a process that has used up its own crashes; one let go is made again."""
    folder = str(tmp_path / "kept") if kept else "off"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    ran = subprocess.run([sys.executable, "-c", MANY, folder], capture_output=True, text=True, env=environment)
    more, same, on_disk, in_jax = ran.stdout.split()

    assert int(more) < 80, ran.stderr  # seven more programs would hold some 126
    assert "True" == same
    assert (2, 0) == (int(on_disk), int(in_jax)) if kept else 0 < int(in_jax) <= 3

"""Imports go one way: a room may use the rooms below it, and no other."""

import ast
from pathlib import Path

import pytest

import poolwise

SOURCE = Path(poolwise.__file__).parent
EVERYWHERE = {"errors", "checks", "kept", "precision", "programs", "pytree", "quantile", "slices", "sobol", "version"}
FACADE = "the public names"  # `import poolwise` itself; only the outermost rooms may use it

# cli, adapters, plot, paper -> study -> space; study -> pool -> acquisition -> belief;
# study -> straightening -> learning -> evidence -> belief
ARROWS = {
    "__main__": {"cli"},
    "cli": {"paper", "adapters", "plot", FACADE},  # its commands call what is beside it
    "paper": {"plot", "study", FACADE},
    "adapters": {"study", FACADE},
    "plot": {"study"},
    "study": {"space", "pool", "straightening", "programs"},
    "pool": {"acquisition", "maximizers"},
    "straightening": {"learning", "programs"},
    "learning": {"evidence", "maximizers"},
    "evidence": {"belief"},
    "acquisition": {"belief"},
    "belief": set(),
    "maximizers": set(),
    "space": set(),
    "programs": set(),
    FACADE: set(),
}


def below(room):
    """The rooms that a room may import: what its arrows reach."""
    reached, ahead = set(), list(ARROWS[room])
    while ahead:
        if (following := ahead.pop()) not in reached:
            reached.add(following)
            ahead.extend(ARROWS[following])
    return reached


def room_of(module):
    """`acquisition.exact` is in the room acquisition; `learning` is one of its own."""
    return module.split(".")[0] or FACADE


def imports(code, module):
    """The modules of Poolwise that code names, as paths below `poolwise`; public names by the home they have."""
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("poolwise").lstrip(".") for a in node.names if owned(a.name))
        if isinstance(node, ast.ImportFrom) and (node.level or owned(node.module or "")):
            base = package[: len(package) - node.level + 1] if node.level else (node.module or "").split(".")[1:]
            path = ".".join([*base, *((node.module or "").split(".") if node.level and node.module else [])])
            yield from ([path] if path else [poolwise._HOMES.get(a.name, a.name) for a in node.names])


def owned(name):
    return name == "poolwise" or name.startswith("poolwise.")


def wrong_arrows(code, module):
    """Imports that a module of that path must not have."""
    room = room_of(module)
    allowed = EVERYWHERE if room in EVERYWHERE else EVERYWHERE | {room} | below(room)
    return [name for name in imports(code, module) if room_of(name) not in allowed]


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if name != "__init__":  # the public names, which reach everywhere
            yield pytest.param(path, name, id=name)


@pytest.mark.parametrize("path, module", list(modules()))
def test_no_wrong_arrow(path, module):
    """Each module of the library imports only what lies below its room."""
    assert [] == wrong_arrows(path.read_text(), module)


def test_arrows_have_no_circle():
    """No room is below itself."""
    assert all(room not in below(room) for room in ARROWS)


@pytest.mark.parametrize(
    "code, module",
    [
        ("from poolwise.acquisition.integrand import SimpleRegret", "belief.normal"),
        ("from ..acquisition import exact", "belief.normal"),
        ("from ..learning import fit", "acquisition.exact"),
        ("import poolwise.belief.kernel", "maximizers.direct"),
        ("from poolwise import fit", "belief.normal"),
        ("from poolwise import learning", "pool.greedy"),
        ("def later():\n    from poolwise.study import Study", "pool.greedy"),
        ("import poolwise", "acquisition.exact"),
        ("from poolwise.belief.normal import Normal", "checks"),
        ("from .study import Study", "learning"),
    ],
)
def test_a_wrong_arrow_is_caught(code, module):
    """The reader of imports sees every form of them, also inside functions."""
    assert [] != wrong_arrows(code, module)


@pytest.mark.parametrize(
    "code, module",
    [
        ("from poolwise import checks\nfrom poolwise.errors import InputError\nimport numpy", "belief.normal"),
        ("from .factor import cholesky", "belief.normal"),
        ("from poolwise.belief.normal import Normal", "pool.greedy"),
        ("from poolwise import Normal", "study.core"),
        ("from ..belief import normal", "acquisition.exact"),
        ("from .belief.normal import Normal", "learning"),
        ("import poolwisely", "belief.normal"),
    ],
)
def test_a_right_arrow_passes(code, module):
    """Downwards, sideways within a room, and to the few modules that all may use."""
    assert [] == wrong_arrows(code, module)

"""Calls the peer's script in its own environment and returns what it measured."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import quiet
from problem import Problem, judge

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent / ".venv-peers" / "bin" / "python"
JUDGED_AS = {"logei": "ei"}  # climbs another surface, is paid for the same


class MissingPeersError(RuntimeError):
    pass


def interpreter() -> Path:
    """The peers' Python: POOLWISE_PEERS, or the environment that the Makefile makes."""
    python = Path(os.environ.get("POOLWISE_PEERS", DEFAULT))
    if not python.exists():
        raise MissingPeersError(
            f"No Python with BoTorch at {python}: run make bench, which makes that environment, "
            "or set POOLWISE_PEERS to such a Python."
        )
    return python


def measure(what: str, n: int = 64, q: int = 8, integrand: str = "ei", way: str = "joint", repeat: int = 3) -> dict:
    """One run of the script in a fresh process: `what` is pool, fit, cold or rounds."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        chosen = {"what": what, "n": n, "q": q, "integrand": integrand, "way": way, "repeat": repeat, "json": output}
        command = [str(interpreter()), str(HERE / "peer_botorch.py")]
        command += [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
        subprocess.run(command, check=True, env=os.environ | {"POOLWISE_START": repr(time.time())})
        result = json.loads(output.read_text())
    if not is_quiet(result):
        print(f"others kept {max(result['elsewhere']):.1f} cores busy: {' '.join(command[2:-2])}", file=sys.stderr)
    return result


def pool(n: int, q: int, integrand: str, way: str, repeat: int = 3) -> dict:
    return measure("pool", n, q, integrand, way, repeat)


def fit(n: int = 248, q: int = 8, integrand: str = "ei", way: str = "sequential", repeat: int = 3) -> dict:
    return measure("fit", n, q, integrand, way, repeat)


def cold(n: int = 248, q: int = 8, integrand: str = "ei", way: str = "sequential") -> dict:
    """Call it twice and keep the second: the first reads torch's files from disk."""
    return measure("cold", n, q, integrand, way, 1)


def rounds(q: int = 8, integrand: str = "ei", way: str = "sequential") -> dict:
    return measure("rounds", 8, q, integrand, way, 1)


def is_quiet(result: dict) -> bool:
    return max(result["elsewhere"]) <= quiet.LIMIT


def seconds(result: dict) -> float:
    """The fastest of the runs, which noise from outside can only lengthen."""
    return min(result["seconds"])


def value(problem: Problem, result: dict) -> float:
    """The judge's value of the pools, averaged over the runs, each of which has its own seed."""
    name = JUDGED_AS.get(result["integrand"], result["integrand"])
    return sum(judge(problem, pool, name) for pool in result["pools"]) / len(result["pools"])

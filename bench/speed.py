"""Speed beside BoTorch, on the reference problem: `make bench`. Results go to bench/results; measured cells are kept.

Each cell runs our side and both of BoTorch's ways one after the other on the same problem; the common judge values all
pools. Delete a CSV file, or pass --again, to measure its cells anew.
"""

import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ours
import peers
import quiet
import tables
from problem import reference
from rich.console import Console
from rich.progress import track

RESULTS = Path(__file__).resolve().parent / "results"
SIZES, POOLS, GOALS = (64, 128, 248, 512, 1024), (1, 4, 8, 16, 32), ("ei", "ucb", "sr", "pi")
console = Console(stderr=True)


def known(path: Path) -> list[dict]:
    """Rows of an earlier run."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> object:
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


def our_cell(n: int, q: int, name: str) -> dict:
    """Our side of a row."""
    mine = ours.pool(n, q, name)
    return {"n": n, "q": q, "integrand": name, "ours_seconds": min(mine["seconds"]), "ours_value": mine["value"]}


def cell(n: int, q: int, name: str) -> dict:
    """One row of the table; our runs are short, so they are made before, between and after the peers'."""
    row = our_cell(n, q, name)
    problem, still = reference(n), True
    for way in ("joint", "sequential"):
        result = peers.pool(n, q, name, way, 3 if q <= 8 else 2)
        still = still and peers.is_quiet(result)
        row |= {f"{way}_seconds": peers.seconds(result), f"{way}_value": peers.value(problem, result)}
        row["ours_seconds"] = min(row["ours_seconds"], our_cell(n, q, name)["ours_seconds"])
    return row | {"quiet": still}


def table(cells: list[tuple[int, int, str]], folder: Path, again: bool) -> list[dict]:
    """The rows of all cells, saved after each so that a stopped run goes on where it was."""
    rows = [] if again else known(folder / "speed.csv")
    have = {(row["n"], row["q"], row["integrand"]) for row in rows}
    for n, q, name in track([c for c in cells if c not in have], "speed", console=console):
        rows.append(cell(n, q, name))
        rows.sort(key=lambda row: (row["q"], GOALS.index(row["integrand"]), row["n"]))
        tables.write(rows, folder, "speed")
    return rows


def ours_again() -> None:
    """Our side of the known rows anew; the peers' stay, so both were not measured side by side."""
    rows = known(RESULTS / "speed.csv")
    for row in track(rows, "speed, our side", console=console):
        row |= our_cell(row["n"], row["q"], row["integrand"])
    tables.write(rows, RESULTS, "speed")


def alone(what: str, folder: str) -> dict:
    """A measurement of ours in a fresh process, with programs kept in `folder`."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out.json"
        run(folder, "ours.py", what, "--json", str(out))
        return json.loads(out.read_text())


def cold(folder: str, n: int = 248) -> float:
    """Seconds from the start of a process to its first pool with a fit; it reads the observations from a file."""
    with tempfile.TemporaryDirectory() as place:
        observations, out = Path(place) / "observations.npz", Path(place) / "out.json"
        np.savez(observations, X=reference(n).X, y=reference(n).y)
        run(folder, "first_pool.py", str(observations), str(out))
        return json.loads(out.read_text())["seconds"]


def first_cold() -> float:
    """The same where nothing is on disk."""
    with tempfile.TemporaryDirectory() as folder:
        return cold(folder)


def run(folder: str, script: str, *words: str) -> None:
    """One of our scripts in a fresh process, which is told when it began."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *words]
    environment = os.environ | {"POOLWISE_START": repr(time.time()), "POOLWISE_PROGRAMS": folder}
    subprocess.run(command, check=True, env=environment)


def starts() -> dict:
    """Cold start, a warm ask, a study's 31 rounds and peak memory, beside BoTorch."""
    result = {"cold, nothing on disk": statistics.median(first_cold() for _ in range(5))}
    with tempfile.TemporaryDirectory() as folder:
        cold(folder)
        result["cold, programs on disk"] = min(cold(folder) for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        result["31 rounds, nothing on disk"] = alone("rounds", folder)["seconds"]
        result["31 rounds, programs on disk"] = alone("rounds", folder)["seconds"]
    mine = ours.ask()
    result |= {"warm ask, n = 248": min(mine["seconds"]), "of which fit": mine["fit"], "of which pool": mine["pool"]}
    result["peak memory at n = 2048, q = 32, GiB"] = alone("memory", "off")["gib"]
    fits = [peers.fit(way=way) for way in ("joint", "sequential")]
    result["BoTorch ask, n = 248"] = min(peers.seconds(fit) for fit in fits)
    peers.cold()
    result["BoTorch cold"] = peers.seconds(peers.cold())
    result["BoTorch 31 rounds"] = peers.seconds(peers.rounds())
    return {name: float(value) for name, value in result.items()}


def floor(n: int = 248) -> dict:
    """Time of a round of joint ascent over its floor: its floating-point work at the machine's matrix product rate.

    The work is what the compiler counts, where an exponential is one operation; that of matrix products alone is the
    second floor.
    """
    import jax
    import jax.numpy as jnp

    from poolwise.maximizers import lbfgsb
    from poolwise.pool.ascent import _advance, max_objective

    problem, q = reference(n), 8
    with jax.enable_x64(True):
        goal = ours.integrand("ei", problem.threshold)
        objective, _ = max_objective(ours.posterior(problem), goal, q, np.zeros((0, 8)), samples=1024, seed=0)
        start = jnp.asarray(np.random.default_rng(0).random((1, q * 8)))
        state = lbfgsb.init(start, gtol=0.0, ftol=-1.0)  # never satisfied: every round is made
        work = jax.jit(_advance.__wrapped__).lower(objective, state, 5).compile().cost_analysis()
        counted = work["flops"] + work["transcendentals"]
        made = [int(_advance(objective, state, k).rounds) for k in (5, 25)]
        rows = objective.field.data.shape[0]
        square = jnp.ones((rows, rows))
        product = jax.jit(lambda a: a @ a)
        few, many, one = _fastest(
            lambda: _advance(objective, state, 5), lambda: _advance(objective, state, 25), lambda: product(square)
        )
    rate = 2 * rows**3 / one
    products = 2 * q * rows**2 + 2 * 3 * q * rows * 8 + 2 * 2 * 1024 * q * q
    each = (many - few) / (made[1] - made[0])
    return {
        "round, us": 1e6 * each,
        "floor, us": 1e6 * counted / rate,
        "round over floor": each * rate / counted,
        "round over floor of matrix products": each * rate / products,
    }


def _fastest(*calls, turns: int = 400) -> list[float]:
    """The fastest of each call's times; calls take turns, as the machine's speed changes from second to second."""
    import jax

    seconds = [math.inf] * len(calls)
    for turn in range(turns + 1):
        for i, call in enumerate(calls):
            began = time.perf_counter()
            jax.block_until_ready(call())
            if turn:  # the first compiles
                seconds[i] = min(seconds[i], time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="all of n x q x integrand, hours; by default q = 8 and lines"
    )
    parser.add_argument("--q", type=int, nargs="+", default=POOLS, help="the table's pools of these sizes only")
    parser.add_argument("--integrands", nargs="+", default=GOALS, choices=GOALS, help="and these integrands")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the table goes")
    parser.add_argument("--again", action="store_true", help="measure known cells anew")
    parser.add_argument("--ours", action="store_true", help="measure our side of known cells anew, and keep the peers'")
    parser.add_argument("--only", choices=["table", "starts", "floor"], help="one part")
    chosen = parser.parse_args()
    lines = [(n, 8, name) for name in GOALS for n in SIZES] + [(248, q, "ei") for q in POOLS]
    cells = [(n, q, name) for q in POOLS for name in GOALS for n in SIZES] if chosen.full else dict.fromkeys(lines)
    cells = [(n, q, name) for n, q, name in cells if q in chosen.q and name in chosen.integrands]
    since = quiet.now()
    if chosen.ours:
        ours_again()
    if chosen.only in (None, "table"):
        rows = table(cells, chosen.results, chosen.again)
        print(tables.markdown(rows))
        for name, at in (("n", {"q": 8, "integrand": "ei"}), ("q", {"n": 248, "integrand": "ei"})):
            line = [row for row in rows if all(row[key] == value for key, value in at.items())]
            if len(line) > 1:
                sizes, seconds = (np.log([row[key] for row in line]) for key in (name, "ours_seconds"))
                print(f"cost grows as {name}^{np.polyfit(sizes, seconds, 1)[0]:.2f} (EI, others fixed)")
    if chosen.only in (None, "starts", "floor"):
        path = RESULTS / "starts.json"
        result = json.loads(path.read_text()) if path.exists() else {}
        result |= floor() if chosen.only == "floor" else starts() | floor()
        path.write_text(json.dumps(result, indent=1) + "\n")
        print("\n".join(f"{name}: {value:.3g}" for name, value in result.items()))
    console.print(f"others kept {quiet.elsewhere(since):.2f} cores busy meanwhile")


if __name__ == "__main__":
    main()

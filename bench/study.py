"""How long the verbs of a study take when it holds many trials, and how many a second 16 processes get through.

Seconds of one `ask` of 8 (the first of a process, which compiles or loads programs, and the median of later ones), of
`tell`, of the counts behind `poolwise status`, and of reading all trials; on SQLite, and on PostgreSQL where the
environment of the tests is there. Six parameters, one trial of twenty failed. Needs the `dev` extra.

    python bench/study.py [100 1000 10000]
"""

import contextlib
import csv
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import quiet
from rich.console import Console
from rich.table import Table

from poolwise.space.parameters import Choice, Float, Int
from poolwise.study import statements
from poolwise.study.rows import encoded
from poolwise.study.study import Study

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "study"))

from test_kill import check_crowd  # noqa: E402

from conftest import running_server  # noqa: E402

SIZES, Q, REPEATS = (100, 1000, 10_000), 8, 3
CROWD, ROUNDS = 16, 4
SPACE = {
    "rate": Float(1e-5, 1, log=True),
    **{name: Float(0, 1) for name in ("a", "b", "c")},
    "layers": Int(1, 8),
    "kind": Choice(["relu", "gelu"]),
}


def loss(rate, a, b, c, layers, kind):
    return abs(math.log10(rate) + 2) + (a - 0.3) ** 2 + (b - c) ** 2 + 0.1 * abs(layers - 3) + (kind == "relu")


def fill(study: Study, n: int) -> None:
    """Stores n trials, in one transaction, because it is not what is measured."""
    points = study.space.decode_many(study.space.sample(n, seed=1))

    def row(number: int, params: dict) -> dict:
        base = {"study": study._id, "request": f"r{number}", "pool": number // Q, "params": encoded(params)}
        times = {"asked": 1e9 + number, "finished": 1e9 + number + 1}
        if number % 20 == 7:
            return base | times | {"state": "failed", "reason": "broken"}
        return base | times | {"state": "told", "value": loss(**params)}

    def work(c) -> None:
        head = statements.head(c, study._id, lock=True)
        statements.append(c, head, [row(i, params) for i, params in enumerate(points)])
        statements.touch(c, head, trials=n, pools=n // Q)

    study._store._run.write(work)


def timed(work) -> tuple[float, object]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def measure(name: str, url: str, n: int) -> dict:
    """One row of the table."""
    since = quiet.now()
    with Study(url, name=f"n{n}", space=SPACE, minimize="loss") as study:
        fill(study, n)
        asks, tells = [], []
        for _ in range(1 + REPEATS):
            seconds, pool = timed(lambda: study.ask(Q))
            asks.append(seconds)
            tells += [timed(lambda t=trial: study.tell(t, loss(**t.params)))[0] for trial in pool]
        counts = [timed(lambda: (study.counts, study.best, study.pending))[0] for _ in range(REPEATS)]
        reads = [timed(lambda: study.trials)[0] for _ in range(REPEATS)]
    return {
        "store": name,
        "trials": n,
        "first_ask": asks[0],
        "ask": statistics.median(asks[1:]),
        "tell": statistics.median(tells),
        "status": statistics.median(counts),
        "trials_read": statistics.median(reads),
        "quiet": quiet.elsewhere(since) < quiet.LIMIT,
    }


def throughput(name: str, url: str) -> str:
    since = quiet.now()
    with tempfile.TemporaryDirectory() as folder:
        rate = check_crowd(url, Path(folder), CROWD, ROUNDS)
    others = "" if quiet.elsewhere(since) < quiet.LIMIT else " (others used the machine)"
    return f"{name}: {rate:.0f} transactions a second by {CROWD} processes that ask for 3 and tell{others}."


def stores(stack: contextlib.ExitStack) -> dict[str, str]:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    found = {"SQLite": f"sqlite:///{folder}/study.db"}
    try:
        found["PostgreSQL"] = stack.enter_context(running_server()).get_uri()
    except BaseException as error:  # pytest's skip is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        Console(stderr=True).print(f"no PostgreSQL: {error}")
    return found


def cell(value: object) -> str:
    return (
        {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else f"{value:.3g}"
        if isinstance(value, float)
        else str(value)
    )


def main(sizes: list[int]) -> None:
    with contextlib.ExitStack() as stack:
        found = stores(stack)
        rows = [measure(name, url, n) for name, url in found.items() for n in sizes]
        notes = [throughput(name, url) for name, url in found.items()]
    results = HERE / "results"
    with (results / "study.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    heads = ["store", "trials", "first ask of 8, s", "ask of 8, s", "tell, s", "status, s", "all trials, s", "quiet"]
    lines = [heads, ["---"] * len(heads), *[[cell(value) for value in row.values()] for row in rows]]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n" + "\n".join(f"* {note}" for note in notes)
    (results / "study.md").write_text(text + "\n")
    table = Table(*heads)
    for line in lines[2:]:
        table.add_row(*line)
    Console().print(table, *notes, sep="\n")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or list(SIZES))

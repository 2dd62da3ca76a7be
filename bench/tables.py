"""Rows of the speed table to CSV and Markdown. A row is a dict with the names of `COLUMNS` but the ratio.

What was not measured is None: an empty field in the CSV, a dash in the Markdown.
"""

import csv
from pathlib import Path

COLUMNS = {
    "n": "n",
    "q": "q",
    "integrand": "integrand",
    "ours_seconds": "ours, s",
    "joint_seconds": "BoTorch joint, s",
    "sequential_seconds": "BoTorch sequential, s",
    "ratio": "ratio",
    "ours_value": "ours, value",
    "joint_value": "joint, value",
    "sequential_value": "sequential, value",
    "quiet": "quiet machine",
}
FORMATS = {"seconds": "{:.4g}", "value": "{:.4f}", "ratio": "{:.0f}x"}


def with_ratio(row: dict) -> dict:
    """Adds `ratio`: the seconds of the faster of BoTorch's ways over ours."""
    theirs = [row[name] for name in ("joint_seconds", "sequential_seconds") if row.get(name) is not None]
    known = theirs and row.get("ours_seconds") is not None
    return row | {"ratio": min(theirs) / row["ours_seconds"] if known else None}


def value_kept(row: dict) -> bool:
    """Whether our pool is worth at least as much as the better of BoTorch's, to the four decimals that are shown."""
    theirs = [row[name] for name in ("joint_value", "sequential_value") if row.get(name) is not None]
    return all(round(row["ours_value"], 4) >= round(value, 4) for value in theirs)


def cell(name: str, value: object) -> str:
    if value is None:
        return "-"
    if name == "quiet":
        return "yes" if value else "**no**"
    return FORMATS.get(name.rpartition("_")[2], "{}").format(value)


def markdown(rows: list[dict]) -> str:
    """A table; a value of ours below the better of BoTorch's is shown in bold, so that losses are seen."""
    lines = ["| " + " | ".join(COLUMNS.values()) + " |", "|" + " --- |" * len(COLUMNS)]
    for row in map(with_ratio, rows):
        cells = {name: cell(name, row.get(name)) for name in COLUMNS}
        if row.get("ours_value") is not None and not value_kept(row):
            cells["ours_value"] = f"**{cells['ours_value']}**"
        lines.append("| " + " | ".join(cells.values()) + " |")
    return "\n".join(lines) + "\n"


def write_csv(rows: list[dict], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(map(with_ratio, rows))


def write(rows: list[dict], folder: Path, name: str) -> None:
    """`folder/name.csv` and `folder/name.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(rows, folder / f"{name}.csv")
    (folder / f"{name}.md").write_text(markdown(rows))

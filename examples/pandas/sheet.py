"""A round of a lab by a spreadsheet: earlier data in, a pool out as a file, the filled file in.

pip install 'poolwise[pandas]'
python sheet.py
"""

import tempfile
from pathlib import Path

import pandas as pd

from poolwise import Choice, Float, Study
from poolwise.adapters.frames import read_frame, write_frame

folder = Path(tempfile.mkdtemp())
space = {"temperature": Float(20, 90, step=0.5), "solvent": Choice(["water", "ethanol", "-none-"])}
study = Study(f"sqlite:///{folder / 'lab.db'}", space=space, maximize="yield")

earlier = pd.DataFrame({"temperature": [40, 65], "solvent": ["water", "-none-"], "yield": [58.2, 39.9]})
study.from_frame(earlier)

write_frame(study.ask(3).to_frame(), folder / "monday.xlsx")

filled = read_frame(folder / "monday.xlsx", study)  # in a lab, after people have filled it in
filled["yield"] = [61.0, 47.5, None]
filled.loc[2, ["state", "reason"]] = ["failed", "flask broke"]
study.from_frame(filled)

print(study.to_frame()[["number", "state", "temperature", "solvent", "yield", "reason"]])
print(study.counts)
study.close()

"""A fresh process to its first pool with a fit: what a user waits for, and nothing of the benchmark's own.

python bench/first_pool.py observations.npz out.json        POOLWISE_START=<time.time() of the parent>
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import poolwise as pw


def main(observations: str, out: str) -> None:
    pw.keep_programs()
    with np.load(observations) as table:
        X, y = table["X"], table["y"]
    pool = pw.propose(pw.fit(X, y), pw.ExpectedImprovement(y.max()), 8).pool
    seconds = time.time() - float(os.environ["POOLWISE_START"])
    Path(out).write_text(json.dumps({"seconds": seconds, "pool": pool.tolist()}))


if __name__ == "__main__":
    main(*sys.argv[1:])

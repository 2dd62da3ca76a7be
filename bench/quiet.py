"""Was the machine quiet while something was timed?

Torch's threads wait for each other by spinning. With one busy neighbour on two cores BoTorch ran 4 times slower, with
two 15 to 30 times, while one thread ran 1 to 2 times slower: a table made on a shared machine would flatter us. So
every timing carries the cores that others used meanwhile, and rows above `LIMIT` are marked.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 0.1  # cores
STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Moment:
    wall: float
    machine: float  # CPU seconds of all processes on our cores, and those the hypervisor gave to others
    ours: float  # CPU seconds of this process and of its finished children


def now() -> Moment:
    return Moment(time.perf_counter(), machine_seconds(), sum(os.times()[:4]))


def machine_seconds() -> float:
    """Seconds that the cores we may run on were busy: all of them, unless taskset gave us some."""
    if not STAT.exists():  # not Linux: nothing is known, and nothing is marked
        return 0.0
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    rows = [line.split() for line in STAT.read_text().splitlines() if line.split()[0] in ours]
    busy = [sum(map(int, (*row[1:4], *row[6:9]))) for row in rows]  # user, nice, system; irq, softirq, steal
    return sum(busy) / os.sysconf("SC_CLK_TCK")


def elsewhere(since: Moment) -> float:
    """Cores that others kept busy since a moment, half a second ago or more: the kernel counts in hundredths."""
    here = now()
    others = (here.machine - since.machine) - (here.ours - since.ours)
    return max(0.0, others / (here.wall - since.wall))

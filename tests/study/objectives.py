"""Objectives for worker processes, which find them by the name of this module; it imports nothing of Poolwise."""

import os
import signal
import sys
import time
from pathlib import Path


def bowl(x):
    return (x - 0.37) ** 2


async def waits(x):
    return x


def with_error(x):
    return {"value": x, "sem": 0.5}


def jax_loaded(x):
    return float("jax" in sys.modules or "numpy" in sys.modules)


def process(x):
    return os.getpid()


def raises_above_half(x):
    if x > 0.5:
        raise ValueError(f"no convergence at {x}")
    return x


def kills_above_half(x):
    if x > 0.5:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def hangs_above_half(x):
    if x > 0.5:
        time.sleep(600)
    return x


class Panic(BaseException):
    """As other languages have them: no `Exception`."""


def panics_above_half(x):
    if x > 0.5:
        raise Panic(f"unwrapped a None at {x}")
    return x


class Broken:
    """Kills every worker."""

    def __call__(self, x):
        os._exit(3)


class Marking:
    """Leaves a file for each call, then waits until the file `go` is there."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, x):
        (Path(self.folder) / f"{x!r}-{os.getpid()}").touch()
        while not (Path(self.folder) / "go").exists():
            time.sleep(0.01)
        return bowl(x)

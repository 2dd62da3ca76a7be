"""What tests of engines share: an objective in trouble, and why trials failed."""

import os
import signal
import sys
import time


def reasons(study):
    return [trial.reason for trial in study.trials if trial.state == "failed"]


KILLED = (10, 31)  # the calls that kill their worker


def troubled(folder, wait):
    """An objective of which every fifth call fails, and two calls kill their worker; a file for each call counts."""

    def objective(x):
        call = len(os.listdir(folder))
        while True:  # a number of its own for each call, whichever process makes it
            try:
                os.close(os.open(folder / str(call), os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                call += 1
        time.sleep(wait)
        if call in KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        if call % 5 == 4:
            raise ArithmeticError(f"no convergence in call {call}")
        return (x - 0.37) ** 2 + float("jax" in sys.modules)

    return objective

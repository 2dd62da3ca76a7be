"""Asking for a pool in a process of its own, which ends, and JAX with it: who only takes trials stays light."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from sqlalchemy.engine import URL

from poolwise.errors import PoolwiseError
from poolwise.space.errors import SpaceExhausted
from poolwise.study.asking import Wish
from poolwise.study.engine import parse_url
from poolwise.study.errors import ConflictError, StorageError, StorageUnavailable
from poolwise.study.stops import RunStopped
from poolwise.study.study import Study

log = logging.getLogger(__name__)

NAP = 0.2  # seconds between looks at an interrupt
QUOTED = 500  # characters of what a process said before it died
KNOWN: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (SpaceExhausted, ConflictError, StorageUnavailable, StorageError)
}


def ask_apart(url: str | URL, name: str, wish: Wish, stop: Callable[[], bool]) -> None:
    """Have a pool asked for, by another process; given up when `stop` says so.

    It chooses on the CPU, unless JAX_PLATFORMS says otherwise: the accelerator is for the trials. The address goes to
    it by its standard input, which nobody else sees.
    """
    environment = {**os.environ, "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS") or "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "poolwise.study.apart"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,  # Ctrl-C is answered here
    )
    said: str | None = json.dumps({"url": parse_url(url), "name": name, "wish": asdict(wish)})
    try:
        while True:
            try:
                output, errors = process.communicate(said, timeout=NAP)
                break
            except subprocess.TimeoutExpired:
                said = None
            if stop():
                return
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    _read(process.returncode, output, errors)


def _read(code: int, output: str, errors: str) -> None:
    """What the process has to say: notes for the log, and an error as it would have been raised here."""
    if code != 0:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise RunStopped(f"The process that chooses a pool {how}. {errors.strip()[-QUOTED:]}".strip())
    answer = json.loads(output.splitlines()[-1])
    for note in answer["notes"]:
        log.warning("%s", note)
    if answer["error"] is not None:
        raise KNOWN.get(answer["kind"], RunStopped)(answer["error"])


class _Notes(logging.Handler):
    """Keeps what the library warns of."""

    def __init__(self) -> None:
        logging.Handler.__init__(self, logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    """Ask as standard input says, and put what became of it on standard output."""
    told: dict[str, Any] = json.loads(sys.stdin.read())
    notes = _Notes()
    logging.getLogger("poolwise").addHandler(notes)
    kind, error = None, None
    try:
        wish = Wish(**told["wish"])
        with Study(URL.create(*told["url"]), name=told["name"]) as study:
            study.ask(wish.q, request_id=wish.request_id, lease=wish.lease)
    except PoolwiseError as problem:
        kind, error = type(problem).__name__, str(problem)
    print(json.dumps({"kind": kind, "error": error, "notes": notes.lines}))


if __name__ == "__main__":
    main()

"""Ctrl-C during a run: the first ends it in good order, the second at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

LONGEST_WAIT = 1.0  # seconds; a wait cannot be interrupted on every system
NAP = 0.1


class Inbox:
    """What a run waits for: futures that are done, and Ctrl-C. A queue that a signal handler may write to."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Future[Any] | None] = SimpleQueue()

    def put(self, future: Future[Any]) -> None:
        self._queue.put(future)

    def wake(self) -> None:
        """End the wait, with nothing done."""
        self._queue.put(None)

    def wait(self, seconds: float) -> list[Future[Any]]:
        """The futures that are done by now; the wait ends with the first of them, or earlier."""
        found: list[Future[Any] | None] = []
        try:
            found.append(self._queue.get(timeout=min(seconds, LONGEST_WAIT)) if seconds > 0 else self._queue.get(False))
            while True:
                found.append(self._queue.get(False))
        except Empty:
            return [future for future in found if future is not None]


class Interrupt:
    """Notes the first Ctrl-C, and raises it where an objective runs in the main thread; raises the second."""

    def __init__(self, inbox: Inbox) -> None:
        self.noted, self.inbox = False, inbox
        self._raising = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take Ctrl-C; only the main thread can, and not where it is ignored."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
            yield
            return
        signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Where Ctrl-C is raised at once."""
        self._raising = True
        try:
            yield
        finally:
            self._raising = False

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond Ctrl-C."""
        until = time.monotonic() + seconds
        while not self.noted and time.monotonic() < until:
            time.sleep(NAP)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.noted = self.noted, True
        self.inbox.wake()
        if again or self._raising:
            raise KeyboardInterrupt

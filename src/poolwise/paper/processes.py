"""Many jobs on all cores: spawned processes of one thread each, progress with the time left, and a clean stop.

One thread each, whatever their number: sums are then always taken in one order, and results do not depend on it.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SINGLE = {
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "JAX_CPU_ENABLE_ASYNC_DISPATCH": "false",  # the processor's time is then that of the search alone
}

Job = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Workers:
    """Processes that stay for several rounds of jobs."""

    executor: ProcessPoolExecutor

    def run(self, jobs: Sequence[Job], title: str) -> list[Any]:
        """The results of jobs, in their order."""
        if not jobs:
            return []
        with progress(title, len(jobs)) as done_with:
            futures = [self.executor.submit(function, *arguments) for function, arguments in jobs]
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                done_with(len(done))
        return [future.result() for future in futures]


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with how many more are done: a bar with the time left, or now and then a line."""
    console, began, finished, told = Console(stderr=True), time.perf_counter(), 0, 0
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(title, total=total)

        def done_with(count: int) -> None:
            nonlocal finished, told
            finished, seconds = finished + count, time.perf_counter() - began
            bar.update(task, advance=count)
            if not console.is_terminal and (share := 20 * finished // total) > told:
                told = share
                left = seconds * (total - finished) / finished
                console.print(f"{title}: {finished} of {total}, {seconds:.0f} s, about {left:.0f} s left")

        yield done_with


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """So many processes; they are ended at once where something goes wrong, or at Ctrl-C."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    with _environment(SINGLE | {"XLA_FLAGS": flags, "POOLWISE_PAPER_PARENT": str(os.getpid())}):
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
        try:
            yield Workers(executor)
        except BaseException:
            for process in list((executor._processes or {}).values()):
                process.terminate()
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    import signal

    from poolwise.programs import keep_if_possible

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    keep_if_possible()


@contextmanager
def _environment(words: dict[str, str]) -> Iterator[None]:
    """Environment variables for the processes that are started inside."""
    before = {name: os.environ.get(name) for name in words}
    os.environ.update(words)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

"""Quick runs of the paper's commands, each made once, one after another in a process of its own."""

import os
import subprocess
import sys

import pytest

FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
CALLS = """
import shlex, sys
from poolwise.cli import main
for line in sys.argv[1:]:
    print("#", line.split()[0])
    main(["paper", *shlex.split(line)], standalone_mode=False)
"""


@pytest.fixture(scope="session")
def command(tmp_path_factory):
    """Call `poolwise paper` with each of these lines; what was compiled for one serves the next."""
    programs = tmp_path_factory.mktemp("programs")
    programs.chmod(0o700)
    words = {"POOLWISE_PROGRAMS": str(programs), "XLA_FLAGS": FAST, "COLUMNS": "80"}

    def call(*lines, start=subprocess.run, **options):
        if start is subprocess.run:
            options = {"check": True, "capture_output": True, "text": True} | options
        return start([sys.executable, "-c", CALLS, *lines], env=os.environ | words, **options)

    return call


@pytest.fixture(scope="session")
def everything(command, tmp_path_factory):
    """The folder and the output of every subcommand; expected improvement stands for all where one can choose."""
    out = tmp_path_factory.mktemp("paper")
    few = f"--quick --tasks 1 --out {out}"
    done = command(
        f"figure1 --quick --only sr --out {out}",
        f"figure2 {few} --only ei --processes 1",
        f"table2 --out {out}",
        f"ablation {few} --only ei --processes 1",
        f"rivals {few} --rounds 1 --only believer --processes 1",
        f"asynchronous {few} --rounds 1 --only synchronous --processes 1",
        f"claims --out {out}",
    )
    return out, done.stdout


@pytest.fixture(scope="session")
def improvement(everything):
    """The folder of the quick run of everything."""
    return everything[0]

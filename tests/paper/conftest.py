"""Quick runs of the paper's commands, each made once; they share compiled programs through a folder of their own."""

import os
import subprocess
import sys

import pytest

FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


@pytest.fixture(scope="session")
def command(tmp_path_factory):
    """Call `poolwise paper` in a process of its own."""
    programs = tmp_path_factory.mktemp("programs")
    programs.chmod(0o700)
    words = {"POOLWISE_PROGRAMS": str(programs), "XLA_FLAGS": FAST, "COLUMNS": "200"}

    def call(*arguments, start=subprocess.run, **options):
        line = [sys.executable, "-m", "poolwise", "paper", *map(str, arguments)]
        if start is subprocess.run:
            options = {"check": True, "capture_output": True, "text": True} | options
        return start(line, env=os.environ | words, **options)

    return call


@pytest.fixture(scope="session")
def improvement(command, tmp_path_factory):
    """A quick figure 2 of expected improvement with all optimizers, on two processes."""
    out = tmp_path_factory.mktemp("figure2")
    command("figure2", "--quick", "--tasks", 1, "--only", "ei", "--processes", 2, "--out", out)
    return out

"""Programs on disk: kept where asked, never over a setting of the user's."""

import os
import subprocess
import sys

SCRIPT = """
import sys, jax
if sys.argv[2] == "mine":
    jax.config.update("jax_compilation_cache_dir", sys.argv[1] + "/user")
import poolwise as pw
kept = pw.keep_programs(sys.argv[1] + "/kept")
posterior = pw.GaussianProcess(pw.Matern52(0.5), noise=1e-3).condition([[0.1], [0.7]], [0.0, 1.0])
posterior([[0.3]])
print(kept is not None, jax.config.jax_compilation_cache_dir == sys.argv[1] + "/user")
"""


def run(folder, whose):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POOLWISE", "JAX"))}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), whose], capture_output=True, text=True, env=environment
    )


def test_programs_are_kept(tmp_path):
    """The folder fills with compiled programs."""
    ran = run(tmp_path, "ours")

    assert "True False" == ran.stdout.strip(), ran.stderr
    assert any((tmp_path / "kept").iterdir())


def test_a_users_own_cache_is_left_alone(tmp_path):
    """Where JAX's cache is set up already, nothing is changed and nothing is made."""
    ran = run(tmp_path, "mine")

    assert "False True" == ran.stdout.strip(), ran.stderr
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    """What lies there would be run."""
    shared = tmp_path / "kept"
    shared.mkdir()
    shared.chmod(0o777)
    ran = run(tmp_path, "ours")

    assert "others may write" in ran.stderr

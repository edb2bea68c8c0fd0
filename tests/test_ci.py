"""The rule for skips: allowed on a reader's machine, a failure in CI unless a GPU is what is missing."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SUITE = """
import pytest

def test_skips():
    pytest.skip("no browser")

def test_needs_a_browser(browser):
    pass

@pytest.mark.gpu
def test_gpu():
    pytest.skip("no device")
"""
MODULE = "import pytest\npytest.importorskip('a_package_that_nobody_has')\n"


@pytest.mark.parametrize(
    ("ci", "failed"),
    [("", []), ("true", ["test_other.py", "test_skips", "test_needs_a_browser"])],
    ids=["at home", "in CI"],
)
def test_a_skip_is_a_failure_in_ci(tmp_path: Path, ci: str, failed: list[str]) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_other.py").write_text(MODULE)
    # No Chromium on this path, whatever the machine has.
    env = {**os.environ, "CI": ci, "PATH": str(tmp_path), "CHROMIUM": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        tmp_path,
        "-p",
        "no:cacheprovider",
    ]
    command += ["-o", "markers=gpu: x", "--continue-on-collection-errors", "-rfEs", "."]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    summary = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert len(summary) == len(failed), done.stdout
    assert all(any(name in line for line in summary) for name in failed), done.stdout
    assert (done.returncode == 0) == (not failed)


def test_ci_calls_the_same_command_as_people() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert script.read_text(encoding="utf-8").rstrip().endswith("make test")
    subprocess.run(["bash", "-n", script], check=True)

"""nbval in a process of its own: the verdict on one notebook, for tests about the labs' tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TIME_LIMIT = 300  # s; a lab needs ten


@dataclass(frozen=True)
class Verdict:
    """Counts of cells, and everything that was printed."""

    passed: int
    failed: int
    text: str


def verdict(notebook: Path, package: Path | None = None) -> Verdict:
    """Run nbval over ``notebook`` with the options of pyproject.toml.

    ``package``: a folder whose ringi_lab the kernel imports instead of the installed one.
    """
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(notebook.parent), "-q"]
    command += ["-p", "no:cacheprovider", "--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    if package is not None:
        env["PYTHONPATH"] = str(package)
    done = subprocess.run(
        [*command, notebook], cwd=notebook.parent, env=env, capture_output=True, text=True, timeout=TIME_LIMIT
    )
    text = done.stdout + done.stderr
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", text)}
    return Verdict(counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0), text)

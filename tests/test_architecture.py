"""Who may import whom: the contracts of pyproject.toml, and the rules that those cannot express."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]

# package from outside -> modules that may import it
OUTSIDE = {
    "torch": ("ringi_lab.core.cuda.*", "ringi_lab.*.measure"),
    "cuda": ("ringi_lab.core.cuda.*", "ringi_lab.*.measure"),
    "pynvml": ("ringi_lab.core.cuda.*", "ringi_lab.*.measure"),
    "matplotlib": ("ringi_lab.*.view", "ringi_lab.*.view.*"),
    "ipywidgets": ("ringi_lab.*.view", "ringi_lab.*.view.*"),
    "anywidget": ("ringi_lab.*.view", "ringi_lab.*.view.*"),
}


def outside_violations(folder: Path) -> list[str]:
    """Imports under ``folder``/ringi_lab that OUTSIDE does not allow, as ``module imports package``."""
    sys.path.insert(0, str(folder))
    loaded = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "ringi_lab"}
    try:
        graph = grimp.build_graph("ringi_lab", include_external_packages=True, cache_dir=None)
    finally:
        sys.path.remove(str(folder))
        sys.modules.update(loaded)
    found = []
    for package, allowed in OUTSIDE.items():
        for name in graph.modules:
            if name.split(".")[0] != package:
                continue
            for importer in graph.find_modules_that_directly_import(name):
                if not any(fnmatch(importer, pattern) for pattern in allowed):
                    found.append(f"{importer} imports {package}")
    return sorted(set(found))


def broken_contracts(folder: Path) -> tuple[list[str], str]:
    """Names of the contracts that the package under ``folder`` breaks, and what import-linter printed."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint, "--no-cache", "--no-logo", ROOT / "pyproject.toml"], cwd=folder, capture_output=True, text=True
    )
    text = done.stdout + done.stderr
    broken = re.findall(r"^(.+?) BROKEN", text, flags=re.MULTILINE)
    assert done.returncode == 0 or broken, text
    return broken, text


def test_contracts_hold() -> None:
    broken, text = broken_contracts(ROOT)
    assert not broken, text


def test_outside_packages_are_imported_where_they_belong() -> None:
    assert outside_violations(ROOT) == []


# A rule that cannot fail is worth nothing: each is broken once, in a copy of the package.
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/stats.py", "from ringi_lab import overlap", "Core imports no topic"),
        ("overlap/extra.py", "from ringi_lab.tma import experiments", "Topics stand on core"),
        ("newtopic/__init__.py", "", "Topics stand on core"),
        ("core/view/extra.py", "from ringi_lab.core import engine", "Views draw what they are given"),
        ("tma/view.py", "from ringi_lab.tma import measure", "Views draw what they are given"),
    ],
)
def test_contracts_can_break(tmp_path: Path, module: str, line: str, contract: str) -> None:
    copy_package(tmp_path)
    append(tmp_path / "ringi_lab" / module, line)
    broken, text = broken_contracts(tmp_path)
    assert any(name.startswith(contract) for name in broken), text


@pytest.mark.parametrize(
    ("module", "line", "violation"),
    [
        ("overlap/extra.py", "import torch", "ringi_lab.overlap.extra imports torch"),
        ("core/extra.py", "from cuda.core import Device", "ringi_lab.core.extra imports cuda"),
        ("core/extra.py", "def f():\n    import pynvml", "ringi_lab.core.extra imports pynvml"),
        ("overlap/extra.py", "import matplotlib.pyplot", "ringi_lab.overlap.extra imports matplotlib"),
    ],
)
def test_outside_rules_can_break(tmp_path: Path, module: str, line: str, violation: str) -> None:
    copy_package(tmp_path)
    append(tmp_path / "ringi_lab" / module, line)
    assert violation in outside_violations(tmp_path)


def test_import_is_light() -> None:
    """``import ringi_lab`` loads nothing heavy: a simulator must also start in a browser."""
    heavy = [
        "torch",
        "numpy",
        "matplotlib",
        "simpy",
        "ipywidgets",
        "anywidget",
        "jsonschema",
        "cuda",
        "pynvml",
    ]
    code = f"import sys, ringi_lab; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def copy_package(folder: Path) -> None:
    """Copy the package's code, and add a second topic for rules that speak of two."""
    shutil.copytree(
        ROOT / "ringi_lab", folder / "ringi_lab", ignore=shutil.ignore_patterns("*.pyc", "*.json")
    )
    for name in ("__init__", "experiments", "measure"):
        append(folder / "ringi_lab" / "tma" / f"{name}.py", "")


def append(path: Path, line: str) -> None:
    """Add ``line`` to a file that may not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(f"\n{line}\n")

"""Versions are written once: pyproject.toml says what may be, constraints.txt what is, and every other
file follows."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import ringi_lab

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()]
PYTHONS = ("3.11", "3.12", "3.13")


def environment(python: str) -> dict[str, str]:
    """Marker values on 64-bit Linux for a full version of Python."""
    linux = {"sys_platform": "linux", "os_name": "posix", "platform_machine": "x86_64", "extra": ""}
    minor = ".".join(python.split(".")[:2])
    return {**default_environment(), **linux, "python_version": minor, "python_full_version": python}


def pins_for(python: str) -> dict[str, str]:
    """Name and version of everything that is pinned for ``python``; fails where a name has two versions."""
    found: dict[str, str] = {}
    for pin in PINS:
        if pin.marker is None or pin.marker.evaluate(environment(python)):
            (spec,) = pin.specifier
            name = canonicalize_name(pin.name)
            assert name not in found, f"{name} is pinned twice for Python {python}"
            found[name] = spec.version
    return found


def direct() -> Iterator[Requirement]:
    """Everything that pyproject.toml asks for by name."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    yield from (Requirement(text) for group in groups for text in group)


def test_pins_are_exact_and_name_no_address() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "@" not in text
    for pin in PINS:
        assert [spec.operator for spec in pin.specifier] == ["=="], pin


def test_front_end_lock_names_no_address() -> None:
    text = (ROOT / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in text
    assert '"resolved"' not in text
    assert not (ROOT / "uv.lock").exists()


# Early and late patch releases: a few packages differ between them.
@pytest.mark.parametrize("python", [f"{python}.{patch}" for python in PYTHONS for patch in (0, 20)])
def test_pins_satisfy_the_project(python: str) -> None:
    pins = pins_for(python)
    for wanted in direct():
        version = pins.get(canonicalize_name(wanted.name))
        assert version, f"{wanted} is not pinned for Python {python}: make pins"
        assert wanted.specifier.contains(version), (
            f"{wanted.name} is pinned to {version}: {wanted} is asked for"
        )


def test_the_installed_packages_are_the_pinned_ones() -> None:
    """Everything that the book and the tests stand on, down to the last, has its pinned version."""
    pins = pins_for(platform.python_version())
    waiting = [Requirement("ringi-lab[book,test]")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        if name != "ringi-lab":
            assert importlib.metadata.version(name) == pins.get(name), f"{name}: installed and pinned differ"
        for text in importlib.metadata.requires(name) or []:
            below = Requirement(text)
            extras = [*wanted.extras, ""]
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(below)
    assert len(seen) > 100


def test_python_versions_are_the_same_everywhere() -> None:
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [v for v in ("3.10", *PYTHONS, "3.14") if supported.contains(v)] == list(PYTHONS)
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language")]
    assert named == list(PYTHONS)
    low, high = re.search(r"\((3, \d+)\) <= .* <= \((3, \d+)\)", (ROOT / "Makefile").read_text()).groups()
    assert [low.replace(", ", "."), high.replace(", ", ".")] == [PYTHONS[0], PYTHONS[-1]]


def test_gpu_environment_follows_the_project() -> None:
    """environment.yml has no version of its own but Python's, and installs this project as pinned."""
    wanted = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (from_pip,) = [entry["pip"] for entry in wanted if isinstance(entry, dict)]
    constraint, project = from_pip
    assert constraint == "--constraint constraints.txt"
    extras = re.fullmatch(r"--editable \.\[([\w,]+)\]", project).group(1).split(",")
    assert set(extras) == {"gpu", "book", "test"} <= set(PROJECT["optional-dependencies"])
    plain = [entry for entry in wanted if isinstance(entry, str)]
    assert [entry for entry in plain if re.search(r"[=<>]", entry)] == [plain[0]]
    name, version = plain[0].split("=")
    assert name == "python"
    assert version in PYTHONS


def test_version_is_written_once() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert importlib.metadata.version("ringi-lab") == ringi_lab.__version__
    assert "version" not in json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE).group(
        1
    )
    assert newest == ringi_lab.__version__


def test_wheel_carries_kernels_player_schemas_and_recordings(tmp_path: Path) -> None:
    """What an installed copy needs beside its modules travels with it."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(ZipFile(wheel).namelist())
    wanted = [
        p for p in (ROOT / "ringi_lab").rglob("*") if p.suffix in {".py", ".cu", ".js", ".css", ".json"}
    ]
    assert {p.relative_to(ROOT).as_posix() for p in wanted} <= inside

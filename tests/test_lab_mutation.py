"""A lab that passes whatever the code computes tests nothing: break each topic's main formula, and its
lab must fail."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import v4
from nbval_run import verdict
from pages import LABS

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """One wrong formula: ``new`` in place of ``old``, which stands once in ``file`` (under ringi_lab)."""

    topic: str
    file: str
    old: str
    new: str


MUTATIONS: list[Mutation] = [
    # A copy's rate is its bytes in flight over the latency; the latency loses what the GEMM adds to it.
    Mutation("overlap", "overlap/model.py", "by_gemm * share + by_link", "by_link"),
    # Clusters no longer hold their SMs against the copies.
    Mutation(
        "overlap",
        "overlap/simulator.py",
        "yield self.copy_pool.request(1, COPY_FIRST)",
        "self.copy_pool.free -= 1",
    ),
    # Every operation counts, also the ones that ran when the other side had ended.
    Mutation(
        "overlap",
        "overlap/analysis.py",
        "_mean(contained(block.copy_both, window, LEAD_IN))",
        "_mean(durations(block.copy_both))",
    ),
]


def mutated_package(folder: Path, mutation: Mutation) -> Path:
    """A copy of the package under ``folder`` with the mutation in it; the folder to put on the path."""
    shutil.copytree(ROOT / "ringi_lab", folder / "ringi_lab", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "ringi_lab" / mutation.file
    text = path.read_text(encoding="utf-8")
    count = text.count(mutation.old)
    assert count == 1, f"{mutation.file}: {mutation.old!r} occurs {count} times; the table needs exactly one"
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return folder


def lab_of(topic: str) -> Path:
    """The notebook of a topic."""
    (page,) = [page for page in LABS if page.endswith(f"_{topic}")]
    return ROOT / f"{page}.ipynb"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m.topic}: {m.old}")
def test_a_wrong_formula_fails_its_lab(tmp_path: Path, mutation: Mutation) -> None:
    # The notebook is copied away from the repository, whose package would come first on the path.
    lab = shutil.copy(lab_of(mutation.topic), tmp_path)
    found = verdict(Path(lab), package=mutated_package(tmp_path / "package", mutation))
    assert found.failed > 0, found.text


def test_every_lab_has_a_mutation() -> None:
    topics = {page.split("_", 1)[1] for page in LABS}
    assert topics <= {mutation.topic for mutation in MUTATIONS}


def test_the_copy_is_what_runs(tmp_path: Path) -> None:
    """The kernel imports the mutated copy and not the installed package."""
    mutation = Mutation("core", "__init__.py", '__version__ = "', '__version__ = "mutated-')
    package = mutated_package(tmp_path / "package", mutation)
    lab = tmp_path / "lab.ipynb"
    nbformat.write(
        v4.new_notebook(
            cells=[v4.new_code_cell("import ringi_lab\nassert 'mutated' in ringi_lab.__version__")]
        ),
        lab,
    )
    found = verdict(lab, package=package)
    assert (found.passed, found.failed) == (1, 0), found.text

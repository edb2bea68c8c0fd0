"""The labs as tests. Each lab's cells run in the same session as these tests (see pyproject.toml);
here it is shown that their verdict can be trusted: it repeats, it can fail, and it does not depend on
how a stream was cut."""

from __future__ import annotations

import shutil
from pathlib import Path

import notebooks
import pytest
from nbformat import v4
from nbval_run import verdict

ROOT = Path(__file__).parents[1]
LABS = sorted((ROOT / "labs").glob("*.ipynb"))


@pytest.mark.parametrize("lab", LABS, ids=lambda p: p.stem)
def test_a_second_run_gives_the_same_verdict(lab: Path, tmp_path: Path) -> None:
    """The session's own run is the first; a cell whose output is a timing would differ here.

    The second runs as the mutated labs do, away from the repository and on a copy of the package: what
    fails there fails because of the mutation.
    """
    code_cells = sum(c.cell_type == "code" for c in notebooks.parsed(lab.read_text(encoding="utf-8")).cells)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ringi_lab", tmp_path / "package" / "ringi_lab", ignore=ignore)
    second = verdict(Path(shutil.copy(lab, tmp_path)), package=tmp_path / "package")
    assert (second.passed, second.failed) == (code_cells, 0), second.text


def checked_notebook(folder: Path, sources: list[str]) -> Path:
    """A notebook of checked cells, run once and written in its committed form."""
    tags = {"tags": [notebooks.CHECKED]}
    cells = [v4.new_code_cell(s, id=f"cell-{n}", metadata=dict(tags)) for n, s in enumerate(sources)]
    path = folder / "lab.ipynb"
    path.write_text(
        notebooks.serialised(notebooks.normalised(v4.new_notebook(cells=cells))), encoding="utf-8"
    )
    notebooks.refresh(path)
    return path


def test_a_stream_cut_in_pieces_is_one_output(tmp_path: Path) -> None:
    """Several prints with a flush between them arrive in one or more messages: 20 of 20 cells pass."""
    cell = "import sys, time\nfor n in range(4):\n    print('part', n)\n    sys.stdout.flush()\n    time.sleep(0.02)"
    found = verdict(checked_notebook(tmp_path, [cell] * 20))
    assert (found.passed, found.failed) == (20, 0), found.text


def test_a_checked_cell_can_fail(tmp_path: Path) -> None:
    lab = checked_notebook(tmp_path, ["print(1)", "print(2)", "print(3)"])
    lab.write_text(lab.read_text(encoding="utf-8").replace('"print(2)"', '"print(2.5)"'), encoding="utf-8")
    found = verdict(lab)
    assert (found.passed, found.failed) == (2, 1), found.text

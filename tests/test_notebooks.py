"""The labs keep the rules for notebooks; and each rule is seen to catch a notebook that breaks it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import nbformat
import notebooks
import pytest
from nbformat import v4

LABS = sorted((Path(__file__).parents[1] / "labs").glob("*.ipynb"))


def test_there_are_labs() -> None:
    assert LABS


@pytest.mark.parametrize("path", LABS, ids=lambda p: p.stem)
def test_lab_keeps_the_rules(path: Path) -> None:
    assert notebooks.defects(path) == []


def stream(text: str) -> nbformat.NotebookNode:
    """One piece of stdout."""
    return v4.new_output("stream", name="stdout", text=text)


def good() -> nbformat.NotebookNode:
    """A notebook without a defect: one plain cell, three checked ones."""
    tags = {"tags": [notebooks.CHECKED]}
    cells = [v4.new_markdown_cell("# A lab", id="title"), v4.new_code_cell("a = 1", id="set")]
    for n in range(3):
        cells.append(
            v4.new_code_cell(
                f"print({n})",
                id=f"check-{n}",
                metadata=copy.deepcopy(tags),
                outputs=[stream(f"{n}\n")],
                execution_count=n + 2,
            )
        )
    notebook = v4.new_notebook(cells=cells)
    notebook.nbformat_minor = 5
    return notebooks.normalised(notebook)


def written(folder: Path, notebook: nbformat.NotebookNode) -> Path:
    """``notebook`` as the file lab.ipynb."""
    path = folder / "lab.ipynb"
    path.write_text(notebooks.serialised(notebook), encoding="utf-8")
    return path


def test_a_good_notebook_has_no_defect(tmp_path: Path) -> None:
    assert notebooks.defects(written(tmp_path, good())) == []


def set_cell(number: int, **fields: object) -> Callable[[nbformat.NotebookNode], None]:
    """A change of fields of one cell."""
    return lambda notebook: notebook.cells[number].update(fields)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda n: n.metadata.kernelspec.update(name="conda-env-gpu-py"),
            "metadata.kernelspec.name is 'conda-env-gpu-py'",
        ),
        (lambda n: n.metadata.pop("kernelspec"), "metadata.kernelspec.name is None"),
        (lambda n: n.update(nbformat_minor=4), "format 4.4: must be 4.5 or newer"),
        (lambda n: n.cells[1].pop("id"), "has no id"),
        (set_cell(1, id="title"), "cell id 'title' occurs 2 times"),
        (set_cell(1, source="name = input('who?')"), "cell 1 (set): asks for input"),
        (set_cell(1, source="import getpass\ngetpass.getpass()"), "asks for input"),
        (set_cell(1, source="a ="), "cannot run"),
        (set_cell(1, outputs=[stream("1\n")]), "has outputs but no tag"),
        (set_cell(1, execution_count=7), "has outputs but no tag"),
        (set_cell(2, outputs=[]), "it would check nothing"),
        (set_cell(2, execution_count=None), "it would check nothing"),
        (lambda n: n.cells.pop(), "2 cells are tagged nbval-check-output"),
        (set_cell(2, source="import time\nprint(time.perf_counter())"), "reads a clock"),
        (set_cell(2, source="%timeit 1 + 1"), "reads a clock"),
        (set_cell(2, outputs=[stream("<X object at 0x7f12ab34cd56>\n")]), "has an object's address"),
        (set_cell(2, outputs=[stream("1\n" * 6000)]), "more than 10000 characters"),
        (
            set_cell(2, outputs=[v4.new_output("display_data", data={"text/html": "<b>1</b>"})]),
            "not plain text on stdout",
        ),
        (set_cell(2, outputs=[stream("0"), stream("\n")]), "not in its committed form"),
        (set_cell(1, source="a = 1   "), "not in its committed form"),
        (lambda n: n.cells[1].metadata.update(collapsed=True), "not in its committed form"),
        (lambda n: n.metadata.update(colab={"provenance": []}), "not in its committed form"),
    ],
)
def test_each_rule_can_fail(
    tmp_path: Path, damage: Callable[[nbformat.NotebookNode], None], message: str
) -> None:
    notebook = good()
    damage(notebook)
    found = notebooks.defects(written(tmp_path, notebook))
    assert any(message in defect and defect.startswith("lab.ipynb: ") for defect in found), found


def test_what_is_no_notebook_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lab.ipynb"
    path.write_text("{", encoding="utf-8")
    assert notebooks.defects(path)[0].startswith("lab.ipynb: not a notebook of format 4")


def test_a_method_called_input_is_caught_and_a_variable_is_not() -> None:
    assert "input" in notebooks.calls("import builtins\nbuiltins.input()")
    assert "input" not in notebooks.calls("input_size = 3\nprint(input_size)  # input(")


def test_refresh_mends_what_it_can(tmp_path: Path) -> None:
    notebook = good()
    notebook.metadata["colab"] = {}
    notebook.cells[1].outputs = [stream("left over\n")]
    notebook.cells[2].source = "import sys\nprint(7, end='')\nsys.stdout.flush()\nprint(7)"
    path = written(tmp_path, notebook)
    assert notebooks.refresh(path)
    assert notebooks.defects(path) == []
    assert notebooks.parsed(path.read_text()).cells[2].outputs[0].text == "77\n"
    assert not notebooks.refresh(path), "a second refresh must change nothing"

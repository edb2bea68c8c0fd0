"""The rules for the notebooks in labs/, as a check and as a repair.

``python tools/notebooks.py labs`` runs every lab and writes it back in its committed form: the
outputs of cells tagged ``nbval-check-output`` are refreshed, all others are cleared, and the file is
brought into one spelling, so that a diff shows what an author changed and nothing else.

``defects`` says where a file departs from that form; the tests want it to find nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

CHECKED = "nbval-check-output"
MIN_CHECKED = 3
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# Everything else that editors leave in a cell's metadata says nothing about the lab.
CELL_METADATA = {"mystnb", "nbgrader", "tags"}
MAX_OUTPUT = 10_000  # characters in one checked output: a reader of the diff must be able to read it

# Calls whose result differs from run to run; a checked cell must print none of them.
CLOCKS = {"time", "perf_counter", "perf_counter_ns", "monotonic", "process_time", "timeit", "now", "utcnow"}
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
TIMING_MAGIC = re.compile(r"^\s*%{1,2}time", re.MULTILINE)


def parsed(text: str) -> NotebookNode:
    """The notebook in ``text``, as it is: nbformat's own reader would fill in what is missing."""
    return nbformat.v4.reads(text)


def is_checked(cell: NotebookNode) -> bool:
    """Whether the outputs of this cell are committed and compared."""
    return cell.cell_type == "code" and CHECKED in cell.metadata.get("tags", [])


def calls(source: str) -> set[str]:
    """Last names of everything that ``source`` calls (``time.time()`` gives ``time``).

    IPython's own syntax is translated first. Raises SyntaxError for a cell that cannot run.
    """
    tree = ast.parse(TransformerManager().transform_cell(source))
    targets = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        t.attr if isinstance(t, ast.Attribute) else t.id
        for t in targets
        if hasattr(t, "attr") or hasattr(t, "id")
    }


def normalised(notebook: NotebookNode) -> NotebookNode:
    """A copy of ``notebook`` in its committed form; outputs are kept only where they are checked."""
    result = parsed(nbformat.v4.writes(notebook))
    result.metadata = nbformat.from_dict(METADATA)
    result.nbformat_minor = max(5, result.nbformat_minor)
    for cell in result.cells:
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip("\n").split("\n"))
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in sorted(cell.metadata.items()) if k in CELL_METADATA}
        )
        if cell.cell_type != "code":
            continue
        if is_checked(cell):
            cell.outputs = merged(cell.outputs)
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = nbformat.from_dict({})
        else:
            cell.outputs, cell.execution_count = [], None
    return result


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream: where a stream is cut depends on timing."""
    result: list[NotebookNode] = []
    for output in outputs:
        last = result[-1] if result else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            result.append(output.copy())
    return result


def defects(path: Path) -> list[str]:
    """What is wrong with the lab at ``path``; each entry begins with the file's name and the cell."""
    text = path.read_text(encoding="utf-8")
    try:
        notebook = parsed(text)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        return [f"{path.name}: not a notebook of format 4: {error!r}"]
    return [f"{path.name}: {defect}" for defect in find_defects(notebook, text)]


def find_defects(notebook: NotebookNode, text: str) -> list[str]:
    """The defects of a parsed notebook whose file holds ``text``."""
    found: list[str] = []
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        version = f"{notebook.nbformat}.{notebook.nbformat_minor}"
        return [f"format {version}: must be 4.5 or newer, which gives cells their ids"]
    name = notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        found.append(f"metadata.kernelspec.name is {name!r}: must be 'python3', which every reader has")

    ids = Counter(cell.get("id") for cell in notebook.cells)
    found += [f"cell id {i!r} occurs {n} times: must be unique" for i, n in ids.items() if i and n > 1]
    for number, cell in enumerate(notebook.cells):
        found += [f"cell {number} ({cell.get('id')}): {defect}" for defect in cell_defects(cell)]

    checked = sum(is_checked(cell) for cell in notebook.cells)
    if checked < MIN_CHECKED:
        found.append(f"{checked} cells are tagged {CHECKED}: at least {MIN_CHECKED} are needed")
    if not found and serialised(normalised(notebook)) != text:
        found.append("not in its committed form: make outputs")
    return found


def cell_defects(cell: NotebookNode) -> list[str]:
    """The defects of one cell."""
    found: list[str] = []
    if not cell.get("id"):
        found.append("has no id")
    if cell.cell_type != "code":
        return found
    try:
        called = calls(cell.source)
    except SyntaxError as error:
        return [*found, f"cannot run: {error}"]
    if called & {"input", "getpass"}:
        found.append("asks for input, which stops every unattended run")
    if not is_checked(cell):
        if cell.outputs or cell.execution_count is not None:
            found.append(f"has outputs but no tag {CHECKED}")
        return found
    if not cell.outputs or cell.execution_count is None:
        found.append(f"is tagged {CHECKED} but has no outputs or was not run: it would check nothing")
    if called & CLOCKS or TIMING_MAGIC.search(cell.source):
        found.append("reads a clock, and its output is compared")
    for output in cell.outputs:
        shown = {"text/plain": output.text} if output.output_type == "stream" else output.get("data", {})
        if output.output_type == "error" or output.get("name") == "stderr" or set(shown) != {"text/plain"}:
            found.append("has a compared output that is not plain text on stdout")
            continue
        if ADDRESS.search(shown["text/plain"]):
            found.append("has an object's address in its compared output")
        if len(shown["text/plain"]) > MAX_OUTPUT:
            found.append(f"has a compared output of more than {MAX_OUTPUT} characters")
    return found


def serialised(notebook: NotebookNode) -> str:
    """The text of the file, as it is: nbformat's own writer would mend ids in silence."""
    return nbformat.v4.writes(notebook).rstrip("\n") + "\n"


def run(notebook: NotebookNode, folder: Path, timeout: int = 120) -> None:
    """Execute ``notebook`` in ``folder``, in place; an error or a cell beyond ``timeout`` seconds raises."""
    # Encrypted, because a kernel on a bare TCP port warns.
    config = Config({"KernelManager": {"transport_encryption": "auto"}})
    where: dict[str, Any] = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=where, config=config).execute()


def refresh(path: Path) -> bool:
    """Run the lab at ``path`` and write it back in its committed form; whether the file changed."""
    before = path.read_text(encoding="utf-8")
    notebook = normalised(parsed(before))
    run(notebook, path.parent)
    after = serialised(normalised(notebook))
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def main(folder: Path) -> int:
    """Refresh every lab in ``folder``; the exit status counts the labs that still have defects."""
    bad = 0
    for path in sorted(folder.glob("*.ipynb")):
        print(f"{path}: {'refreshed' if refresh(path) else 'unchanged'}")
        found = defects(path)
        bad += bool(found)
        for defect in found:
            print(f"  {defect}")
    return bad


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

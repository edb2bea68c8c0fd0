"""The rendered book: contents, titles, weight, no foreign host; and the build's own safety nets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
import ringi_book
from nbformat import v4
from pages import CHAPTERS, CONTENTS, LABS, MADE, PAGES, ROOT, TOC

# A page must open at once on a slow line: bytes of HTML, and of everything that a first visit loads.
HTML_BUDGET = 1_500_000
COLD_BUDGET = 4_000_000


class Tags(HTMLParser):
    """Every start tag of a page, as ``(name, attributes)``, and the text of its title."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.title = ""
        self.inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        self.found.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data: str) -> None:
        """Collect the title."""
        if self.inside == "title" and not self.title:
            self.title = data.strip()

    def loaded(self) -> list[str]:
        """Addresses that a browser fetches to show the page."""
        links = [a.get("href") for tag, a in self.found if tag == "link" and a.get("rel") in LOADING]
        sources = [
            a.get("src") for tag, a in self.found if tag in ("script", "img", "iframe", "source", "video")
        ]
        return [address for address in links + sources if address and not address.startswith("data:")]


LOADING = ("stylesheet", "preload", "icon", "modulepreload")
every_page = pytest.mark.parametrize("name", PAGES + MADE)


def local(site: Path, name: str, address: str) -> Path:
    """The file that an address on a page stands for."""
    return ((site / name).parent / address.split("?")[0].split("#")[0]).resolve()


# --- contents --------------------------------------------------------------------------------


def test_site_has_exactly_the_pages_of_the_contents(site: Path) -> None:
    built = {
        p.relative_to(site).with_suffix("").as_posix()
        for p in site.rglob("*.html")
        if "_static" not in p.parts
    }
    assert built == set(PAGES + MADE)


def test_every_chapter_and_lab_is_in_the_contents() -> None:
    on_disk = {p.relative_to(ROOT).with_suffix("").as_posix() for p in (ROOT / "chapters").glob("*.md")}
    on_disk |= {p.relative_to(ROOT).with_suffix("").as_posix() for p in (ROOT / "labs").glob("*.ipynb")}
    assert on_disk == set(CHAPTERS + LABS)


def test_each_lab_stands_under_its_chapter() -> None:
    """Number and noun name a topic everywhere: chapter, lab and package folder."""
    above = dict(CONTENTS)
    for lab in LABS:
        number, topic = re.fullmatch(r"labs/lab(\d\d)_(\w+)", lab).groups()
        assert above[lab] == f"chapters/{number}_{topic}"
        assert (ROOT / "ringi_lab" / topic / "__init__.py").exists()
    assert len(LABS) == len(CHAPTERS)
    assert TOC["root"] == "intro"


# --- pages -----------------------------------------------------------------------------------


@every_page
def test_page_says_its_language_and_title(site: Path, name: str) -> None:
    tags = Tags(site / f"{name}.html")
    assert dict(tags.found)["html"].get("lang") == "en"
    # The search page is the theme's own, with a separator of its own.
    own, book = re.split(" [—-] ", tags.title, maxsplit=1)
    assert book == "The Ringi workshop"
    assert own
    assert own != book


@every_page
def test_page_loads_only_its_own_files(site: Path, name: str) -> None:
    """Every script, style and picture is a file of the site that exists."""
    for address in Tags(site / f"{name}.html").loaded():
        assert not re.match(r"(https?:)?//", address), address
        assert local(site, f"{name}.html", address).is_file(), address


def test_styles_import_nothing_from_outside(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"]+", text), sheet


@every_page
def test_page_weight(site: Path, name: str, record_property: pytest.FixtureRequest) -> None:
    """HTML within its budget, and with everything that a first visit loads within the larger one."""
    page = site / f"{name}.html"
    html = page.stat().st_size
    parts = {a: local(site, page.relative_to(site).as_posix(), a).stat().st_size for a in Tags(page).loaded()}
    cold = html + sum(parts.values())
    record_property("html_bytes", html)
    record_property("cold_bytes", cold)
    heaviest = sorted(parts.items(), key=lambda item: -item[1])[:5]
    report = f"{name}: {html:,} bytes of HTML, {cold:,} with what it loads; heaviest: {heaviest}"
    assert html <= HTML_BUDGET, report
    assert cold <= COLD_BUDGET, report


def test_no_page_loads_thebe_or_require(site: Path) -> None:
    for name in PAGES:
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert "thebe" not in text.lower()
        assert "require.min.js" not in text


def test_no_output_shows_an_error_or_a_warning(site: Path) -> None:
    for name in PAGES:
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert "Traceback (most recent call last)" not in text.replace("\n", " ")
        assert 'class="output stderr' not in text


# --- the build stops where it should -----------------------------------------------------------


@pytest.fixture(scope="module")
def broken_build(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A book of four notebooks, each broken in another way, built with the settings of ours."""
    folder = tmp_path_factory.mktemp("broken")
    cells = {
        "asks": "answer = input('who?')",
        "raises": "raise ValueError('a fault')",
        "warns": "import sys\nprint('a warning', file=sys.stderr)",
        "cuts": CUTS_FRAMES,
    }
    for name, source in cells.items():
        notebook = v4.new_notebook(cells=[v4.new_markdown_cell(f"# {name}"), v4.new_code_cell(source)])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, folder / f"{name}.ipynb")
    (folder / "intro.md").write_text("# Front\n", encoding="utf-8")
    chapters = "".join(f"  - file: {name}\n" for name in cells)
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: intro\nchapters:\n{chapters}", encoding="utf-8")
    settings = (ROOT / "_config.yml").read_text(encoding="utf-8")
    for line in ("logo: _static/logo.svg", "  favicon: _static/favicon.svg"):
        settings = settings.replace(f"{line}\n", "")
    settings = settings.replace("ringi_book: book", f"ringi_book: {ROOT / 'book'}").replace("[vendor]", "[]")
    (folder / "_config.yml").write_text(settings, encoding="utf-8")
    (folder / "ringi_lab").symlink_to(ROOT / "ringi_lab")
    for name in ("constraints.txt", "references.bib"):
        (folder / name).write_text("", encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "-W", "-n", "--keep-going"]
    # An endless wait would be the fault itself, so the time limit is part of the test.
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, "NO_COLOR": "1"}
    )


# matplotlib drops the frames beyond its limit and says so in a log line only.
CUTS_FRAMES = """
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
plt.rcParams["animation.embed_limit"] = 0.01
figure, axes = plt.subplots()
image = axes.imshow(np.zeros((8, 8)))
page = FuncAnimation(figure, lambda n: [image], frames=5).to_jshtml()
plt.close(figure)
"""


@pytest.mark.parametrize("name", ["asks", "raises", "warns", "cuts"])
def test_build_stops_and_names_the_notebook(
    broken_build: subprocess.CompletedProcess[str], name: str
) -> None:
    assert broken_build.returncode != 0
    lines = [line for line in broken_build.stderr.splitlines() if f"{name}.ipynb" in line]
    assert any(re.search("WARNING|ERROR|CRITICAL", line) for line in lines), broken_build.stderr


def test_build_shows_the_cell_that_failed(broken_build: subprocess.CompletedProcess[str]) -> None:
    assert "answer = input('who?')" in broken_build.stdout + broken_build.stderr
    assert "ValueError" in broken_build.stdout + broken_build.stderr


def small_tree(folder: Path) -> Path:
    """A package with one module and one recording, and the pins."""
    (folder / "ringi_lab" / "recordings").mkdir(parents=True)
    (folder / "ringi_lab" / "model.py").write_text("x = 1\n")
    (folder / "ringi_lab" / "recordings" / "a.json").write_text("{}\n")
    (folder / "constraints.txt").write_text("numpy==2\n")
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "ringi_lab" / "model.py").write_text("x = 2\n"),
        lambda f: (f / "ringi_lab" / "new.py").write_text(""),
        lambda f: (f / "ringi_lab" / "recordings" / "a.json").write_text("{ }\n"),
        lambda f: (f / "ringi_lab" / "recordings" / "a.json").rename(
            f / "ringi_lab" / "recordings" / "b.json"
        ),
        lambda f: (f / "constraints.txt").write_text("numpy==3\n"),
    ],
    ids=["code", "new file", "recording", "renamed recording", "pins"],
)
def test_outputs_are_made_anew_after(tmp_path: Path, change: object) -> None:
    """What an output can depend on is part of the cache's key."""
    tree = small_tree(tmp_path)
    before = ringi_book.inputs_hash(tree)
    assert ringi_book.inputs_hash(tree) == before
    change(tree)
    assert ringi_book.inputs_hash(tree) != before


def test_outputs_are_of_the_present_package(site: Path) -> None:
    """The cache that the last build used carries the hash of the package as it is now."""
    caches = [p.name for p in (ROOT / ringi_book.CACHES).iterdir()]
    assert caches == [ringi_book.inputs_hash(ROOT)], "the book is older than the package: make book"


def test_front_end_versions_are_exact() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())


def test_licences_are_whole() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "END OF TERMS AND CONDITIONS" in (ROOT / "LICENSE").read_text()
    assert "Section 8 – Interpretation" in (ROOT / "LICENSE-TEXT").read_text(encoding="utf-8")

"""Which pages the book has, for the tests that look at each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))


def walk(entries: list[dict[str, Any]], parent: str | None = None) -> list[tuple[str, str | None]]:
    """``(page, page above it)`` in the order of the contents."""
    found = []
    for entry in entries:
        found.append((entry["file"], parent))
        found += walk(entry.get("sections", []), entry["file"])
    return found


CONTENTS = [(TOC["root"], None), *walk([entry for part in TOC["parts"] for entry in part["chapters"]])]
PAGES = [page for page, _ in CONTENTS]
# Pages that the builder adds; index is a copy of the first page.
MADE = ["genindex", "index", "search"]
CHAPTERS = [page for page in PAGES if page.startswith("chapters/")]
LABS = [page for page in PAGES if page.startswith("labs/")]

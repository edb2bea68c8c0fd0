"""Copy the front-end files that the book serves itself: ``python tools/vendor.py NODE_MODULES TARGET``.

They land at the site's root under ``_static/vendor`` and not in a static folder of the sources:
the book puts every script it finds there on every page.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

# MathJax: one bundle, the extensions that it loads on demand, and its fonts. The other bundles and
# output formats are never asked for.
MATHJAX = {
    "tex-chtml.js": "tex-chtml.js",
    "input/tex/extensions": "input/tex/extensions",
    "output/chtml/fonts/woff-v2": "output/chtml/fonts/woff-v2",
    "a11y": "a11y",
    "sre/mathmaps/base.json": "sre/mathmaps/base.json",
    "sre/mathmaps/en.json": "sre/mathmaps/en.json",
    "sre/mathmaps/nemeth.json": "sre/mathmaps/nemeth.json",
}


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, making the folders above it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def main(node_modules: Path, target: Path) -> None:
    """Fill ``target`` afresh from ``node_modules``."""
    shutil.rmtree(target, ignore_errors=True)
    for name, place in MATHJAX.items():
        copy(node_modules / "mathjax/es5" / name, target / "_static/vendor/mathjax" / place)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

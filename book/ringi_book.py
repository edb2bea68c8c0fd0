"""The book's own Sphinx extension: outputs are never older than the code that made them.

Notebooks are executed once and their outputs cached. The cache of myst-nb is keyed on a notebook's
cells alone, so a change in the package would leave old numbers and old pictures on the pages. Here
the cache's folder, and a configuration value that Sphinx compares with the last build's, carry a
hash of everything that an output can depend on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from sphinx.application import Sphinx
from sphinx.config import Config

CACHES = Path("_build/.jupyter_cache")
# The player's script and style, which the pages share with the notebooks' widget.
PLAYER = Path("ringi_lab/core/view")


def inputs_hash(root: Path) -> str:
    """Hash (16 hex digits) of the package, its recordings and the pinned versions under ``root``.

    File names count as well as bytes: a renamed recording is another recording.
    """
    digest = hashlib.sha256()
    files = [p for p in (root / "ringi_lab").rglob("*") if p.is_file() and p.suffix != ".pyc"]
    for path in sorted([*files, root / "constraints.txt"]):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def choose_cache(app: Sphinx, config: Config) -> None:
    """Point myst-nb at the cache of the present inputs and drop the caches of former ones."""
    root = Path(app.srcdir)
    key = inputs_hash(root)
    config.ringi_inputs = key
    caches = root / CACHES
    config.nb_execution_cache_path = str(caches / key)
    for old in caches.glob("*"):
        if old.name != key:
            shutil.rmtree(old) if old.is_dir() else old.unlink()


def serve_player(app: Sphinx, config: Config) -> None:
    """Put the player's two files among the site's static ones."""
    config.html_static_path += [str(Path(app.srcdir) / PLAYER / name) for name in ("player.js", "player.css")]


def load_player(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Load the player on the pages that show one."""
    if 'class="ringi-player"' in context.get("body", ""):
        app.add_js_file("player.js", loading_method="defer")
        app.add_css_file("player.css")


def write_front_page(app: Sphinx, exception: Exception | None) -> None:
    """Make index.html the first page itself: a redirect has no title and no language."""
    if exception is None and app.builder.format == "html":
        out = Path(app.outdir)
        shutil.copyfile(out / f"{app.config.root_doc}.html", out / "index.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    # Views read this in the kernels that Sphinx starts: a page has no kernel, so a view must not
    # offer controls that only a kernel can answer.
    os.environ["RINGI_STATIC"] = "1"
    app.add_config_value("ringi_inputs", "", "env", str)
    # The kernels of a build speak TCP on the loopback: encrypted, or each would warn about it.
    KernelManager.transport_encryption.default_value = "auto"
    # 800 is after myst-nb has registered its own values.
    app.connect("config-inited", choose_cache, priority=800)
    app.connect("config-inited", serve_player, priority=800)
    app.connect("html-page-context", load_player)
    app.connect("build-finished", write_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The time-line player for notebooks and pages: one object that every front end shows its own way."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import os
import sys
from pathlib import Path
from typing import Any

from ringi_lab.core.errors import FieldError
from ringi_lab.core.trace import Trace
from ringi_lab.core.view.still import describe, still_svg, time_text

SCRIPT = Path(__file__).with_name("player.js")
STYLE = Path(__file__).with_name("player.css")
SPEEDS = (0.1, 0.25, 0.5, 1, 2, 4)
# Set while a book is built: its pages have no kernel, so no widget may be made.
STATIC = "RINGI_STATIC"

# The script itself is a classic one, because a browser refuses modules on file:// pages.
WIDGET = """
export default {
	render({ model, el }) {
		const player = RingiPlayer.mount(el, model.get("trace"), model.get("options"));
		model.on("change:trace", () => player.setTrace(model.get("trace")));
		return () => player.destroy();
	},
};
"""


class Player:
    """Replays a trace: an animation where scripts run, a still picture elsewhere.

    ``trace`` is what is replayed; assigning another one changes what is on the screen.
    ``alt`` says in words what there is to see (default: lanes, kinds and times of the trace).
    ``speed`` is one of 0.1, 0.25, 0.5, 1, 2 and 4; at 1 the whole trace takes about eight seconds.
    ``height`` is that of the drawing in px, 80 to 2000 (default: what its lanes need).
    Raises :class:`~ringi_lab.core.errors.FieldError` for values outside these.

    A page that shows it needs player.js and player.css once, however many players it has.
    """

    def __init__(
        self, trace: Trace, *, alt: str | None = None, speed: float | None = None, height: int | None = None
    ) -> None:
        if alt is not None and len(alt.strip()) < 8:
            raise FieldError("alt", alt, "words that say what there is to see, or None")
        if speed is not None and speed not in SPEEDS:
            raise FieldError("speed", speed, f"one of {', '.join(map(str, SPEEDS))}")
        if height is not None and not 80 <= height <= 2000:
            raise FieldError("height", height, "80 to 2000 px")
        self._alt, self._speed, self._height = alt, speed, height
        self._widget: Any = None
        self._check(trace)
        self._trace = trace

    @staticmethod
    def _check(trace: Trace) -> None:
        if not isinstance(trace, Trace):
            raise FieldError("trace", type(trace).__name__, "a Trace")
        _data(trace)

    @property
    def trace(self) -> Trace:
        """What is replayed. Assigning a trace shows it at once wherever a widget is on the screen."""
        return self._trace

    @trace.setter
    def trace(self, trace: Trace) -> None:
        self._check(trace)
        self._trace = trace
        if self._widget is not None:
            self._widget.set_trait("options", self._options())
            self._widget.set_trait("trace", _rounded(trace))

    @property
    def alt(self) -> str:
        """What there is to see, in words."""
        return self._alt or describe(self._trace)

    def _options(self) -> dict[str, Any]:
        given = {"speed": self._speed, "height": self._height, "alt": self.alt}
        return {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        t = self._trace
        return (
            f"Player: {t.title} ({t.source} · {t.device}): {len(t.lanes)} lanes, "
            f"{len(t.spans)} spans, {time_text(t.end - t.start)}"
        )

    def html(self, hint: str = "") -> str:
        """The HTML of a page without a kernel: still and data, for player.js to bring to life.

        ``hint`` is one line of text below the picture. Equal players give equal HTML, byte for byte.
        """
        data, options = _data(self._trace), self._options()
        alt = html.escape(options.pop("alt"))
        svg = still_svg(self._trace)
        attributes = "".join(f' data-{name}="{value:g}"' for name, value in options.items())
        mark = hashlib.sha256(f"{data}{alt}{attributes}".encode("utf-8", "replace")).hexdigest()[:12]
        picture = base64.b64encode(svg.encode()).decode("ascii")
        # dark-light: the Sphinx theme would put a white ground behind other pictures in the dark.
        return (
            f'<div class="ringi-player" id="ringi-{mark}"{attributes}>'
            f'<img class="ringi-still dark-light" alt="{_utf8(alt)}" style="max-width:100%;height:auto" '
            f'src="data:image/svg+xml;base64,{picture}">'
            f'<script type="application/json">{data}</script></div>'
            + (f"<p>{html.escape(hint)}</p>" if hint else "")
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What Jupyter shows: a widget in a live kernel, HTML on a page, SVG, or one line of text."""
        view: dict[str, Any] = {}
        hint = ""
        if live_kernel():
            try:
                if self._widget is None:
                    self._widget = _widget_class()(trace=_rounded(self._trace), options=self._options())
                bundle = self._widget._repr_mimebundle_()
                bundle = bundle[0] if isinstance(bundle, tuple) else bundle or {}
                view = {kind: data for kind, data in bundle.items() if "widget" in kind}
            except Exception as error:  # whatever is wrong with the widgets, the notebook goes on
                self._widget = None
                why = f"{type(error).__name__}: {error}"
                hint = f"A still: the moving picture needs a working anywidget ({why})."
        return {
            **view,
            "text/html": self.html(hint),
            "image/svg+xml": still_svg(self._trace),
            "text/plain": repr(self),
        }


def page(*players: Player, title: str = "Time line") -> str:
    """A whole HTML document that shows players and needs nothing else: to save, send or test."""
    style, script = STYLE.read_text(encoding="utf-8"), SCRIPT.read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_utf8(html.escape(title))}</title>"
        "<style>:root { color-scheme: light dark } body { max-width: 60rem; margin: auto; padding: 8px }\n"
        f"{style}</style></head><body><main>{''.join(p.html() for p in players)}</main>"
        f"<script>{script}</script></body></html>\n"
    )


def live_kernel() -> bool:
    """Whether this runs in an IPython kernel whose reader can answer: not in a build of the book."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None and not os.environ.get(STATIC)


@functools.cache
def _widget_class() -> type:
    """The widget, made of the same script and style; imported late, because pages do without it."""
    import anywidget
    import traitlets

    class PlayerWidget(anywidget.AnyWidget):
        _esm = SCRIPT.read_text(encoding="utf-8") + WIDGET
        _css = STYLE.read_text(encoding="utf-8")
        trace = traitlets.Dict().tag(sync=True)
        options = traitlets.Dict().tag(sync=True)

    return PlayerWidget


def _rounded(trace: Trace) -> dict[str, Any]:
    """A trace as data with times and values of ten digits: far below a pixel, and a lighter page."""

    def short(value: float) -> float:
        return float(f"{value:.10g}")

    data = trace.to_dict()
    data["spans"] = [[i, name, short(a), short(b), *rest] for i, name, a, b, *rest in data["spans"]]
    data["events"] = [[i, name, short(at), *rest] for i, name, at, *rest in data["events"]]
    for counter in data["counters"]:
        counter["points"] = [[short(at), short(value)] for at, value in counter["points"]]
    return data


def _data(trace: Trace) -> str:
    """JSON that no string of a trace can break out of, whatever HTML it stands in."""
    try:
        text = json.dumps(_rounded(trace), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        limit = f"JSON data in all args, with finite numbers ({error})"
        raise FieldError("trace", trace.title, limit) from error
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _utf8(text: str) -> str:
    """Text that can be encoded: a lone surrogate, which a file name can bring in, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")

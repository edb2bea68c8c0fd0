"""Plots and tables in one house style: every one says what it shows, in words, and where it is from.

A picture is a card with its own ground that follows the page's light or dark colours, in a wide and a
narrow layout of which the page takes the one that fits. Sources differ in more than colour: what was
simulated is a line with hollow dots, what was recorded filled dots with their 95% interval, what was
measured here diamonds with theirs.
"""

from __future__ import annotations

import base64
import functools
import html
import io
import logging
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from ringi_lab.core.errors import FieldError
from ringi_lab.core.result import Result
from ringi_lab.core.stats import Estimate, median
from ringi_lab.core.trace import SOURCES
from ringi_lab.core.view.still import palette

WIDE, NARROW = 720, 360  # px; both layouts are drawn, the page takes one
BREAKPOINT = 640  # px of the page: below it the narrow layout is taken
PAD = 14
LINE = 18
TEXT, SMALL, HEAD = 12.0, 11.0, 15.0  # px
MOST_SVG = 60_000  # bytes of one layout

# What the player has no colour for. Darker than its bars, since lines and words need more contrast.
OWN = {
    "copy-ink": ("#a05e00", "#f0b13c"),
    "shared": ("#b84a00", "#f08a4b"),
    "apart": ("#00755a", "#35c99c"),
    "third": ("#8c3f75", "#e3a3cd"),
    "fourth": ("#4a6076", "#a9bccf"),
}
# Names of colours that a drawing may use; `kind-…` are the player's bars.
PLAYERS = ("bg", "ink", "mute", "line", "lane", *SOURCES)
KINDS = ("gemm", "copy", "wait", "spin")
SERIES = ("shared", "apart", "third", "fourth")


@functools.cache
def colours(theme: str = "light") -> dict[str, str]:
    """The house's colours by name for ``light`` or ``dark``: the player's, and some for lines and words."""
    player = palette(theme)
    found = {name: player[name] for name in PLAYERS}
    found |= {name: player[f"kind-{name}"].split()[0] for name in KINDS}
    return found | {name: pair[theme == "dark"] for name, pair in OWN.items()}


# --- sources ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Where numbers come from: ``name`` is one of simulated, measured, recorded; ``device`` a GPU."""

    name: str
    device: str
    date: str = ""
    driver: str = ""

    def __post_init__(self) -> None:
        if self.name not in SOURCES:
            raise FieldError("source", self.name, f"one of {', '.join(SOURCES)}")
        if not self.device.strip():
            raise FieldError("device", self.device, "the name of a GPU or of its specification")

    @property
    def label(self) -> str:
        """Source and device: ``recorded · NVIDIA H200``."""
        return f"{self.name} · {self.device}"

    @property
    def detail(self) -> str:
        """The label with the day and the driver, where there are any."""
        driver = f"driver {self.driver}" if self.driver else ""
        return ", ".join(filter(None, (self.label, self.date, driver)))


def source_of(result: Result) -> Source:
    """The source of a result; raises :class:`FieldError` for anything else."""
    if not isinstance(result, Result):
        raise FieldError("source", result, "a Result or a Source")
    p = result.provenance
    return Source(result.source, result.device, p.time[:10], p.driver)


def sources_of(things: Iterable[Source | Result]) -> tuple[Source, ...]:
    """The different sources of some results, in order; raises :class:`FieldError` when there is none."""
    found = dict.fromkeys(t if isinstance(t, Source) else source_of(t) for t in things)
    if not found:
        raise FieldError("sources", 0, "at least one result or source")
    return tuple(found)


# --- numbers for people -------------------------------------------------------------------------


def number(value: float) -> str:
    """A ratio or a time for reading: three significant digits, two decimals at least below 10."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.3g}"
    places = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{places}f}".replace("-", "\N{MINUS SIGN}")


def estimate_text(estimate: Estimate | None) -> str:
    """A value with its interval: ``3.89 (3.86–3.94)``; without one where it has none; ``refused`` for None."""
    if estimate is None:
        return "refused"
    if estimate.low == estimate.high:  # a simulation says one number and shall not look measured
        return number(estimate.value)
    return f"{number(estimate.value)} ({number(estimate.low)}–{number(estimate.high)})"


def percent(ratio: float) -> str:
    """A signed part of one as a percentage: ``+3.1%``."""
    return f"{100 * ratio:+.1f}%".replace("-", "\N{MINUS SIGN}")


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value, 1)


def _estimate(value: float | Estimate) -> Estimate:
    return value if isinstance(value, Estimate) else _exactly(float(value))


# --- the figure ---------------------------------------------------------------------------------

Draw = Callable[..., None]


class Figure:
    """A picture with its title, its words for those who cannot see it, and its sources.

    ``draw(*axes, narrow)`` draws on one Axes per panel in the colours of :func:`colours`; it is called
    once per layout and must do the same each time. ``title`` is the claim; ``alt`` says the finding with
    its numbers (20 characters and one digit at least). ``sources`` are Results or :class:`Source`;
    ``note`` is one more sentence for the caption. ``height`` (px, 40 to 1200) is that of a panel;
    ``panels`` the number or the relative heights of panels, ``beside`` sets them side by side where there
    is room; ``gap`` (px) is what lies between panels one below the other. ``left`` (px) is the room for
    tick labels. ``names`` are (words, colour) of series that cannot be named where they are drawn.
    ``marks=False`` leaves the sources' marks out of the key, for pictures in which one mark stands for two
    sources. Raises :class:`FieldError`.
    """

    def __init__(
        self,
        draw: Draw,
        *,
        title: str,
        alt: str,
        sources: Iterable[Source | Result],
        note: str = "",
        height: float = 260,
        panels: int | Sequence[float] = 1,
        beside: bool = False,
        gap: float = 74,
        left: float = 46,
        names: Sequence[tuple[str, str]] = (),
        marks: bool = True,
    ) -> None:
        if len(alt.strip()) < 20 or not re.search(r"\d", alt):
            raise FieldError("alt", alt, "the finding in words, with its numbers")
        if not title.strip():
            raise FieldError("title", title, "a claim in words")
        if not 40 <= height <= 1200:
            raise FieldError("height", height, "40 to 1200 px")
        self.title, self.sources, self.note = _legal(title), sources_of(sources), _legal(note)
        origin = " and ".join(s.label for s in self.sources)
        self.alt = f"{_legal(alt.strip()).rstrip('.')}. Source: {_legal(origin)}."
        self._draw, self._height, self._left, self._marks = draw, height, left, marks
        self._ratios = (1.0,) * panels if isinstance(panels, int) else tuple(panels)
        self._beside, self._gap, self._names = beside, gap, tuple(names)
        self._kept: dict[Any, Any] = {}

    @property
    def caption(self) -> str:
        """What stands below the picture: sources with day and driver, and the note."""
        return ". ".join(filter(None, ("; ".join(s.detail for s in self.sources), self.note)))

    def __repr__(self) -> str:
        return f"{self.title} [{'; '.join(s.detail for s in self.sources)}]\n{self.alt}"

    def svg(self, width: int = WIDE, theme: str = "auto") -> str:
        """A standalone SVG, ``width`` px wide (240 to 2000); the same bytes for the same data.

        ``theme`` is ``light``, ``dark`` or ``auto``, which follows the page it is shown on.
        """
        if theme not in ("auto", "light", "dark"):
            raise FieldError("theme", theme, "auto, light or dark")
        if (width, theme) not in self._kept:
            self._kept[width, theme] = _svg(self, width, theme)
        return self._kept[width, theme]

    def png(self, width: int = WIDE) -> bytes | None:
        """The picture as PNG at two dots per px; None where no font here has all of its characters."""
        if ("png", width) not in self._kept:
            self._kept["png", width] = _png(self, width)
        return self._kept["png", width]

    def html(self) -> str:
        """A ``<figure>`` that needs nothing else: both layouts, the alternative text, the caption."""
        wide, narrow = (_uri(self.svg(width)) for width in (WIDE, NARROW))
        # The classes and the inline style keep the Sphinx theme from putting a white ground behind it.
        return (
            '<figure class="ringi-figure" style="margin:1rem 0">'
            f'<picture><source media="(max-width:{BREAKPOINT}px)" srcset="{narrow}">'
            f'<img class="dark-light" alt="{html.escape(self.alt)}" src="{wide}" '
            'style="display:block;max-width:100%;height:auto;padding:0;background:none"></picture>'
            f'<figcaption style="text-align:left;margin:.3rem 0 0">{html.escape(self.caption)}</figcaption>'
            "</figure>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What Jupyter shows: HTML, a PNG where there is no HTML, words where there is neither."""
        png = self.png()
        picture = {} if png is None else {"image/png": base64.b64encode(png).decode("ascii")}
        return {"text/html": self.html(), **picture, "text/plain": repr(self)}


def figure(draw: Draw, **options: Any) -> Figure:
    """Make a :class:`Figure` of a drawing function; ``options`` are those of the class."""
    return Figure(draw, **options)


def _uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _legal(text: str) -> str:
    """Text without the characters that XML 1.0 forbids."""
    return re.sub(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


# --- rendering ----------------------------------------------------------------------------------

# Where a machine has one of these, a PNG can show Chinese; an SVG takes the reader's own fonts.
CJK = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "Droid Sans Fallback",
)


@functools.cache
def _families() -> list[str]:
    installed = {font.name for font in font_manager.fontManager.ttflist}
    # Matplotlib brings DejaVu Sans, which has the minus sign; others fill in what it lacks.
    return ["DejaVu Sans", *(name for name in CJK if name in installed)]


def _style() -> dict[str, Any]:
    c = colours()
    return {
        "axes.edgecolor": c["mute"],
        "axes.facecolor": "none",
        "axes.labelcolor": c["mute"],
        "axes.labelsize": TEXT,
        "axes.linewidth": 0.8,
        "axes.prop_cycle": mpl.cycler(color=[c["ink"]]),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.unicode_minus": True,
        "figure.facecolor": "none",
        "font.family": _families(),
        "font.size": TEXT,
        "grid.color": c["line"],
        "grid.linewidth": 0.8,
        "hatch.linewidth": 1.1,
        "hatch.color": c["mute"],
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
        "path.simplify": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "ringi",
        "text.color": c["ink"],
        "text.parse_math": False,
        "text.usetex": False,
        "xtick.color": c["line"],
        "xtick.labelcolor": c["mute"],
        "xtick.labelsize": SMALL,
        "xtick.major.size": 4,
        "xtick.minor.size": 0,
        "ytick.color": c["line"],
        "ytick.labelcolor": c["mute"],
        "ytick.labelsize": SMALL,
        "ytick.major.size": 0,
        "ytick.minor.size": 0,
    }


def _compose(what: Figure, width: int) -> Canvas:
    """Lay out title, key and panels, all in px from the top, and let the figure draw."""
    if not 240 <= width <= 2000:
        raise FieldError("width", width, "240 to 2000 px")
    narrow = width < 560
    title = _wrap(what.title, HEAD * 1.16, width - 2 * PAD)  # bold is wider
    labels = [_legal(s.label) for s in what.sources]
    step = max(_width(text, TEXT) for text in labels) + 44
    across = max(1, int((width - 2 * PAD + 16) // step))
    key_top = PAD + len(title) * (LINE + 1) + 4
    names_top = key_top + math.ceil(len(labels) / across) * LINE + 6
    names = _flow(what._names, width)
    top = names_top + (names[-1][1] + LINE + 2 if names else 0) + 26
    gap, foot = what._gap, 46  # below the last panel stand its ticks and its label
    count = len(what._ratios)
    beside = what._beside and not narrow
    tall = what._height * (1 if beside else sum(what._ratios)) + (0 if beside else gap * (count - 1))
    height = math.ceil(top + tall + foot)
    canvas = Canvas(figsize=(width / 72, height / 72), dpi=72)
    for i, text in enumerate(title):
        y = 1 - (PAD + 13 + i * (LINE + 1)) / height
        canvas.text(PAD / width, y, text, fontsize=HEAD, fontweight="bold", va="baseline")
    for i, (source, text) in enumerate(zip(what.sources, labels, strict=True)):
        x, y = PAD + i % across * step, key_top + i // across * LINE + 9
        if what._marks:
            _key(canvas, source.name, x, y)
        words = (x + (26 if what._marks else 0)) / width
        canvas.text(words, 1 - (y + 4) / height, text, color=colours()[source.name], va="baseline")
    for (text, colour), (x, down) in zip(what._names, names, strict=True):
        y = 1 - (names_top + down + 13) / height
        canvas.text(x / width, y, _legal(text), color=colours()[colour], fontweight="bold", va="baseline")
    axes, y = [], float(top)
    for i, ratio in enumerate(what._ratios):
        if beside:
            each = (width - (what._left + PAD) * count - PAD * (count - 1)) / count
            x, h, w = i * (each + what._left + 2 * PAD) + what._left, what._height, each
        else:
            x, h, w = what._left, what._height * ratio, width - what._left - PAD
        axes.append(canvas.add_axes((x / width, 1 - (y + h) / height, w / width, h / height)))
        y += 0 if beside else h + gap
    what._draw(*axes, narrow=narrow)
    return canvas


def _flow(names: Sequence[tuple[str, str]], width: int) -> list[tuple[float, float]]:
    """Places (px from the left, px down) of words that flow in lines."""
    places, x, y = [], float(PAD), 0.0
    for text, _ in names:
        wide = _width(text, TEXT * 1.16)
        if x > PAD and x + wide > width - PAD:
            x, y = float(PAD), y + LINE
        places.append((x, y))
        x += wide + 16
    return places


def _key(canvas: Canvas, source: str, x: float, y: float) -> None:
    """The mark of a source, as it is in the picture, at a place in px from the top left."""
    width, height = (72 * v for v in canvas.get_size_inches())
    colour = colours()["mute"]

    def line(xs: Sequence[float], ys: Sequence[float], **look: Any) -> None:
        canvas.add_artist(Line2D([v / width for v in xs], [1 - v / height for v in ys], **look))

    if source == "simulated":
        line([x, x + 18], [y, y], color=colour, linewidth=1.8)
    else:  # an interval bar
        line([x + 9, x + 9], [y - 7, y + 7], color=colour, linewidth=1.8)
    line([x + 9], [y], linestyle="none", **_look(source, colour))


def _render(what: Figure, width: int, backend: type, **options: Any) -> tuple[bytes, bool]:
    """The bytes of one format, and whether a font lacked a character."""
    out = io.BytesIO()
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    log.setLevel(logging.ERROR)  # that a Chinese font has no bold face is no news to a reader
    try:
        with mpl.rc_context(_style()), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            canvas = _compose(what, width)
            backend(canvas).print_figure(out, metadata=dict.fromkeys(options.pop("without")), **options)
    finally:
        log.setLevel(level)
    missing = [w for w in seen if re.match(r"Glyph .* missing from", str(w.message))]
    for other in seen:
        if other not in missing:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return out.getvalue(), bool(missing)


def _svg(what: Figure, width: int, theme: str) -> str:
    # Text stays text, so that the reader's fonts draw it: a character that no font here has is no matter.
    without = ("Date", "Creator", "Format", "Type")
    raw, _ = _render(what, width, FigureCanvasSVG, format="svg", without=without)
    text = raw.decode("utf-8")
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    body = text[text.index("<defs>") : text.rindex("</svg>")]
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"font(-family)?: ?([^;\"]*?)'DejaVu Sans'[^;\"]*", _plain_font, body)
    body = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), body)
    body = re.sub(r"\n\s*", "\n", body).replace("xlink:href", "href")
    body = re.sub(r"(<g\b[^>]*)>((?:\n<use [^>]*/>)+)", _shared_style, body)
    names = {value: name for name, value in colours().items()}
    used = dict.fromkeys(re.findall(r"(?<![\w&])#[0-9a-f]{6}\b", body))
    if strange := [value for value in used if value not in names]:
        raise FieldError("colour", strange, f"one of {', '.join(colours())}")
    body = re.sub(r"(?<![\w&])#[0-9a-f]{6}\b", lambda m: f"var(--{names[m[0]]})", body)
    wanted = ["bg", "line", *(names[value] for value in used)]

    def rule(which: str) -> str:
        values = ";".join(f"--{n}:{colours(which)[n]}" for n in dict.fromkeys(wanted))
        return f"svg{{{values}}}"

    styles = rule("dark" if theme == "dark" else "light")
    if theme == "auto":
        styles += f"@media (prefers-color-scheme:dark){{{rule('dark')}}}"
    font = palette("light")["font"].replace('"', "'")
    w, h = (f"{float(v):g}" for v in size.groups())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img">'
        f"<title>{html.escape(what.title)}</title><desc>{html.escape(what.alt)}</desc>"
        f"<style>{styles}text{{font-family:{font}}}</style>"
        f'<rect x=".5" y=".5" width="{float(w) - 1:g}" height="{float(h) - 1:g}" rx="10" '
        f'style="fill:var(--bg);stroke:var(--line)"/>\n{body}</svg>\n'
    )


def _plain_font(found: re.Match[str]) -> str:
    """A font without its family, which the document's own style gives."""
    if found[1]:
        return ""
    weight, size = re.match(r"\s*(\d+|bold)?\s*([\d.]+px)?", found[2]).groups()
    return ";".join(filter(None, (weight and f"font-weight:{weight}", size and f"font-size:{size}")))


def _shared_style(found: re.Match[str]) -> str:
    """A group of marks with the style they share said once."""
    styles = set(re.findall(r' style="[^"]*"', found[2]))
    if len(styles) != 1 or "style=" in found[1]:
        return found[0]
    style = styles.pop()
    return f"{found[1]}{style}>{found[2].replace(style, '')}"


def _png(what: Figure, width: int) -> bytes | None:
    ground = {"facecolor": colours()["bg"]}
    raw, missing = _render(
        what, width, FigureCanvasAgg, format="png", dpi=144, without=("Software",), **ground
    )
    return None if missing else raw


def _width(text: str, size: float) -> float:
    """About how wide a text is (px) in a wide font; CJK characters are square."""
    return size * sum(1.0 if c > "\u2e80" else 0.33 if c in " .,:;|'!iljtf()[]·" else 0.64 for c in text)


def _wrap(text: str, size: float, room: float) -> list[str]:
    """Lines of at most ``room`` px, broken at blanks and between CJK characters."""
    lines = [""]
    for word in re.findall(r"[\u2e80-\uffff]|[^\s\u2e80-\uffff]+\s*|\s+", text):
        if lines[-1] and _width((lines[-1] + word).rstrip(), size) > room:
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines]


# --- what drawings are made of -------------------------------------------------------------------


def axis(
    axes: Axes,
    *,
    x: str,
    y: str = "",
    x_log: bool = False,
    y_log: bool = False,
    x_ticks: Sequence[float] | None = None,
    y_ticks: Sequence[float] | None = None,
    x_names: Sequence[str] | None = None,
    grid: str = "y",
) -> None:
    """Labels with units, scales, ticks (values in data units; ``x_names`` say them) and a light grid.

    The y label stands level above the axis, where it can be read. ``grid`` is ``x``, ``y`` or ``both``.
    """
    if x_log:
        axes.set_xscale("log")
    if y_log:
        axes.set_yscale("log")
    axes.minorticks_off()
    for which, ticks, names in (("x", x_ticks, x_names), ("y", y_ticks, None)):
        if ticks is not None:
            said = names or [f"{t:g}".replace("-", "\N{MINUS SIGN}") for t in ticks]
            getattr(axes, f"set_{which}ticks")(ticks, said)
    axes.set_xlabel(x, labelpad=6)
    left = axes.get_position().x0 * axes.figure.get_figwidth() * 72
    if y:
        first = left < 100 or axes.get_position().x0 < 0.2
        place = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(y, (0, 1), (PAD - left if first else -32, 12), color=colours()["mute"], **place)
    axes.grid(axis=grid, zorder=0)
    axes.set_axisbelow(True)
    if grid == "y":
        axes.spines["left"].set_visible(False)


def _look(source: str, colour: str) -> dict[str, Any]:
    """The mark of a source in a colour."""
    if source == "simulated":
        return {
            "marker": "o",
            "markersize": 6,
            "markerfacecolor": colours()["bg"],
            "markeredgecolor": colour,
            "markeredgewidth": 1.6,
        }
    shape, size = ("D", 7.0) if source == "measured" else ("o", 7.5)
    return {
        "marker": shape,
        "markersize": size,
        "markerfacecolor": colour,
        "markeredgecolor": colours()["bg"],
        "markeredgewidth": 1.0,
    }


def marks(
    axes: Axes,
    source: str,
    xs: Sequence[float],
    ys: Sequence[float | Estimate],
    colour: str = "ink",
    *,
    along: str = "x",
    line: bool = True,
) -> None:
    """Draw values the way their source demands.

    ``simulated``: a line through hollow dots (``line=False`` for values that have no order);
    ``recorded``: filled dots; ``measured``: diamonds; both with the intervals of their Estimates.
    ``colour`` is a name of :func:`colours`; ``along="y"`` swaps the axes, for rows.
    """
    if source not in SOURCES:
        raise FieldError("source", source, f"one of {', '.join(SOURCES)}")
    c = colours()[colour]
    values = [_estimate(y) for y in ys]
    if source != "simulated":
        bars = [(x, v) for x, v in zip(xs, values, strict=True) if v.high > v.low]
        draw = axes.vlines if along == "x" else axes.hlines
        if bars:
            lows, highs = [v.low for _, v in bars], [v.high for _, v in bars]
            draw([x for x, _ in bars], lows, highs, color=c, linewidth=1.8, zorder=4)
    points = (xs, [v.value for v in values]) if along == "x" else ([v.value for v in values], xs)
    look = _look(source, c)
    joined = "-" if source == "simulated" and line else "none"
    axes.plot(*points, color=c, linestyle=joined, zorder=3 if source == "simulated" else 5, **look)


def label(
    axes: Axes,
    text: str,
    x: float,
    y: float,
    *,
    colour: str = "ink",
    shift: tuple[float, float] = (0, 0),
    align: str = "left",
    level: str = "center_baseline",
    bold: bool = False,
    size: float = TEXT,
    halo: bool = True,
) -> None:
    """Words at a point in data units, moved by ``shift`` px; on a halo of the ground where lines pass."""
    where = axes.transData + ScaledTranslation(shift[0] / 72, shift[1] / 72, axes.figure.dpi_scale_trans)
    box = {"facecolor": colours()["bg"], "edgecolor": "none", "pad": 1.5, "alpha": 0.82} if halo else None
    axes.text(
        x,
        y,
        _legal(text),
        transform=where,
        color=colours()[colour],
        fontsize=size,
        ha=align,
        va=level,
        fontweight="bold" if bold else "normal",
        bbox=box,
        zorder=6,
    )


def room(axes: Axes, low: float, ends: Iterable[tuple[float, str]], log: bool = False) -> float:
    """The right end of an x axis from ``low`` on which words fit behind each value (value, words)."""
    wide = axes.get_position().width * axes.figure.get_figwidth() * 72
    high = low
    for value, words in ends:
        left = wide - min(_width(words, TEXT) + 16, 0.8 * wide)
        stretch = wide / left
        high = max(high, low * (value / low) ** stretch if log else low + (value - low) * stretch)
    return high


# --- recorded points over a model ------------------------------------------------------------------


@dataclass(frozen=True)
class Series:
    """Values of one name from one source: ``x`` any numbers in order, ``y`` numbers or Estimates."""

    name: str
    source: Source
    x: tuple[float, ...]
    y: tuple[float | Estimate, ...]
    colour: str = "shared"

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or not self.x:
            counts = (len(self.x), len(self.y))
            raise FieldError(f"series {self.name!r}", counts, "as many x as y, at least one")
        if list(self.x) != sorted(set(self.x)):
            raise FieldError(f"series {self.name!r}", self.x, "x in ascending order, each once")

    def at(self, x: float) -> float:
        """The value at one of the series' x."""
        return _estimate(self.y[self.x.index(x)]).value


@dataclass(frozen=True)
class Error:
    """How far a model is from what it is held against: parts of the observed value (0.03 = 3%)."""

    median: float
    worst: float
    at: float
    count: int

    def __str__(self) -> str:
        many = f"median {100 * self.median:.1f}%, worst {100 * self.worst:.1f}%"
        return many if self.count > 1 else f"{100 * self.worst:.1f}%"


def error_between(observed: Series, model: Series) -> Error | None:
    """The model's relative error where both have a value; None where they share no x."""
    both = [x for x in observed.x if x in model.x]
    if not both:
        return None
    parts = {x: abs(model.at(x) / observed.at(x) - 1.0) for x in both}
    worst = max(parts, key=lambda x: parts[x])
    return Error(median(list(parts.values())), parts[worst], worst, len(both))


def draw_overlay(axes: Axes, series: Sequence[Series]) -> None:
    """Draw series by their sources, with a thin line from every observed point to the model's."""
    models = {s.name: s for s in series if s.source.name == "simulated"}
    for s in series:
        if s.source.name != "simulated" and s.name in models:
            both = [x for x in s.x if x in models[s.name].x]
            ends = [s.at(x) for x in both], [models[s.name].at(x) for x in both]
            look = {"color": colours()["mute"], "linewidth": 1.2, "linestyle": (0, (2, 1.5))}
            axes.vlines(both, *ends, zorder=2, **look)
        marks(axes, s.source.name, s.x, s.y, s.colour)


def errors_text(series: Sequence[Series]) -> str:
    """The model's errors in words, name by name; empty where nothing can be compared."""
    models = {s.name: s for s in series if s.source.name == "simulated"}
    found = []
    for s in series:
        if s.source.name != "simulated" and s.name in models:
            error = error_between(s, models[s.name])
            if error is not None:
                found.append(f"{s.name}: {error}")
    return "; ".join(found)


def overlay(
    series: Sequence[Series],
    *,
    title: str,
    x: str,
    y: str,
    alt: str = "",
    note: str = "",
    **look: Any,
) -> Figure:
    """Recorded or measured points over the model's line, with the error between them.

    A series of source ``simulated`` is the model of those of the same name. ``x`` and ``y`` are the axes'
    labels with units, ``look`` further options of :func:`axis`. The errors are part of the caption and of
    the alternative text, which is made of the data where ``alt`` is empty.
    """
    errors = errors_text(series)
    said = alt or " ".join(
        f"{s.name} ({s.source.name}): {y} from {number(_estimate(s.y[0]).value)} at {s.x[0]:g} "
        f"to {number(_estimate(s.y[-1]).value)} at {s.x[-1]:g}."
        for s in series
    )
    if errors:
        said = f"{said.rstrip('.')}. Model against observation: {errors}."
        note = f"{note.rstrip('.')}. Error of the model: {errors}".removeprefix(". ")

    def draw(axes: Axes, narrow: bool) -> None:
        axis(axes, x=x, y=y, **look)
        draw_overlay(axes, series)
        for s in {s.name: s for s in reversed(series)}.values():
            end = _estimate(s.y[-1]).value
            label(axes, s.name, s.x[-1], end, colour=s.colour, shift=(0, 14), align="right", bold=True)

    return Figure(draw, title=title, alt=said, sources=[s.source for s in series], note=note)


# --- tables -------------------------------------------------------------------------------------------

Cell = str | int | float | Estimate | None


class Table:
    """Rows with units and sources; see :func:`table`."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], title: str, caption: str) -> None:
        self.head, self.rows, self.title, self.caption = list(head), [list(r) for r in rows], title, caption

    def html(self) -> str:
        """The table as HTML, in a box that scrolls where the page is too narrow."""
        numeric = [
            all(re.match(r"[\d+−.]|refused|$", row[i]) for row in self.rows) for i in range(len(self.head))
        ]

        def cells(row: Sequence[str], tag: str) -> str:
            made = []
            for i, text in enumerate(row):
                kind = ' scope="row"' if tag == "td" and i == 0 else ' scope="col"' if tag == "th" else ""
                name = "th" if tag == "td" and i == 0 else tag
                side = "right" if numeric[i] else "left"
                words = html.escape(_legal(text))
                made.append(f'<{name}{kind} style="text-align:{side};padding:.2em .8em">{words}</{name}>')
            return f"<tr>{''.join(made)}</tr>"

        body = "".join(cells(row, "td") for row in self.rows)
        caption = f"<strong>{html.escape(self.title)}</strong><br>{html.escape(self.caption)}"
        return (
            '<div class="ringi-table" style="overflow-x:auto"><table class="table dataframe">'
            f'<caption style="caption-side:top;text-align:left">{caption}</caption>'
            f"<thead>{cells(self.head, 'th')}</thead><tbody>{body}</tbody></table></div>"
        )

    def __repr__(self) -> str:
        lines = [self.head, *self.rows]
        wide = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        text = ["  ".join(c.ljust(w) for c, w in zip(line, wide, strict=True)).rstrip() for line in lines]
        rule = "  ".join("-" * w for w in wide)
        return "\n".join([self.title, *textwrap.wrap(self.caption, 100), "", text[0], rule, *text[1:]])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """HTML, and aligned text."""
        return {"text/html": self.html(), "text/plain": repr(self)}


def table(
    head: Sequence[str | tuple[str, str]],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str,
    sources: Sequence[Source | Result],
    note: str = "",
) -> Table:
    """A table whose every number has a unit and a source.

    ``head`` names the columns, with a unit where there is one: ``("step", "ms")``. ``rows`` hold text,
    numbers (in that unit), Estimates (shown with their interval) or None ("–"). ``sources`` is one
    for all rows, or one per row, which adds a column where they differ. Raises :class:`FieldError`.
    """
    names = [h if isinstance(h, str) else f"{h[0]} ({h[1]})" for h in head]
    for i, row in enumerate(rows):
        if len(row) != len(head):
            raise FieldError(f"rows[{i}]", len(row), f"{len(head)} cells, one per column")
    if len(sources) not in (1, len(rows)):
        raise FieldError("sources", len(sources), f"1, or one for each of {len(rows)} rows")
    each = [s if isinstance(s, Source) else source_of(s) for s in sources]
    text = [[_cell(cell) for cell in row] for row in rows]
    different = sources_of(each)
    if len(different) > 1:
        names.append("source")
        text = [[*row, s.label] for row, s in zip(text, each, strict=True)]
    caption = ". ".join(filter(None, ("; ".join(s.detail for s in different), _legal(note))))
    return Table(names, text, _legal(title), caption)


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, Estimate):
        return estimate_text(value)
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else number(value)

"""A trace as one standing picture: the SVG that stands in for the player without scripts and in print.

Only the standard library, so that a page can be made anywhere. The colours are those of player.css.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from ringi_lab.core.errors import FieldError
from ringi_lab.core.trace import Counter, Span, Trace

STYLE = Path(__file__).with_name("player.css")
THEMES = ("auto", "light", "dark")
AHEAD = 0.26  # opacity of what is still to come at the play-head
MARGIN = 14
MOST_LABELS, MOST_MARKS = 60, 200
# Characters of path data for all bars, and for all counters: what keeps the file small whatever the trace.
BAR_BUDGET, COUNTER_BUDGET = 22_000, 6_000

# --- words and numbers for people; player.js says the same ------------------------------------


def time_text(seconds: float) -> str:
    """A time (s) with four significant digits in its own unit: ``"412.3 µs"``."""
    if seconds == 0:
        return "0 s"
    size, unit = _time_unit(seconds)
    return f"{_digits(seconds / size, 4)} {unit}"


def value_text(value: float, unit: str) -> str:
    """A quantity with its unit: rates by thousands (``"3.35 TB/s"``), bytes by 1024 (``"64 MiB"``)."""
    if unit == "s":
        return time_text(value)
    if unit == "B":
        return _scaled(value, 1024, ("", "Ki", "Mi", "Gi", "Ti"), unit)
    if re.search(r"/s$|^(Hz|W|J|FLOP)$", unit):
        return _scaled(value, 1000, ("", "k", "M", "G", "T", "P"), unit)
    return f"{_digits(value, 4)} {unit}".strip()


def _time_unit(seconds: float) -> tuple[float, str]:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= size * 0.9999:
            return size, unit
    return 1e-9, "ns"


def _digits(value: float, count: int) -> str:
    rounded = float(f"{value:.{count}g}")
    return str(int(rounded)) if rounded.is_integer() and abs(rounded) < 1e15 else repr(rounded)


def _scaled(value: float, base: int, prefixes: Sequence[str], unit: str) -> str:
    step = 0
    while abs(value) >= base * 0.9995 and step < len(prefixes) - 1:
        value /= base
        step += 1
    return f"{_digits(value, 3)} {prefixes[step]}{unit}"


def describe(trace: Trace) -> str:
    """What a reader who cannot see the picture must know: source, device, lanes and their times."""
    verb = {"simulated": "simulated for", "measured": "measured on", "recorded": "recorded on"}[trace.source]
    when = f"from {time_text(trace.start)} to {time_text(trace.end)}"
    text = f"Time line “{trace.title}”, {verb} {trace.device}, {when}."
    lanes = []
    for lane in trace.lanes[:8]:
        spans = trace.on(lane)
        count = Tally(s.kind for s in spans)
        took = {kind: math.fsum(s.duration for s in spans if s.kind == kind) for kind in count}
        kinds = ", ".join(f"{count[kind]} {kind} ({time_text(took[kind])} in all)" for kind in count)
        lanes.append(f"{lane}: {kinds or 'nothing'}")
    if len(trace.lanes) > 8:
        lanes.append(f"and {len(trace.lanes) - 8} more lanes")
    if lanes:
        text += f" {'; '.join(lanes)}."
    for counter in trace.counters:
        if counter.points:
            peak = value_text(_peak(counter), counter.unit)
            of = "" if counter.maximum is None else f" of {value_text(counter.maximum, counter.unit)}"
            text += f" {counter.name} up to {peak}{of}."
    return text


def _peak(counter: Counter) -> float:
    return max((v for _, v in counter.points), default=0.0)


# --- colours ----------------------------------------------------------------------------------


@functools.cache
def palette(theme: str) -> dict[str, str]:
    """The player's ``--rp-*`` values for ``"light"`` or ``"dark"``, without their prefix."""
    if theme not in THEMES[1:]:
        raise FieldError("theme", theme, "light or dark")
    css = STYLE.read_text(encoding="utf-8")
    found = {}
    for selector in (r"\.ringi-player", r"\.ringi-player \.rp-live\[data-dark\]")[: 1 + (theme == "dark")]:
        block = re.search(rf"^{selector} \{{(.*?)^\}}", css, re.DOTALL | re.MULTILINE)
        found.update(re.findall(r"--rp-([\w-]+): ([^;]+);", block[1]))
    return found


def kinds_in_order(trace: Trace) -> list[str]:
    """The kinds of a trace's spans: those with a colour of their own first, then as they appear."""
    known = palette("light")["kinds"].split()
    present = list(dict.fromkeys(s.kind for s in trace.spans))
    return [k for k in known if k in present] + [k for k in present if k not in known]


def _look(kind: str, kinds: Sequence[str], theme: str) -> tuple[str, str, bool]:
    """Fill, text colour and whether hatched."""
    colours = palette(theme)
    known = colours["kinds"].split()
    if kind == "wait":
        return colours["kind-wait"], colours["ink"], True
    if kind in known:
        fill, text = colours[f"kind-{kind}"].split()
        return fill, text, False
    rank = [k for k in kinds if k not in known].index(kind)
    others = sum(name.startswith("other-") for name in colours)
    fill, text = colours[f"other-{rank % others}"].split()
    return fill, text, rank >= others


def _styles(kinds: Sequence[str], theme: str, source: str) -> str:
    colours = palette(theme)
    rules = [
        f".bg{{fill:{colours['bg']}}}.ink{{fill:{colours['ink']}}}.mute{{fill:{colours['mute']}}}",
        f".lane{{fill:{colours['lane']}}}.grid{{stroke:{colours['line']}}}.head{{fill:{colours['head']}}}",
        f".edge{{stroke:{colours['ink']};stroke-opacity:.45}}.now{{stroke:{colours['ink']}}}",
        f".area{{fill:{colours['counter']}}}.curve{{stroke:{colours['counter']}}}",
        f".src{{stroke:{colours[source]}}}.srct{{fill:{colours[source]}}}",
    ]
    for i, kind in enumerate(kinds):
        fill, text, _ = _look(kind, kinds, theme)
        line = fill if kind == "wait" else text
        rules.append(f".k{i}{{fill:{fill}}}.s{i}{{stroke:{fill}}}.t{i}{{fill:{text}}}.h{i}{{stroke:{line}}}")
    return "".join(rules)


# --- drawing ----------------------------------------------------------------------------------

Row = tuple[float, float]  # top and height of a row of bars (px)
Bar = tuple[float, float, int]  # left, right (px) and kind


def _n(value: float) -> str:
    """A coordinate with one decimal, as short as it can be."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _clean(text: str) -> str:
    """Escaped, and without the characters that XML 1.0 does not allow."""
    legal = re.sub(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
    return escape(legal, {'"': "&quot;"})


def _width(text: str, size: float) -> float:
    """About how wide a text is (px): CJK glyphs are square, the others of three sorts."""

    def share(c: str) -> float:
        if c > "\u2e80":
            return 1.0
        return 0.36 if c in " .,:;|'!iljtfr()[]·" else 0.95 if c in "mwMW@%…" else 0.64

    return size * sum(map(share, text))


def _fit(text: str, size: float, room: float) -> str:
    if _width(text, size) <= room:
        return text
    kept = ""
    while len(kept) < len(text) and _width(kept + text[len(kept)] + "…", size) <= room:
        kept += text[len(kept)]
    return f"{kept}…" if len(kept) >= 3 else ""


def _rows(trace: Trace) -> tuple[dict[str, int], list[tuple[Span, int]]]:
    """How many rows each lane needs so that none of its spans hides another; the row of each span."""
    slack = (trace.end - trace.start) * 1e-6
    rows, placed = {}, []
    for lane in trace.lanes:
        ends: list[float] = []
        for span in trace.on(lane):
            row = next((i for i, end in enumerate(ends) if end <= span.start + slack), len(ends))
            ends[row : row + 1] = [span.end]
            placed.append((span, row))
        rows[lane] = len(ends) or 1
    return rows, placed


def _crowded(spans: Sequence[Bar], column: int) -> list[Bar]:
    """Many narrow bars of one row, drawn in whole columns of so many px.

    A column shows one kind or nothing. What it cannot show is carried over to the next, so that the
    areas stay in proportion to the times: a sparse row looks sparse, and no kind hides another.
    """
    filled: dict[int, dict[int, float]] = {}
    for left, right, kind in spans:
        first = int(left // column)
        for at in range(first, max(first, math.ceil(right / column) - 1) + 1):
            part = min(right, (at + 1) * column) - max(left, at * column)
            parts = filled.setdefault(at, {})
            parts[kind] = parts.get(kind, 0.0) + part
    owed: dict[int, float] = {}
    runs: list[Bar] = []
    for at, parts in sorted(filled.items()):
        for kind, part in parts.items():
            owed[kind] = owed.get(kind, 0.0) + part
        kind = max(parts, key=lambda k: (owed[k], -k))
        if owed[kind] < column / 2:
            continue
        owed[kind] -= column
        left = at * column
        if runs and runs[-1][1] == left and runs[-1][2] == kind:
            left = int(runs.pop()[0])
        runs.append((left, (at + 1) * column, kind))
    return runs


def _bar_paths(rows: Mapping[Row, Sequence[Bar]]) -> list[tuple[int, float, str]]:
    """Path data per kind, within the budget: ``(kind, width of the stroke or 0 for a filled outline, data)``.

    Wide bars are outlines, which get an edge; narrow ones are strokes, which take a third of the
    characters. Where even that is too much, every bar is a stroke, and then columns of whole pixels.
    """
    for narrow, column in ((5.0, 0), (math.inf, 0), *((math.inf, c) for c in (1, 2, 3, 4, 6, 8, 12, 16, 32))):
        data: dict[tuple[int, float], list[str]] = {}
        for (top, height), bars in rows.items():
            for a, b, kind in bars:
                if b - a > narrow:
                    box = f"M{_n(a + 0.4)} {_n(top + 0.5)}h{_n(b - a - 1.2)}v{_n(height - 1)}h{_n(1.2 + a - b)}z"
                    data.setdefault((kind, 0.0), []).append(box)
            thin = [bar for bar in bars if bar[1] - bar[0] <= narrow]
            thin = _crowded(thin, column) if column else thin
            for kind in sorted({bar[2] for bar in thin}):
                strokes = _strokes([bar for bar in thin if bar[2] == kind], top + height / 2)
                data.setdefault((kind, height), []).append(strokes)
        paths = [(kind, height, "".join(parts)) for (kind, height), parts in sorted(data.items())]
        if sum(len(path) for *_, path in paths) <= BAR_BUDGET:
            break
    return paths


def _strokes(bars: Sequence[Bar], middle: float) -> str:
    """One row's bars of one kind as strokes from left to right, at least a pixel long each."""
    data, at = "", 0.0
    for a, b, _ in bars:
        left, length = round(a, 1), round(max(b - a, 1.0), 1)
        data += f"m{_n(left - at)} 0h{_n(length)}" if data else f"M{_n(left)} {_n(middle)}h{_n(length)}"
        at = left + length
    return data


def _curve(counter: Counter, x: Sequence[float], top: float, foot: float, most: int, end: float) -> str:
    """Path data of a step function; where points crowd, each pixel bin keeps its highest and lowest."""
    peak = counter.maximum or _peak(counter) or 1.0
    ys = [foot - min(max(v / peak, 0.0), 1.0) * (foot - top) for _, v in counter.points]
    width = max((end - x[0]) / most, 0.1)
    data = [f"M{_n(x[0])} {_n(foot)}"]
    i = 0
    while i < len(x):
        j = i
        while j + 1 < len(x) and x[j + 1] - x[i] < width:
            j += 1
        data.append(f"H{_n(x[i])}V{_n(ys[i])}")
        if j > i:
            data.append(f"V{_n(min(ys[i : j + 1]))}V{_n(max(ys[i : j + 1]))}V{_n(ys[j])}")
        i = j + 1
    data.append(f"H{_n(end)}")
    return "".join(data)


def _ticks(start: float, end: float, width: float) -> list[tuple[float, str]]:
    size, unit = _time_unit(max(abs(start), abs(end)))
    least = (end - start) * 84 / width
    ten = 10.0 ** math.floor(math.log10(least))
    step = next(m for m in (1, 2, 5, 10) if m * ten >= least) * ten
    places = max(0, -math.floor(math.log10(step / size) + 1e-9))
    first, last = math.ceil(start / step - 1e-9), math.floor(end / step + 1e-9)
    return [(k * step, f"{k * step / size:.{places}f} {unit}" if k else "0") for k in range(first, last + 1)]


def still_svg(trace: Trace, time: float | None = None, width: int = 820, theme: str = "auto") -> str:
    """A whole, standalone SVG of a trace.

    ``time`` (s) puts a play-head there and draws what lies ahead of it pale; None shows everything done.
    ``width`` is in px, 240 to 4000. ``theme`` is ``light``, ``dark`` or ``auto``, which follows the
    reader's system. Raises :class:`~ringi_lab.core.errors.FieldError` for anything else.
    """
    if theme not in THEMES:
        raise FieldError("theme", theme, f"one of {', '.join(THEMES)}")
    if not 240 <= width <= 4000:
        raise FieldError("width", width, "240 to 4000 px")
    if time is not None and not math.isfinite(time):
        raise FieldError("time", time, "a finite number of seconds")
    return _Drawing(trace, time, width, theme).svg()


class _Drawing:
    """One still in the making: where things are, and the elements so far."""

    def __init__(self, trace: Trace, time: float | None, width: int, theme: str) -> None:
        self.trace, self.time, self.width, self.theme = trace, time, width, theme
        self.kinds = kinds_in_order(trace)
        self.marks = list(dict.fromkeys(e.kind for e in trace.events))
        self.rows, self.placed = _rows(trace)
        self.start = 0.0 if 0 < trace.start < 0.3 * trace.end else trace.start
        self.end = trace.end if trace.end > self.start else self.start + 1e-6
        self.at = trace.end if time is None else min(max(time, trace.start), trace.end)
        # Ids carry a hash of the content: several stills may stand in one document.
        seed = repr((trace, time, width, theme)).encode("utf-8", "replace")
        self.id = hashlib.sha256(seed).hexdigest()[:8]
        self.out: list[str] = []
        self.labels: list[tuple[str, float, float, float, float, str]] = []
        self.source = f"{trace.source} · {trace.device}"
        self.lay_out()

    def lay_out(self) -> None:
        """Fix the place of the legend, of each lane's box and of each counter's strip."""
        trace, width = self.trace, self.width
        self.badge = min(_width(self.source, 12) + 30, width - 2 * MARGIN)
        self.beside = _width(trace.title, 15) + self.badge + 20 <= width - 2 * MARGIN
        x, y = float(MARGIN), 50.0 if self.beside else 76.0
        self.legend = []
        for kind in [*self.kinds, *self.marks]:
            step = 38 + _width(kind, 12)
            if x + step > width - MARGIN and x > MARGIN:
                x, y = float(MARGIN), y + 19
            self.legend.append((kind, x, y))
            x += step
        self.top = y + (24 if self.legend else 0)

        self.names = [*trace.lanes, *(c.name for c in trace.counters)]
        self.above = width < 560 and len(trace.lanes) < 13
        readings = [f"max {value_text(_peak(c), c.unit)}" for c in trace.counters]
        widest = max([72.0, *(_width(name, 12) for name in self.names), *(_width(r, 12.5) for r in readings)])
        share = 0.22 if width < 560 else 0.3
        self.x0 = MARGIN if self.above else MARGIN + round(min(widest + 14, width * share))
        self.x1 = width - MARGIN

        halves = sum((n + 1) / 2 for n in self.rows.values()) or 1
        unit = min(max(math.floor(420 / halves) - (18 if self.above else 6), 5), 30)
        gap = 6 if unit > 12 else 2 if unit > 8 else 0
        y = self.top + 10
        self.boxes: dict[str, Row] = {}
        for lane, count in self.rows.items():
            y += 17 if self.above else 0
            self.boxes[lane] = (y, round(unit * (count + 1) / 2))
            y += self.boxes[lane][1] + gap
        self.strips = []
        for _ in trace.counters:
            y += 20 if self.above else 6
            self.strips.append(y)
            y += 42
        self.foot = y + 2
        self.height = self.foot + MARGIN

    def x(self, moment: float) -> float:
        """Where a time (s) is, in px."""
        return self.x0 + (moment - self.start) / (self.end - self.start) * (self.x1 - self.x0)

    def box(self, span: Span, row: int) -> tuple[float, float, float, float]:
        """Left, top, right and height of a span's bar, in px."""
        y, h = self.boxes[span.lane]
        bar = h / self.rows[span.lane]
        pad = 1 if bar > 8 else 0.5
        return self.x(span.start), y + row * bar + pad, self.x(span.end), max(bar - 2 * pad, 2)

    def text(self, words: str, x: float, y: float, look: str, size: float = 12, anchor: str = "") -> None:
        """Add a line of text; the class ``b`` makes it bold."""
        end = f' text-anchor="{anchor}"' if anchor else ""
        place = f'x="{_n(x)}" y="{_n(y)}" class="{look}" font-size="{size:g}"{end}'
        self.out.append(f"<text {place}>{_clean(words)}</text>")

    def rect(self, x: float, y: float, w: float, h: float, look: str, more: str = "") -> None:
        """Add a rectangle."""
        self.out.append(
            f'<rect class="{look}" x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}"{more}/>'
        )

    def header(self) -> None:
        """Title, source and device, legend."""
        room = self.width - 2 * MARGIN
        self.text(_fit(self.trace.title, 15, room), MARGIN, 26, "ink b", 15)
        x, y = (self.x1 - self.badge, 10) if self.beside else (MARGIN, 36)
        source = self.trace.source
        if source == "measured":
            self.rect(x + 1, y + 1, self.badge - 2, 22, "srct", ' rx="11"')
        else:
            line = ' stroke-dasharray="4 3" stroke-width="1.5"' if source == "simulated" else ""
            self.rect(x + 1, y + 1, self.badge - 2, 22, "src", f' fill="none" rx="11"{line}')
        if source == "recorded":  # a double line
            self.rect(x + 3, y + 3, self.badge - 6, 18, "src", ' fill="none" rx="9"')
        look = "bg b" if source == "measured" else "srct b"
        self.text(_fit(self.source, 12, self.badge - 16), x + self.badge / 2, y + 16, look, 12, "middle")
        for i, (kind, x, y) in enumerate(self.legend):
            if i < len(self.kinds):
                if kind != "wait":
                    self.rect(x, y - 10, 18, 12, f"k{i} edge", ' rx="3"')
                if self.hatched(i):
                    self.rect(x, y - 10, 18, 12, f"h{i}", f' rx="3" fill="url(#{self.id}h{i})"')
            else:
                self.mark(x + 9, y - 4, kind)
            self.text(kind, x + 23, y, "mute")

    def hatched(self, i: int) -> bool:
        """Whether the kind of that number carries a hatch."""
        return _look(self.kinds[i], self.kinds, "light")[2]

    def mark(self, x: float, y: float, kind: str) -> None:
        """Add an event's sign."""
        if self.marks.index(kind) % 2:
            self.out.append(f'<circle class="ink" cx="{_n(x)}" cy="{_n(y)}" r="4"/>')
        else:
            self.out.append(f'<path class="ink" d="M{_n(x)} {_n(y - 5)}l5 5l-5 5l-5-5z"/>')

    def ground(self) -> None:
        """Rows, grid, time axis and names."""
        x0, x1, top = self.x0, self.x1, self.top
        rows = [*self.boxes.values(), *((y, 42) for y in self.strips)]
        data = "".join(f"M{x0} {_n(y)}h{_n(x1 - x0)}v{_n(h)}h{_n(x0 - x1)}z" for y, h in rows)
        self.out.append(f'<path class="lane" d="{data}"/>')
        ticks = _ticks(self.start, self.end, x1 - x0)
        data = "".join(f"M{_n(self.x(t))} {_n(top + 5)}V{_n(self.foot)}" for t, _ in ticks)
        self.out.append(f'<path class="grid" d="{data}"/>')
        for moment, label in ticks:
            half = _width(label, 11) / 2
            left = x0 + half if self.above else x0
            self.text(label, min(max(self.x(moment), left), x1 - half), top - 2, "mute", 11, "middle")
        free = 0.0
        for i, (name, (y, h)) in enumerate(zip(self.names, rows, strict=True)):
            line = y - 5 if self.above else y + (h / 2 + 4 if i < len(self.boxes) else 16)
            if line < free:  # rows thinner than a line of text: name some of them
                continue
            free = line + 13
            if self.above:
                self.text(_fit(name, 12, (x1 - x0) * 0.6), x0 + 4, line, "ink")
            else:
                self.text(_fit(name, 12, x0 - MARGIN - 8), x0 - 8, line, "ink", 12, "end")

    def bars(self) -> None:
        """The spans, and the names of the widest."""
        rows: dict[Row, list[Bar]] = {}
        wide = []
        for span, row in self.placed:
            a, y, b, h = self.box(span, row)
            rows.setdefault((y, h), []).append((a, b, self.kinds.index(span.kind)))
            if b - a >= 22 and h >= 11:
                wide.append((a, y, b, h, span))
        for i, thick, data in _bar_paths(rows):
            wait, hatch = self.kinds[i] == "wait", f"url(#{self.id}h{i})"
            if thick:  # the stroke is the bar
                line = f'fill="none" stroke-width="{_n(thick)}" d="{data}"'
                if not wait:
                    self.out.append(f'<path class="s{i}" {line}/>')
                if self.hatched(i):
                    self.out.append(f'<path stroke="{hatch}" {line}/>')
                continue
            if not wait:
                self.out.append(f'<path class="k{i} edge" d="{data}"/>')
            if self.hatched(i):
                self.out.append(f'<path class="{f"h{i}" if wait else ""}" fill="{hatch}" d="{data}"/>')
        for a, y, b, h, span in sorted(wide, key=lambda one: one[0] - one[2])[:MOST_LABELS]:
            size = 11.5 if h >= 15 else 9.5
            if words := _fit(span.name, size, b - a - 8):
                self.labels.append((words, a, y, h, size, span.kind))

    def label(self, ahead: bool) -> None:
        """The names in the bars; pale bars take the colour of the other small print."""
        for words, x, y, h, size, kind in self.labels:
            if kind == "wait":  # text needs a quiet ground
                self.rect(x + 3, y + 2, _width(words, size) + 4, h - 4, "lane")
            look = "mute" if ahead else f"t{self.kinds.index(kind)}"
            self.text(words, x + 5, y + h / 2 + size * 0.36, look, size)

    def events(self) -> None:
        """The signs of the events."""
        for event in self.trace.events[:MOST_MARKS]:
            y, h = self.boxes[event.lane]
            x = self.x(event.time)
            self.out.append(f'<path class="now" d="M{_n(x)} {_n(y - 2)}v{_n(h + 4)}"/>')
            self.mark(x, y + h / 2, event.kind)

    def curves(self) -> None:
        """The counters' step functions."""
        most = max(COUNTER_BUDGET // 26 // max(len(self.strips), 1), 20)
        for counter, y in zip(self.trace.counters, self.strips, strict=True):
            if counter.points:
                xs = [self.x(t) for t, _ in counter.points]
                data = _curve(counter, xs, y + 4, y + 42, most, self.x(self.trace.end))
                look = 'class="area curve" fill-opacity=".28" stroke-width="1.5"'
                self.out.append(f'<path {look} d="{data}V{_n(y + 42)}"/>')

    def readings(self) -> None:
        """What the counters say: at the play-head, or at most where there is none."""
        for counter, y in zip(self.trace.counters, self.strips, strict=True):
            so_far = [v for t, v in counter.points if t <= self.at]
            if so_far:
                words = value_text(so_far[-1] if self.time is not None else _peak(counter), counter.unit)
                words = words if self.time is not None else f"max {words}"
                x, line = (self.x1 - 4, y - 5) if self.above else (self.x0 - 8, y + 33)
                self.text(words, x, line, "area b", 12, "end")
            if counter.maximum is not None:
                self.out.append(f'<path class="grid" d="M{self.x0} {_n(y + 3.5)}H{_n(self.x1)}"/>')
                words = f"of {value_text(counter.maximum, counter.unit)}"
                self.text(words, self.x1 - 4, y + 14, "mute", 10, "end")

    def split(self, first: int) -> None:
        """Make everything from element ``first`` on pale beyond the play-head; ring what is active."""
        body = "".join(self.out[first:])
        del self.out[first:]
        self.out += [
            f'<defs><g id="{self.id}b">{body}</g><clipPath id="{self.id}c">'
            f'<rect width="{_n(self.x(self.at))}" height="{_n(self.height)}"/></clipPath></defs>',
            f'<use href="#{self.id}b" opacity="{AHEAD}"/>',
        ]
        self.label(ahead=True)
        self.out.append(f'<g clip-path="url(#{self.id}c)"><use href="#{self.id}b"/>')
        self.label(ahead=False)
        self.out.append("</g>")
        for span, row in self.placed:
            if span.start <= self.at < span.end:
                a, y, b, h = self.box(span, row)
                self.rect(a - 1, y - 1, b - a + 2, h + 2, "now", ' fill="none" stroke-width="2" rx="4"')

    def head(self) -> None:
        """The play-head and its time."""
        x, label = self.x(self.at), time_text(self.at)
        half = _width(label, 11) / 2 + 7
        middle = min(max(x, MARGIN + half), self.width - MARGIN - half)
        self.out.append(f'<path class="head" d="M{_n(x - 1)} {_n(self.top)}h2V{_n(self.foot)}h-2z"/>')
        self.rect(middle - half, self.top - 14, 2 * half, 17, "head", ' rx="5"')
        self.text(label, middle, self.top - 2, "bg b", 11, "middle")

    def svg(self) -> str:
        """The document."""
        self.rect(0, 0, self.width, self.height, "bg", ' rx="10"')
        self.header()
        self.ground()
        first = len(self.out)
        self.bars()
        self.events()
        self.curves()
        if self.time is None:
            self.label(ahead=False)
        else:
            self.split(first)
        self.readings()
        # Framed like the badge: a simulated picture looks drawn even when cut out of its page.
        dash = ' stroke-dasharray="5 4"' if self.trace.source == "simulated" else ""
        size = (self.x1 - self.x0 + 1, self.foot - self.top - 5)
        self.rect(self.x0 - 0.5, self.top + 5.5, *size, "src", f' fill="none"{dash}')
        if self.time is not None:
            self.head()
        styles = _styles(self.kinds, "dark" if self.theme == "dark" else "light", self.trace.source)
        if self.theme == "auto":
            dark = _styles(self.kinds, "dark", self.trace.source)
            styles += f"@media (prefers-color-scheme:dark){{{dark}}}"
        hatches = "".join(
            f'<pattern id="{self.id}h{i}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<path class="h{i}" stroke-width="1.3" d="M-1 9L9 -1M-1 1L1 -1M7 9L9 7"/></pattern>'
            for i in range(len(self.kinds))
            if self.hatched(i)
        )
        size = f'width="{self.width}" height="{_n(self.height)}" viewBox="0 0 {self.width} {_n(self.height)}"'
        font = palette("light")["font"].replace('"', "'")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
            f'aria-labelledby="{self.id}t {self.id}d" font-family="{font}">'
            f'<title id="{self.id}t">{_clean(f"{self.trace.title} ({self.source})")}</title>'
            f'<desc id="{self.id}d">{_clean(describe(self.trace))}</desc>'
            f"<style>.b{{font-weight:650}}{styles}</style><defs>{hatches}</defs>{''.join(self.out)}</svg>\n"
        )

"""The pictures of overlap and k: results in, figures out. Nothing is computed here but ratios to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from ringi_lab.core.errors import FieldError
from ringi_lab.core.hardware import gpu_spec
from ringi_lab.core.result import Result, Samples, recorded
from ringi_lab.core.stats import Estimate, median, paired_ratio
from ringi_lab.core.validation import Point
from ringi_lab.core.view import controls
from ringi_lab.core.view.player import Player
from ringi_lab.core.view.plots import (
    SERIES,
    SMALL,
    Figure,
    Series,
    Source,
    Table,
    axis,
    colours,
    draw_overlay,
    errors_text,
    estimate_text,
    label,
    marks,
    number,
    percent,
    room,
    source_of,
    table,
)
from ringi_lab.core.view.still import describe
from ringi_lab.overlap import MiB, Summary, analysis, summary
from ringi_lab.overlap.analysis import POPULAR

NAMES = {
    "h2d": "host to device, copy engine",
    "d2h": "device to host, copy engine",
    "p2p": "to another GPU, copy engine",
    "d2d": "device to device, the driver's kernel",
}
SHORT = {"h2d": "H2D", "d2h": "D2H", "p2p": "P2P", "d2d": "D2D", "sm": "SM copy"}
PARAMETERS = {
    "gemm_n": "GEMM size N",
    "copy": "kind of copy",
    "size_mib": "one copy (MiB)",
    "copy_bytes": "one copy (bytes)",
    "sms": "SMs of an SM copy",
    "copy_sms": "SMs of an SM copy",
    "sm_margin": "SMs set apart",
}
SIDES = {"k_comm": ("copy-ink", "copy"), "k_comp": ("gemm", "GEMM")}
LOG_TICKS = (0.5, 0.7, 1, 1.2, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)


# --- k by competitor -----------------------------------------------------------------------------


def k_bars(results: Iterable[Result]) -> Figure:
    """k_comm and k_comp of each competitor with their intervals, the line at 1, the popular claim shaded.

    ``results``: ``overlap`` results of any sources; those of one setting share a row.
    """
    rows = _grouped(results)
    summaries = {name: [(r, summary(r)) for r in group] for name, group in rows.items()}
    values = [k.value for pairs in summaries.values() for _, s in pairs for k in (s.k_comm, s.k_comp) if k]
    firsts = [
        next((p for p in pairs if p[0].source != "simulated"), pairs[0]) for pairs in summaries.values()
    ]
    comm = [s.k_comm.value for _, s in firsts if s.k_comm]
    inside = sum(POPULAR[0] <= k <= POPULAR[1] for k in comm)
    title = (
        f"A copy is slowed {number(min(comm))}× to {number(max(comm))}×: "
        f"{inside} of {len(comm)} fall in the popular {POPULAR[0]:g}–{POPULAR[1]:g}"
        if comm
        else "No k of a copy: every one was refused"
    )
    alt = "; ".join(
        f"{name}, {r.source}: k_comm {estimate_text(s.k_comm)}, k_comp {estimate_text(s.k_comp)}"
        for name, pairs in summaries.items()
        for r, s in pairs
    )

    def draw(axes: Axes, narrow: bool) -> None:
        c = colours()
        low = min(0.93, *(v / 1.06 for v in values)) if values else 0.9
        said: dict[tuple[str, str], tuple[float, str]] = {}
        for name, pairs in summaries.items():
            for key, (_, what) in SIDES.items():
                ks = [(r, getattr(s, key)) for r, s in pairs]
                text = _several([(r.source, number(k.value) if k else "refused") for r, k in ks], narrow)
                end = max((k.high for _, k in ks if k), default=1.0)
                said[name, key] = (max(end, 1.0), f"{what} {text}" if narrow else f"{key} = {text}, {what}")
        top = room(axes, low, said.values(), log=True)
        axis(axes, x="k = time beside the other ÷ time alone (log scale)", x_log=True, grid="x",
             x_ticks=_ticks(low, top, (1, 1.4, 2, 3, 5, 10, 20, 50)))  # fmt: skip
        axes.set_xlim(low, top)
        axes.set_ylim(len(summaries) - 0.4, -0.68)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        popular = f"popular claim {POPULAR[0]:g}–{POPULAR[1]:g}"
        label(axes, popular, POPULAR[0], -0.68, colour="mute", shift=(0, 7), size=SMALL, halo=False)
        for i, (name, pairs) in enumerate(summaries.items()):
            # Lines and band stop where a row's name stands, so that nothing runs through words.
            lane = (i - 0.15, i + 0.42)
            axes.fill_between(POPULAR, *lane, color=c["mute"], alpha=0.2, linewidth=0, zorder=1)
            axes.vlines(1, *lane, color=c["ink"], linewidth=1.2, zorder=1)
            label(axes, name, 1, i - 0.31, bold=True, size=SMALL + 0.5)
            for side, (key, (colour, _)) in enumerate(SIDES.items()):
                y = i + 0.27 * side
                for r, s in pairs:
                    k = getattr(s, key)
                    if k is not None:
                        if r is pairs[0][0]:
                            axes.plot([1, k.value], [y, y], color=c[colour], linewidth=2.4, zorder=2)
                        marks(axes, r.source, [y], [k], colour, along="y", line=False)
                end, words = said[name, key]
                label(axes, words, end, y, colour=colour, shift=(10, -1), halo=False)

    sources = [r for group in rows.values() for r in group]
    height = 72 * len(summaries) + 8
    note = "k_comm is the copy's, k_comp the GEMM's; bars are 95% bootstrap intervals"
    return Figure(draw, title=title, alt=alt, sources=sources, height=height, left=16, note=note)


def k_table(results: Iterable[Result]) -> Table:
    """k_comm, k_comp, the overlap fraction and the time of the whole block, with their intervals."""
    found = list(results)
    rows = []
    for name, group in _grouped(found).items():
        for r in group:
            s = summary(r)
            rows.append((r, [name, s.k_comm, s.k_comp, s.fraction, _scaled(s.step, 1e3)]))
    head = ["beside the GEMM", "k_comm", "k_comp", "overlap fraction", ("block", "ms")]
    note = "Medians with their 95% bootstrap intervals"
    title = "What the two cost each other"
    return table(head, [row for _, row in rows], title=title, sources=[r for r, _ in rows], note=note)


# --- sweeps ----------------------------------------------------------------------------------------


def by_sms(observed: Iterable[Result], simulated: Iterable[Result] = ()) -> Figure:
    """k against the number of SMs of an ``sm`` copy, shared with the GEMM against set apart for it."""
    groups = {"shared with the GEMM": [], "set apart": []}
    for r in [*observed, *simulated]:
        if r.parameters["copy"] != "sm":
            raise FieldError("copy", r.parameters["copy"], "sm: other copies do not choose their SMs")
        groups["set apart" if r.parameters["sm_margin"] else "shared with the GEMM"].append(r)
    series = _series(groups, lambda r: r.parameters["copy_sms"])
    both = _ends(series["k_comm"])
    shared, apart = (both.get(name) for name in groups)
    if shared and apart:
        title = (
            f"Sharing SMs slows the copy up to {number(shared[1])}×, setting them apart "
            f"{number(apart[1])}× at most"
        )
    else:
        title = "k against the SMs that the copy runs on"
    sms = {x for group in series.values() for s in group for x in s.x}
    return _sweep(series, title, "SMs of the copy", {"x_ticks": _apart(sms)})


def by_size(observed: Iterable[Result], simulated: Iterable[Result] = ()) -> Figure:
    """k against the size of one copy (MiB), a line per kind of copy; at most four kinds."""
    groups: dict[str, list[Result]] = {}
    for r in [*observed, *simulated]:
        p = r.parameters
        sms = f" on {p['copy_sms']} SMs" if p["copy_sms"] else ""
        apart = ", set apart" if p["sm_margin"] else ""
        groups.setdefault(f"{SHORT[p['copy']]}{sms}{apart}", []).append(r)
    series = _series(groups, lambda r: r.parameters["copy_bytes"] / MiB)
    ends = _ends(series["k_comm"])
    first = max(ends, key=lambda n: ends[n][1])
    last = min(ends, key=lambda n: ends[n][1])
    title = (
        f"At any size {last} stays within {number(ends[last][1])}×, {first} reaches {number(ends[first][1])}×"
        if first != last
        else f"{first}: the copy is slowed {number(ends[first][0])}× to {number(ends[first][1])}×"
    )
    sizes = sorted({x for s in series["k_comm"] for x in s.x})
    names = [(name, colour) for name, colour in zip(groups, SERIES, strict=False)]
    return _sweep(series, title, "one copy (MiB, log scale)", {"x_log": True, "x_ticks": sizes}, names)


def _series(groups: Mapping[str, Sequence[Result]], x: Callable[[Result], float]) -> dict[str, list[Series]]:
    """Series of k_comm and of k_comp, one per group and source."""
    if len(groups) > len(SERIES):
        raise FieldError("results", len(groups), f"at most {len(SERIES)} kinds in one picture")
    found: dict[str, list[Series]] = {"k_comm": [], "k_comp": []}
    for colour, (name, results) in zip(SERIES, groups.items(), strict=False):
        for source in dict.fromkeys(source_of(r) for r in results):
            mine = sorted((r for r in results if source_of(r) == source), key=x)
            values = [(x(r), summary(r)) for r in mine]
            for key in found:
                points = [(at, getattr(s, key)) for at, s in values if getattr(s, key)]
                if points:
                    found[key].append(Series(name, source, *zip(*points, strict=True), colour))
    if not found["k_comm"] or not found["k_comp"]:
        raise FieldError("results", 0, "at least one with a k_comm and a k_comp")
    return found


def _ends(series: Sequence[Series]) -> dict[str, tuple[float, float]]:
    """Lowest and highest value by name; of observed series where there are any."""
    observed = [s for s in series if s.source.name != "simulated"] or series
    found: dict[str, list[float]] = {}
    for s in observed:
        found.setdefault(s.name, []).extend(_value(y) for y in s.y)
    return {name: (min(values), max(values)) for name, values in found.items()}


def _sweep(
    series: dict[str, list[Series]],
    title: str,
    x: str,
    look: Mapping[str, Any],
    names: Sequence[tuple[str, str]] = (),
) -> Figure:
    """k_comm and k_comp side by side; series are labelled where they end, or by ``names`` above."""
    words = []
    for key, group in series.items():
        for s in group:
            pairs = ", ".join(f"{number(_value(y))} at {at:g}" for at, y in zip(s.x, s.y, strict=True))
            words.append(f"{key}, {s.name}, {s.source.name}, by {x}: {pairs}")
    errors = {key: errors_text(group) for key, group in series.items()}
    words += [f"Error of the model of {key}: {text}" for key, text in errors.items() if text]
    note = ". ".join(f"Error of the model, {key}: {text}" for key, text in errors.items() if text)

    def draw(*panels: Axes, narrow: bool) -> None:
        for axes, (key, group) in zip(panels, series.items(), strict=True):
            what = SIDES[key][1]
            values = [v for s in group for y in s.y for v in _range(y)]
            low = min(0.95, min(values) / 1.03)
            high = max(max(values), 1.2) * (max(*values, 1.2) / low) ** 0.16  # room for the names
            axis(axes, x=x, y=f"{key}: how much slower the {what} gets", y_log=True,
                 y_ticks=_ticks(low, high, LOG_TICKS), **look)  # fmt: skip
            axes.set_ylim(low, high)
            axes.axhline(1, color=colours()["ink"], linewidth=1.2, zorder=1)
            draw_overlay(axes, group)
            xs = [at for s in group for at in s.x]
            if look.get("x_log"):
                axes.set_xlim(min(xs) / 1.5, max(xs) * 1.5)
            else:
                axes.set_xlim(0, max(xs) * 1.05)
            if not names:
                _name_series(axes, group)

    sources = [s.source for group in series.values() for s in group]
    room_of = {"height": 250, "panels": 2, "beside": True, "names": names}
    return Figure(draw, title=title, alt=". ".join(words), sources=sources, note=note, **room_of)


def _name_series(axes: Axes, group: Sequence[Series]) -> None:
    """Name each series above its last point; names that would collide are moved apart."""
    last: dict[str, tuple[float, float, str]] = {}
    for s in group:
        end = (s.x[-1], _value(s.y[-1]), s.colour)
        last[s.name] = max(end, last.get(s.name, end))
    taken: list[float] = []
    for name, (at, y, colour) in sorted(last.items(), key=lambda item: item[1][1]):
        height = axes.transData.transform((at, y))[1] + 14
        while any(abs(height - t) < 16 for t in taken):
            height += 4
        taken.append(height)
        shift = height - axes.transData.transform((at, y))[1]
        label(axes, name, at, y, colour=colour, shift=(4, shift), align="right", bold=True)


# --- the whole step --------------------------------------------------------------------------------


def step_time(results: Iterable[Result], simulated: Iterable[Result] = ()) -> Figure:
    """Time of a step of fixed work against the SMs given to the copy; the best number is marked.

    ``results``: of one source, one number of SMs each (``grid.step``). Lines: both sides one after the
    other (serial), and the slower of the two alone (ideal), both with these SMs set apart.
    """
    observed = sorted(results, key=lambda r: r.parameters["sm_margin"])
    model = sorted(simulated, key=lambda r: r.parameters["sm_margin"])
    for r in [*observed, *model]:
        if not r.parameters["sm_margin"]:
            raise FieldError("sm_margin", 0, "SMs set apart for the copy")
    if not observed:
        raise FieldError("results", 0, "at least one")
    xs = tuple(float(r.parameters["sm_margin"]) for r in observed)
    steps = [_scaled(r.samples["together"].bootstrap(), 1e3) for r in observed]
    serial = [1e3 * (r.median("gemm_alone") + r.median("copy_alone")) for r in observed]
    ideal = [1e3 * max(r.median("gemm_alone"), r.median("copy_alone")) for r in observed]
    series = [Series("step", source_of(observed[0]), xs, tuple(steps), "ink")]
    if model:
        at = tuple(float(r.parameters["sm_margin"]) for r in model)
        series.append(
            Series("step", source_of(model[0]), at, tuple(1e3 * r.median("together") for r in model), "ink")
        )
    best = min(range(len(xs)), key=lambda i: steps[i].value)
    tied = [i for i, s in enumerate(steps) if s.low <= steps[best].high]
    which = _list([f"{xs[i]:g}" for i in tied], "or")
    shortest = number(steps[best].value)
    worst = max(range(len(xs)), key=lambda i: steps[i].value)
    title = f"The shortest step, {shortest} ms, gives the copy {which} SMs"
    if worst != best:
        title += f"; {xs[worst]:g} SMs make it {number(steps[worst].value / steps[best].value)}× as long"
    counts = _work(observed[0])
    alt = f"Time of a step of {counts} by SMs given to the copy: " + ", ".join(
        f"{estimate_text(s)} ms at {x:g} (serial {number(a)}, ideal {number(b)})"
        for x, s, a, b in zip(xs, steps, serial, ideal, strict=True)
    )
    alt += f". Shortest: {shortest} ms at {which} SMs"
    errors = errors_text(series)
    if errors:
        alt += f". Error of the model: {errors}"

    def draw(axes: Axes, narrow: bool) -> None:
        c = colours()
        axis(axes, x="SMs given to the copy, the others to the GEMM", y="time of the step (ms)", x_ticks=xs)
        axes.set_ylim(0, max(serial) * 1.08)
        axes.set_xlim(0, xs[-1] * 1.04)
        axes.plot(xs, serial, color=c["mute"], linewidth=1.4, linestyle=(0, (5, 3)), zorder=2)
        axes.plot(xs, ideal, color=c["mute"], linewidth=1.4, linestyle=(0, (1, 2)), zorder=2)
        axes.fill_between(xs, ideal, serial, color=c["mute"], alpha=0.08, linewidth=0, zorder=0)
        for name, y, shift in (("serial", serial[-1], 13), ("ideal", ideal[-1], -17)):
            label(axes, name, xs[-1], y, colour="mute", shift=(0, shift), align="right", halo=False)
        draw_overlay(axes, series)
        for i in tied:
            axes.plot([xs[i]], [steps[i].value], marker="o", markersize=17, markerfacecolor="none",
                      markeredgecolor=c["shared"], markeredgewidth=2, zorder=6)  # fmt: skip
        middle = sum(xs[i] for i in tied) / len(tied)
        lowest = min([*ideal, steps[best].value])
        text = f"{which} SMs: {shortest} ms"
        label(
            axes, text, middle, lowest, colour="shared", shift=(0, -26), align="center", bold=True, halo=False
        )

    note = f"A step is {counts}; serial and ideal (the slower side alone) are with the same SMs set apart"
    note += f". Error of the model: {errors}" if errors else ""
    return Figure(draw, title=title, alt=alt, sources=[s.source for s in series], note=note, height=300)


# --- the model against the recording -----------------------------------------------------------------


def model_against_recording(
    points: Iterable[Point], sources: Sequence[Source | Result] | None = None, bound: float = 0.13
) -> Figure:
    """Predicted against recorded k; points kept out of the fit are filled, those of the fit small rings.

    ``points``: of ``ringi_lab.core.validation``, with quantities k_comm and k_comp. ``sources``: those of
    both sides (default: the recording that ships, and the model of that GPU). ``bound``: half-width of the drawn band (0.13 = ±13%).
    """
    found = list(points)
    if sources is None:
        observed = next(iter(recorded("overlap")))
        sources = [observed, Source("simulated", gpu_spec(observed.device).name)]
    held = [p for p in found if p.held_out]
    if not held:
        raise FieldError("points", len(found), "at least one that was kept out of the fit")
    errors = {q: [abs(p.error) for p in held if p.quantity == q] for q in SIDES}
    errors = {q: values for q, values in errors.items() if values}
    middle = median([e for values in errors.values() for e in values])
    within = sum(e <= bound for values in errors.values() for e in values)
    title = (
        f"On {len(held)} points it never saw, the model is off by {100 * middle:.1f}% in the median; "
        f"{within} of them lie within ±{100 * bound:g}%"
    )
    alt = "; ".join(
        f"{q}: {len(v)} points kept out of the fit, median error {100 * median(v):.1f}%, "
        f"worst {100 * max(v):.1f}%"
        for q, v in errors.items()
    )

    def draw(*panels: Axes, narrow: bool) -> None:
        c = colours()
        for axes, q in zip(panels, errors, strict=True):
            mine = [p for p in found if p.quantity == q]
            ends = [v for p in mine for v in (p.predicted, p.recorded)]
            low, high = min(ends) / 1.06, max(ends) * 1.1
            ticks = _ticks(low, high, LOG_TICKS if high < 4 else (1, 2, 3, 5, 10, 20, 50))
            axis(axes, x=f"{q} recorded", y=f"{q} simulated", x_log=True, y_log=True, x_ticks=ticks,
                 y_ticks=ticks, grid="both")  # fmt: skip
            line = [low, high]
            axes.fill_between(line, [v / (1 + bound) for v in line], [v * (1 + bound) for v in line],
                              color=c["mute"], alpha=0.14, linewidth=0, zorder=0)  # fmt: skip
            axes.plot(line, line, color=c["mute"], linewidth=1.2, zorder=1)
            axes.set_xlim(low, high)
            axes.set_ylim(low, high)
            colour = c[SIDES[q][0]]
            for out, look in (
                (False, {"markersize": 4, "markerfacecolor": "none", "markeredgecolor": c["mute"]}),
                (True, {"markersize": 6.5, "markerfacecolor": colour, "markeredgecolor": c["bg"]}),
            ):
                some = [p for p in mine if p.held_out is out]
                axes.plot([p.recorded for p in some], [p.predicted for p in some], linestyle="none",
                          marker="o", markeredgewidth=0.8, zorder=3 + out, **look)  # fmt: skip
            words = f"median error {100 * median(errors[q]):.1f}%\nworst {100 * max(errors[q]):.1f}%"
            axes.annotate(words, (0, 1), (8, -8), xycoords="axes fraction", textcoords="offset points",
                          va="top", color=colour, fontweight="bold", linespacing=1.35)  # fmt: skip
            axes.annotate(f"band: ±{100 * bound:g}%", (1, 0), (-8, 8), xycoords="axes fraction",
                          textcoords="offset points", ha="right", color=c["mute"])  # fmt: skip

    fitted = len(found) - len(held)
    note = f"Filled: the {len(held)} points kept out of the fit; small rings: the {fitted} it was fitted on"
    look = {"height": 280, "panels": len(errors), "beside": True, "marks": False}
    return Figure(draw, title=title, alt=alt, sources=sources, note=note, **look)


# --- one result, closer -------------------------------------------------------------------------------


def samples(result: Result, side: str = "gemm") -> Figure:
    """Raw times (ms) of one operation in the order they were taken, and the SM clock (GHz) beside them.

    ``side``: ``gemm`` or ``copy``. Solo and overlapped operations of an interleaved result share their
    trial numbers; of a sequential one the overlapped blocks came after all others, and are drawn there.
    """
    if side not in ("gemm", "copy"):
        raise FieldError("side", side, "gemm or copy")
    names = [n for n in (f"{side}_solo", f"{side}_overlap") if n in result.samples]
    if not names:
        raise FieldError("result", result.experiment, f"a result with samples {side}_solo")
    trials = len(result.samples[names[0]].values)
    late = result.parameters.get("order") == "sequential"
    solo, both = f"{side}_solo", f"{side}_overlap"
    # Blocks of a sequential run: all GEMMs, then all copies, then both together.
    start = {solo: trials if late and side == "copy" else 0, both: 2 * trials if late else 0}
    clocks = {n: result.samples.get(f"sm_clock_{b}") for n, b in ((solo, side), (both, "both"))}
    clocks = {n: s for n, s in clocks.items() if s is not None}
    colour = {solo: "fourth", both: SIDES["k_comm" if side == "copy" else "k_comp"][0]}
    who, others = ("GEMM", "copies") if side == "gemm" else ("copy", "GEMMs")
    said = {solo: f"{who} alone", both: f"{who} beside the {others}"}
    drift = {n: _drift(result.samples[n]) for n in names}
    worst = max(drift, key=lambda n: abs(drift[n]))
    order = "one after the other" if late else "interleaved"
    since = "from its first block"
    title = f"Trials {order}: the {said[worst]} drifts by {percent(drift[worst])} {since}"
    text = []
    for n in names:
        v = result.samples[n].values
        text.append(f"{said[n]}: {trials} trials, median {number(1e3 * median(v))} ms, "
                    f"{number(1e3 * min(v))} to {number(1e3 * max(v))} ms, drift {percent(drift[n])}")  # fmt: skip
    for n, s in clocks.items():
        text.append(f"SM clock, {said[n]}: {min(s.values) / 1e9:.3f} to {max(s.values) / 1e9:.3f} GHz")

    def draw(*panels: Axes, narrow: bool) -> None:
        rows = [{n: [1e3 * v for v in result.samples[n].values] for n in names}]
        ys = [f"one {who} (ms)"]
        if clocks:
            rows.append({n: [v / 1e9 for v in s.values] for n, s in clocks.items()})
            ys.append("SM clock (GHz)")
        last = max(start[n] for n in names) + trials
        ticks = [1, *range(10, last + 1, 10)]
        for axes, row, y in zip(panels, rows, ys, strict=True):
            below = axes is panels[-1]
            axis(axes, x="trial, in the order taken" if below else "", y=y, x_ticks=ticks,
                 x_names=None if below else [""] * len(ticks))  # fmt: skip
            for n, values in row.items():
                xs = [start[n] + i + 1 for i in range(len(values))]
                axes.plot(xs, values, color=colours()[colour[n]], linewidth=0.8, alpha=0.5, zorder=2)
                marks(axes, result.source, xs, values, colour[n], line=False)
            for line in axes.lines:
                line.set_markersize(min(line.get_markersize(), 5.5))
            values = [v for row_values in row.values() for v in row_values]
            space = 0.12 * (max(values) - min(values)) or 0.05 * max(values)
            axes.set_ylim(min(values) - space, max(values) + space)
            axes.set_xlim(-0.02 * last, last * 1.03)
        if late and side == "gemm":  # what the gap is
            panels[0].text(1.5 * trials, 0.5, "copies alone", transform=panels[0].get_xaxis_transform(),
                           ha="center", va="center", color=colours()["mute"])  # fmt: skip
        right = 0.0
        for n in reversed(names):
            words = said[n].removeprefix(f"{who} ") if narrow else said[n]
            panels[0].annotate(words, (1, 1), (-right, 12), xycoords="axes fraction", ha="right",
                               textcoords="offset points", color=colours()[colour[n]], fontweight="bold")  # fmt: skip
            right += 8.6 * len(words) + 14

    look = {"panels": (1.0, 0.6) if clocks else 1, "gap": 44, "height": 190, "left": 52}
    return Figure(draw, title=title, alt=". ".join(text), sources=[result], **look)


def litmus(results: Iterable[Result]) -> Figure:
    """When each copy of the SM-free litmus ended, against the time in which a kernel held every SM."""
    found = list(results)
    if not found:
        raise FieldError("results", 0, "at least one sm_free result")
    needs = [analysis.needs_sm(r) for r in found]
    ends = [_scaled(r.samples["copy_end"].bootstrap(), 1e3) for r in found]
    holds = [1e3 * r.median("hold_end") for r in found]
    free = [SHORT[r.parameters["copy"]] for r, n in zip(found, needs, strict=True) if not n]
    busy = [SHORT[r.parameters["copy"]] for r, n in zip(found, needs, strict=True) if n]
    claims = [f"{_list(free)} finished under the hold"] if free else []
    claims += (
        [f"{_list(busy)} had to wait" if claims else f"Every copy had to wait: {_list(busy)}"] if busy else []
    )
    title = "; ".join(claims)
    verdict = {False: "finished under the hold: needs no SM", True: "waited for the hold to end: needs an SM"}
    names = {**NAMES, "sm": "our kernel on 1 SM (the control)"}
    alt = "Every SM held by a kernel. " + "; ".join(
        f"{names[r.parameters['copy']]}, {r.parameters['copy_bytes'] / MiB:g} MiB: ended at {estimate_text(e)} ms "
        f"of a hold of {number(h)} ms, {verdict[n]}"
        for r, e, h, n in zip(found, ends, holds, needs, strict=True)
    )

    def draw(axes: Axes, narrow: bool) -> None:
        c = colours()
        hold = max(holds)
        axis(axes, x="time since every SM was held (ms)", grid="x")
        axes.set_xlim(0, max(hold, *(e.high for e in ends)) * 1.04)
        axes.set_ylim(len(found) - 0.3, -0.62)
        axes.set_yticks([])
        axes.axvspan(0, hold, color=c["spin"], alpha=0.16, linewidth=0, zorder=0)
        axes.axvline(hold, color=c["third"], linewidth=1.4, zorder=1)
        top = {"shift": (0, 8), "align": "center", "halo": False, "bold": True}
        label(axes, "every SM is held", hold / 2, -0.62, colour="third", **top)
        for i, (r, e, n) in enumerate(zip(found, ends, needs, strict=True)):
            size = f"{r.parameters['copy_bytes'] / MiB:g} MiB"
            row = {"shift": (8, 0), "halo": False}
            label(axes, names[r.parameters["copy"]], 0, i - 0.27, bold=True, **row)
            axes.plot([0, e.value], [i, i], color=c["copy-ink"], linewidth=2.4, zorder=2,
                      linestyle="-" if not n else (0, (1, 1.6)), dash_capstyle="butt")  # fmt: skip
            marks(axes, r.source, [i], [e], "copy-ink", along="y", line=False)
            words = f"{size} done after {number(e.value)} ms: needs {'an' if n else 'no'} SM"
            label(axes, words, 0, i + 0.25, colour="copy-ink", **row)

    note = "Dotted: the copy could not start before the hold ended" if busy else ""
    return Figure(draw, title=title, alt=alt, sources=found, note=note, height=76 * len(found) + 4, left=16)


def wait_and_run(results: Iterable[Result]) -> Figure:
    """k_comm of ``sm`` copies, split into waiting for an SM and running, by their number of SMs."""
    found = sorted(results, key=lambda r: (r.parameters["copy_sms"] or 0, bool(r.parameters["sm_margin"])))
    wanted = ("copy_solo", "copy_overlap", "copy_run_overlap")
    for r in found:
        if missing := [n for n in wanted if n not in r.samples]:
            raise FieldError("samples", missing, "those of a copy that stamps its own start and end")
    if not found:
        raise FieldError("results", 0, "at least one result of an 'sm' copy")
    runs = [paired_ratio(r.samples["copy_run_overlap"].values, r.samples["copy_solo"].values) for r in found]
    totals = [paired_ratio(r.samples["copy_overlap"].values, r.samples["copy_solo"].values) for r in found]
    names = [
        f"{r.parameters['copy_sms']} SMs, {'set apart' if r.parameters['sm_margin'] else 'shared'}"
        for r in found
    ]
    worst = max(range(len(found)), key=lambda i: totals[i].value)
    share = 1 - runs[worst].value / totals[worst].value
    title = (
        f"Waiting for an SM makes {100 * share:.0f}% of the worst k_comm, "
        f"{number(totals[worst].value)} ({names[worst]})"
    )
    alt = "; ".join(
        f"{name}: k_comm {estimate_text(t)}, of which running {number(a.value)} "
        f"and waiting {number(max(t.value - a.value, 0))}"
        for name, a, t in zip(names, runs, totals, strict=True)
    )

    def draw(axes: Axes, narrow: bool) -> None:
        c = colours()
        axis(axes, x="k_comm = time ÷ time alone", grid="x")
        axes.set_xlim(0, room(axes, 0, [(t.high, f"{number(t.value)} ") for t in totals]))
        axes.set_ylim(len(found) - 0.35, -0.75)
        axes.set_yticks(range(len(found)), names)
        axes.spines["left"].set_visible(False)
        for i, (r, a, t) in enumerate(zip(found, runs, totals, strict=True)):
            hollow = r.source == "simulated"
            edge = {"edgecolor": c["copy-ink"], "linewidth": 1.2, "linestyle": (0, (3, 2)) if hollow else "-"}
            axes.barh(i, a.value, height=0.56, color="none" if hollow else c["copy"], zorder=2, **edge)
            if t.value > a.value:
                wait = {**edge, "edgecolor": c["mute"]}
                axes.barh(
                    i,
                    t.value - a.value,
                    left=a.value,
                    height=0.56,
                    color="none",
                    hatch="////",
                    zorder=2,
                    **wait,
                )
            marks(axes, r.source, [i], [t], "ink", along="y", line=False)
            label(axes, number(t.value), t.high, i, shift=(9, -1), bold=True)
        axes.axvline(1, color=c["ink"], linewidth=1.2, zorder=3)
        label(
            axes, "1 = alone", 1, -0.75, shift=(0, 8), align="center", size=SMALL, colour="mute", halo=False
        )
        middle = (runs[worst].value + totals[worst].value) / 2
        label(
            axes, "it waits for an SM", middle, worst, align="center", shift=(0, -1), colour="ink", bold=True
        )
        axes.annotate("plain: it runs", (1, 1), (0, 8), xycoords="axes fraction", textcoords="offset points",
                      ha="right", color=c["copy-ink"], fontweight="bold")  # fmt: skip

    height = max(60.0, 30.0 * len(found) + 14)
    return Figure(draw, title=title, alt=alt, sources=found, height=height, left=108)


def player(result: Result) -> Player:
    """The player of a result's time line; raises :class:`FieldError` where it has none."""
    if result.trace is None:
        raise FieldError("trace", None, f"there: this {result.source} result was kept without a time line")
    k = f" {_in_words(summary(result))}." if result.experiment == "overlap" else ""
    return Player(result.trace, alt=f"{describe(result.trace)}{k}")


def explore(function: Callable[..., Result], *, title: str, **options: Any) -> controls.Explorer:
    """:func:`ringi_lab.core.view.controls.explore` with k below the time line, and this topic's names."""
    options = {"names": PARAMETERS, **options}
    return controls.explore(function, title=title, tell=lambda r: _in_words(summary(r)), **options)


# --- helpers --------------------------------------------------------------------------------------------


def _in_words(s: Summary) -> str:
    parts = [f"k_comm {estimate_text(s.k_comm)}", f"k_comp {estimate_text(s.k_comp)}"]
    parts += [f"overlap fraction {number(s.fraction.value)}", f"block {number(1e3 * s.step.value)} ms"]
    return ", ".join(parts)


def _work(r: Result) -> str:
    """What one block of a result does, in words."""
    p = r.parameters
    counts = [r.facts.get(name) or p[name] for name in ("gemm_count", "copy_count")]
    return f"{counts[0]} GEMMs of {p['gemm_n']} and {counts[1]} copies of {p['copy_bytes'] / MiB:g} MiB"


def _grouped(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results by the name of their competitor; what differs among those of one name is added to it."""
    found = list(results)
    if not found:
        raise FieldError("results", 0, "at least one overlap result")
    differs = {key: len({r.parameters[key] for r in found}) > 1 for key in ("gemm_n", "copy_bytes", "order")}
    groups: dict[str, list[Result]] = {}
    for r in found:
        p = r.parameters
        name = NAMES.get(p["copy"], f"our kernel on {p['copy_sms']} SMs")
        if p["copy"] == "sm":
            name += ", set apart from the GEMM's" if p["sm_margin"] else ", shared with the GEMM"
        elif p["sm_margin"]:
            name += f", GEMM without {p['sm_margin']} SMs"
        name += f", {p['copy_bytes'] / MiB:g} MiB" if differs["copy_bytes"] else ""
        name += f", GEMM {p['gemm_n']}" if differs["gemm_n"] else ""
        name += f", {p['order']}" if differs["order"] else ""
        groups.setdefault(name, []).append(r)
    return groups


def _ticks(low: float, high: float, wanted: Sequence[float]) -> list[float]:
    """Those of the wanted ticks that lie in the range and stand apart on a log axis."""
    if high / low < 1.7:
        step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / s <= 8)
        return [round(i * step, 2) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    kept: list[float] = []
    apart = (high / low) ** 0.09
    for tick in wanted:
        if low <= tick <= high and (not kept or tick / kept[-1] >= apart):
            kept.append(tick)
    return kept


def _apart(values: Iterable[float], share: float = 0.13) -> list[float]:
    """Values for the ticks of a linear axis from 0: those that stand apart, the last one always."""
    kept: list[float] = []
    ordered = sorted(values, reverse=True)
    for value in ordered:
        if not kept or kept[-1] - value >= share * ordered[0]:
            kept.append(value)
    return kept[::-1]


def _scaled(e: Estimate, factor: float) -> Estimate:
    return Estimate(e.value * factor, e.low * factor, e.high * factor, e.count)


def _value(y: float | Estimate) -> float:
    return y.value if isinstance(y, Estimate) else y


def _range(y: float | Estimate) -> tuple[float, float]:
    return (y.low, y.high) if isinstance(y, Estimate) else (y, y)


def _drift(s: Samples) -> float:
    """Median of the second half of the trials over the first trial, less one: a rested card's first block
    is the only one that drift has not touched."""
    return median(s.values[len(s.values) // 2 :]) / s.values[0] - 1.0


def _several(values: Sequence[tuple[str, str]], narrow: bool) -> str:
    """Values of several sources: the first as it is, the others with their source."""
    rest = ", ".join(f"{source[:3] + '.' if narrow else source} {text}" for source, text in values[1:])
    return f"{values[0][1]} ({rest})" if rest else values[0][1]


def _list(words: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

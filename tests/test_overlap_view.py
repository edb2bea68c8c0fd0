"""The pictures of overlap: their words carry the data's numbers, and no source passes for another."""

from __future__ import annotations

import base64
import dataclasses
import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable

import pytest

from ringi_lab.core.errors import FieldError
from ringi_lab.core.result import Result, Samples, recorded
from ringi_lab.core.stats import median
from ringi_lab.core.validation import Point
from ringi_lab.core.view.plots import MOST_SVG, NARROW, WIDE, Figure, Source, estimate_text, number, source_of
from ringi_lab.overlap import MiB, Overlap, grid, summary, view

SVG = "{http://www.w3.org/2000/svg}"
SPEC = "NVIDIA H200 SXM"


def find(*experiments: Overlap) -> list[Result]:
    """Recorded results."""
    return [recorded("overlap").find(e) for e in experiments]


def simulated(results: Iterable[Result], factor: float = 1.05) -> list[Result]:
    """What a model would say that is off by ``factor`` in everything that is overlapped."""
    made = []
    for r in results:
        samples = {
            n: Samples(s.unit, (s.median * (factor if "overlap" in n or n == "together" else 1.0),))
            for n, s in r.samples.items()
            if s.unit == "s"
        }
        p = dataclasses.replace(r.provenance, device=SPEC, driver="", time="")
        made.append(dataclasses.replace(r, source="simulated", samples=samples, provenance=p, trace=None))
    return made


def sweep(n: int = 8192) -> list[Result]:
    """Copies on SMs of 256 MiB, shared and set apart."""
    return find(*(Overlap(n, "sm", 256 * MiB, s) for s in (8, 16, 32, 64)),
                *(Overlap(n, "sm", 256 * MiB, s, sm_margin=s) for s in (8, 16, 32, 64)))  # fmt: skip


def sizes() -> list[Result]:
    """Copies of three sizes and two kinds."""
    return find(*(Overlap(8192, c, s * MiB) for c in ("h2d", "d2d") for s in (1, 16, 256)))


def steps() -> list[Result]:
    """The steps of the quota exercise."""
    return find(*(grid.step(4096, margin) for margin in grid.MARGINS))


def points() -> list[Point]:
    """Pairs of a model that is 4% high on what it has seen and 8% on what it has not."""
    made = []
    for r in sweep():
        s, e = summary(r), Overlap(**r.parameters)
        for name, k in (("k_comm", s.k_comm), ("k_comp", s.k_comp)):
            held = grid.held_out(e)
            predicted = k.value * (1.08 if held else 1.04)
            made.append(Point("sm", name, "point", predicted, k.value, 0.1, held))
    return made


PICTURES: dict[str, Callable[[], Figure]] = {
    "k_bars": lambda: view.k_bars(find(*grid.TRACED)),
    "k_bars, two sources": lambda: view.k_bars([*find(*grid.TRACED), *simulated(find(*grid.TRACED))]),
    "by_sms": lambda: view.by_sms(sweep(), simulated(sweep())),
    "by_size": lambda: view.by_size(sizes(), simulated(sizes())),
    "step_time": lambda: view.step_time(steps(), simulated(steps())),
    "model_against_recording": lambda: view.model_against_recording(points()),
    "samples": lambda: view.samples(*find(grid.TRACED[0])),
    "samples, sequential": lambda: view.samples(
        *find(Overlap(8192, "h2d", 256 * MiB, order="sequential")), "copy"
    ),
    "samples, simulated": lambda: view.samples(*simulated(find(grid.TRACED[0]))),
    "litmus": lambda: view.litmus(recorded("sm_free")),
    "wait_and_run": lambda: view.wait_and_run(sweep()),
    "wait_and_run, simulated": lambda: view.wait_and_run(simulated(sweep())),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture(name: str) -> None:
    """Source and device everywhere, numbers in the words, valid and light SVG, the same bytes again."""
    shown = PICTURES[name]()
    bundle = shown._repr_mimebundle_()
    page = bundle["text/html"]
    alt = html.unescape(re.search(r' alt="([^"]*)"', page)[1])
    assert len(re.findall(r"\d+\.\d+", alt)) >= 2
    assert "nan" not in alt
    for source in shown.sources:
        for text in (alt, shown.caption, bundle["text/plain"]):
            assert source.label in text
    for width in (WIDE, NARROW):
        svg = shown.svg(width)
        root = ET.fromstring(svg)
        assert len(svg) < MOST_SVG
        words = [node.text for node in root.iter(f"{SVG}text")]
        assert all(source.label in words for source in shown.sources)
    assert base64.b64decode(bundle["image/png"])[:4] == b"\x89PNG"
    again = PICTURES[name]()
    assert again.html() == shown.html()
    assert again.png() == shown.png()


@pytest.mark.parametrize("name", ["k_bars", "by_sms", "by_size", "step_time", "wait_and_run"])
def test_simulated_never_looks_recorded(name: str) -> None:
    """With sources exchanged, both the marks and the words are others."""
    given = {
        "k_bars": find(*grid.TRACED), "by_sms": sweep(), "by_size": sizes(), "step_time": steps(),
        "wait_and_run": sweep(),
    }[name]  # fmt: skip
    draw = getattr(view, name)
    observed, model = draw(given), draw(simulated(given))
    hollow = r"fill: var\(--bg\); stroke: var\(--(?:copy-ink|gemm|ink|shared|apart|third|fourth)\)"
    assert not re.search(hollow, observed.svg())
    assert re.search(hollow, model.svg())
    assert "recorded" in observed.alt
    assert "recorded" not in model.alt + model.caption + model.svg()
    assert f"simulated · {SPEC}" in model.caption


def test_k_bars_says_each_k() -> None:
    results = find(*grid.TRACED)
    shown = view.k_bars(results)
    for r in results:
        s = summary(r)
        assert f"k_comm {estimate_text(s.k_comm)}, k_comp {estimate_text(s.k_comp)}" in shown.alt
    ks = [summary(r).k_comm.value for r in results]
    assert f"{number(min(ks))}× to {number(max(ks))}×" in shown.title
    inside = sum(1.1 <= k <= 1.4 for k in ks)
    assert f"{inside} of {len(ks)} fall in" in shown.title
    words = " ".join(node.text for node in ET.fromstring(shown.svg()).iter(f"{SVG}text"))
    assert "popular claim 1.1–1.4" in words


def test_k_bars_says_a_refused_k() -> None:
    refused = find(grid.step(8192, 64))
    assert summary(refused[0]).k_comp is None
    shown = view.k_bars(refused)
    assert "k_comp refused" in shown.alt
    assert "refused" in shown.svg()


def test_two_sources_share_a_row_and_are_told_apart() -> None:
    results = find(grid.TRACED[0])
    svg = view.k_bars([*results, *simulated(results)]).svg()
    assert "k_comm = 1.00 (simulated 1.05), copy" in svg


def test_sweeps_say_the_error_of_the_model() -> None:
    shown = view.by_sms(sweep(), simulated(sweep(), 1.05))
    k = {r.parameters["copy_sms"]: r for r in sweep() if not r.parameters["sm_margin"]}
    pairs = zip(k.values(), simulated(k.values(), 1.05), strict=True)
    parts = [summary(m).k_comm.value / summary(r).k_comm.value - 1 for r, m in pairs]
    said = f"shared with the GEMM: median {100 * median(parts):.1f}%, worst {100 * max(parts):.1f}%"
    assert said in shown.alt
    assert said in shown.caption
    shared = [summary(r).k_comm.value for r in sweep() if not r.parameters["sm_margin"]]
    assert f"up to {number(max(shared))}×" in shown.title
    with pytest.raises(FieldError, match="copy"):
        view.by_sms(sizes())


def test_by_size_labels_sizes_in_mib() -> None:
    shown = view.by_size(sizes())
    k = summary(find(Overlap(8192, "d2d", 16 * MiB))[0]).k_comm.value
    assert f"{number(k)} at 16" in shown.alt
    words = [node.text for node in ET.fromstring(shown.svg()).iter(f"{SVG}text")]
    assert {"1", "16", "256", "one copy (MiB, log scale)", "H2D", "D2D"} <= set(words)


def test_step_time_marks_the_minimum() -> None:
    results = steps()
    times = {r.parameters["sm_margin"]: 1e3 * r.median("together") for r in results}
    best = min(times, key=lambda m: times[m])
    shown = view.step_time(results)
    assert f"Shortest: {number(times[best])} ms at" in shown.alt
    assert str(best) in shown.alt.rsplit("Shortest", 1)[1]
    r = results[0]
    assert f"serial {number(1e3 * (r.median('gemm_alone') + r.median('copy_alone')))}" in shown.alt
    assert f"{r.facts['gemm_count']} GEMMs of 4096" in shown.caption
    with pytest.raises(FieldError, match="sm_margin"):
        view.step_time(find(grid.TRACED[0]))


def test_the_scatter_counts_only_points_kept_out_of_the_fit() -> None:
    made = points()
    held = sum(p.held_out for p in made)
    assert 0 < held < len(made)
    shown = view.model_against_recording(made)
    assert f"On {held} points it never saw, the model is off by 8.0%" in shown.title
    assert "median error 8.0%, worst 8.0%" in shown.alt
    assert "4.0%" not in shown.alt
    assert [s.name for s in shown.sources] == ["recorded", "simulated"]
    named = view.model_against_recording(made, [source_of(*find(grid.TRACED[0])), Source("simulated", "X")])
    assert "simulated · X" in named.caption
    with pytest.raises(FieldError, match="points"):
        view.model_against_recording([p for p in made if not p.held_out])


def test_samples_shows_drift_and_clock() -> None:
    r = find(Overlap(8192, "h2d", 256 * MiB, order="sequential"))[0]
    shown = view.samples(r)
    clock = r.samples["sm_clock_gemm"].values
    assert f"{min(clock) / 1e9:.3f} to {max(clock) / 1e9:.3f} GHz" in shown.alt
    assert "one after the other" in shown.title
    assert "interleaved" in view.samples(*find(grid.TRACED[0])).title
    assert "GHz" not in view.samples(*simulated([r])).svg()
    with pytest.raises(FieldError, match="side"):
        view.samples(r, "clock")


def test_litmus_has_a_row_and_a_verdict_for_each_copy() -> None:
    shown = view.litmus(recorded("sm_free"))
    assert shown.title == "H2D and D2H finished under the hold; D2D and SM copy had to wait"
    words = [node.text for node in ET.fromstring(shown.svg(NARROW)).iter(f"{SVG}text")]
    assert sum("needs no SM" in w for w in words) == 2
    assert sum("needs an SM" in w for w in words) == 2


def test_wait_and_run_adds_up() -> None:
    shown = view.wait_and_run(sweep())
    for text in re.findall(r"k_comm [^;]*", shown.alt):
        total, run, wait = (float(v) for v in re.findall(r"(?:k_comm|running|waiting) (\d+\.\d+)", text))
        assert run + wait == pytest.approx(total, abs=0.06)
    with pytest.raises(FieldError, match="stamps its own"):
        view.wait_and_run(find(grid.TRACED[0]))


def test_player_and_its_words() -> None:
    r = find(grid.TRACED[0])[0]
    shown = view.player(r)
    assert shown.trace is r.trace
    assert f"k_comm {estimate_text(summary(r).k_comm)}" in shown.alt
    with pytest.raises(FieldError, match="trace"):
        view.player(simulated([r])[0])


def test_table_has_units_intervals_and_sources() -> None:
    results = find(grid.TRACED[0])
    text = repr(view.k_table([*results, *simulated(results)]))
    assert "block (ms)" in text
    assert estimate_text(summary(results[0]).k_comm) in text
    assert "recorded · NVIDIA H200" in text
    assert f"simulated · {SPEC}" in text


def test_explore_says_k_and_names_parameters() -> None:
    r = find(grid.TRACED[3])[0]
    shown = view.explore(lambda sms: r, title="A copy on SMs", sms=range(8, 33, 8))
    assert shown.said.startswith(f"recorded · NVIDIA H200: k_comm {estimate_text(summary(r).k_comm)}")
    assert "SMs of an SM copy = 8" in repr(shown)


@pytest.mark.parametrize("draw", [view.k_bars, view.by_sms, view.step_time, view.litmus, view.wait_and_run])
def test_nothing_to_draw_is_an_error_not_an_empty_picture(draw: Callable[[list[Result]], Figure]) -> None:
    with pytest.raises(FieldError):
        draw([])

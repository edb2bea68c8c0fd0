"""The time line: checks, round trip, hostile data, and the export that trace viewers open."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringi_lab.core.errors import FieldError
from ringi_lab.core.trace import SCHEMA, SOURCES, Counter, Event, Span, Trace

LANES = ("GEMM stream", "copy stream")


def sample(**changes: Any) -> Trace:
    """A small trace with one of everything."""
    parts = {
        "title": "two streams",
        "source": "simulated",
        "device": "H200",
        "lanes": LANES,
        "spans": (
            Span(LANES[0], "GEMM 0", 0.0, 1.5e-3, "gemm", {"n": 8192}),
            Span(LANES[1], "copy 0", 2e-4, 1e-3, "copy"),
            Span(LANES[0], "empty", 1.5e-3, 1.5e-3),
        ),
        "events": (Event(LANES[1], "flag", 1e-3, "signal", {"value": 1}),),
        "counters": (Counter("SMs", "SM", ((0.0, 132.0), (1e-3, 116.0)), 132.0),),
    }
    return Trace(**{**parts, **changes})


names = st.text(max_size=8)
times = st.floats(0.0, 10.0)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any legal trace."""
    lanes = tuple(draw(st.lists(names, min_size=1, max_size=4, unique=True)))
    args = st.dictionaries(names, st.integers() | names | st.none(), max_size=2)
    lane = st.sampled_from(lanes)
    spans = [
        Span(draw(lane), draw(names), *sorted((draw(times), draw(times))), draw(names), draw(args))
        for _ in range(draw(st.integers(0, 4)))
    ]
    events = [
        Event(draw(lane), draw(names), draw(times), draw(names), draw(args))
        for _ in range(draw(st.integers(0, 3)))
    ]
    points = sorted(draw(st.lists(st.tuples(times, st.floats(-5, 5)), max_size=4)))
    counter = Counter(draw(names), draw(names), tuple(points), draw(st.none() | st.floats(1e-3, 9)))
    source = draw(st.sampled_from(SOURCES))
    return Trace(draw(names), source, draw(names), lanes, tuple(spans), tuple(events), (counter,))


# --- what a trace is ------------------------------------------------------------------------------


def test_a_trace_knows_its_ends_and_its_lanes() -> None:
    trace = sample()
    assert (trace.start, trace.end) == (0.0, 1.5e-3)
    assert [s.name for s in trace.on(LANES[0])] == ["GEMM 0", "empty"]
    assert trace.spans[0].duration == 1.5e-3
    with pytest.raises(FieldError, match="lane = 'L2': must be one of GEMM stream, copy stream"):
        trace.on("L2")


def test_the_ends_count_spans_events_and_counters() -> None:
    late = sample(events=(Event(LANES[0], "late", 7.0),))
    assert late.end == 7.0
    early = sample(counters=(Counter("c", "1", ((-1.0, 0.0),)),))
    assert early.start == -1.0
    empty = Trace("nothing", "simulated", "H200", ())
    assert (empty.start, empty.end) == (0.0, 0.0)


def test_spans_of_a_lane_come_in_order_of_their_start() -> None:
    spans = tuple(Span(LANES[0], str(t), t, t + 1.0) for t in (3.0, 1.0, 2.0))
    assert [s.name for s in sample(spans=spans).on(LANES[0])] == ["1.0", "2.0", "3.0"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source": "guessed"}, "source"),
        ({"lanes": (*LANES, LANES[0])}, "lanes"),
        ({"spans": (Span("L2", "x", 0.0, 1.0),)}, "span.lane"),
        ({"spans": (Span(LANES[0], "x", 1.0, 0.5),)}, "span"),
        ({"spans": (Span(LANES[0], "x", 0.0, math.inf),)}, "span"),
        ({"spans": (Span(LANES[0], "x", math.nan, 1.0),)}, "span"),
        ({"events": (Event("L2", "x", 0.0),)}, "event.lane"),
        ({"events": (Event(LANES[0], "x", math.nan),)}, "event.time"),
        ({"counters": (Counter("c", "1", ((1.0, 0.0), (0.5, 0.0))),)}, "counter 'c'"),
        ({"counters": (Counter("c", "1", ((1.0, math.nan),)),)}, "counter 'c'"),
        ({"counters": (Counter("c", "1", (), math.nan),)}, "maximum of counter 'c'"),
        ({"counters": (Counter("c", "1", (), 0.0),)}, "maximum of counter 'c'"),
    ],
)
def test_what_cannot_be_a_time_line_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        sample(**changes)
    assert caught.value.field == field


# --- round trip -------------------------------------------------------------------------------------


@given(traces())
def test_a_trace_survives_json(trace: Trace) -> None:
    assert Trace.from_dict(json.loads(json.dumps(trace.to_dict(), allow_nan=False))) == trace


def damaged(change: Any) -> dict[str, Any]:
    """The sample's JSON data after ``change(data)``."""
    data = copy.deepcopy(sample().to_dict())
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda d: d.update(schema="ringi-trace/2"), "schema = 'ringi-trace/2'"),
        (lambda d: d.pop("schema"), "schema = None"),
        (lambda d: d.pop("title"), "title"),
        (lambda d: d.pop("spans"), "spans"),
        (lambda d: d.update(title=7), "title = 7: must be text"),
        (lambda d: d.update(lanes="GEMM"), "lanes = 'str': must be a list"),
        (lambda d: d.update(lanes=[["a"], ["b"]]), "lanes"),
        (lambda d: d.update(spans=5), "spans = 'int': must be a list"),
        (lambda d: d["spans"].append([0, "short"]), "shape ringi-trace/1"),
        (lambda d: d["spans"].append("text"), "shape ringi-trace/1|spans"),
        (lambda d: d["spans"][0].__setitem__(0, 2), "spans lane = 2"),
        (lambda d: d["spans"][0].__setitem__(0, -1), "spans lane = -1"),  # Python would take the last one
        (lambda d: d["spans"][0].__setitem__(0, True), "spans lane = True"),
        (lambda d: d["spans"][0].__setitem__(1, {"<b>": 1}), "spans name"),
        (lambda d: d["spans"][0].__setitem__(2, "0"), "spans times"),
        (lambda d: d["spans"][0].__setitem__(3, None), "spans times"),
        (lambda d: d["spans"][0].__setitem__(3, 10**400), "shape ringi-trace/1"),
        (lambda d: d["spans"][0].__setitem__(3, -1.0), "span ="),
        (lambda d: d["spans"][0].__setitem__(5, [1]), "spans args"),
        (lambda d: d["events"][0].__setitem__(2, math.inf), "event.time"),
        (lambda d: d["events"][0].__setitem__(0, 1.0), "events lane = 1.0"),
        (lambda d: d["counters"][0].pop("max"), "max"),
        (lambda d: d["counters"][0].update(points=[[1]]), "shape ringi-trace/1"),
        (lambda d: d["counters"][0].update(max="132"), "shape ringi-trace/1"),
        (lambda d: d["counters"][0].update(name=None), "counter name"),
        (lambda d: d.update(counters={"a": 1}), "counters = 'dict': must be a list"),
    ],
)
def test_hostile_data_is_refused_with_the_field(change: Any, names: str) -> None:
    with pytest.raises(FieldError, match=names):
        Trace.from_dict(damaged(change))


@pytest.mark.parametrize("data", [[], None, "trace", 3])
def test_data_that_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(FieldError, match=SCHEMA):
        Trace.from_dict(data)


# --- the Trace Event Format ---------------------------------------------------------------------------


def parsed(text: str) -> dict[str, Any]:
    """Strict JSON: what a viewer's parser takes."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_export_has_what_viewers_need() -> None:
    out = parsed(sample().to_chrome())
    rows = out["traceEvents"]
    assert out["otherData"] == {"title": "two streams", "source": "simulated", "device": "H200"}
    threads = {r["tid"]: r["args"]["name"] for r in rows if r["name"] == "thread_name"}
    assert threads == dict(enumerate(LANES))
    process = [r for r in rows if r["name"] == "process_name"]
    assert [r["args"]["name"] for r in process] == ["H200 (simulated)"]
    gemm = next(r for r in rows if r["name"] == "GEMM 0")
    assert (gemm["ph"], gemm["tid"], gemm["ts"], gemm["dur"]) == ("X", 0, 0.0, pytest.approx(1500.0))
    assert (gemm["cat"], gemm["args"]) == ("gemm", {"n": 8192})
    copied = next(r for r in rows if r["name"] == "copy 0")
    assert (copied["tid"], copied["ts"], copied["dur"]) == (1, pytest.approx(200.0), pytest.approx(800.0))
    flag = next(r for r in rows if r["name"] == "flag")
    assert (flag["ph"], flag["s"], flag["ts"]) == ("i", "t", pytest.approx(1000.0))
    counters = [r for r in rows if r["ph"] == "C"]
    assert [r["args"] for r in counters] == [{"SMs": 132.0}, {"SMs": 116.0}]
    assert {r["name"] for r in counters} == {"SMs [SM]"}


@given(traces())
def test_every_export_is_valid(trace: Trace) -> None:
    rows = parsed(trace.to_chrome())["traceEvents"]
    by_phase = {"M": {"args"}, "X": {"ts", "dur", "tid"}, "i": {"ts", "tid", "s"}, "C": {"ts", "args"}}
    for row in rows:
        assert {"ph", "pid", "name"} | by_phase[row["ph"]] <= row.keys()
        assert all(math.isfinite(row[key]) for key in ("ts", "dur") if key in row)
        assert row.get("dur", 0.0) >= 0.0
        assert row.get("tid", 0) in range(len(trace.lanes))
    kinds = [row["ph"] for row in rows]
    assert kinds.count("X") == len(trace.spans)
    assert kinds.count("i") == len(trace.events)
    assert kinds.count("C") == sum(len(c.points) for c in trace.counters)


@pytest.mark.parametrize("bad", [math.nan, {1, 2}])
def test_arguments_that_no_viewer_can_read_are_refused(bad: Any) -> None:
    with pytest.raises(FieldError, match=r"args = .*: must be JSON data"):
        sample(spans=(Span(LANES[0], "x", 0.0, 1.0, args={"a": bad}),)).to_chrome()

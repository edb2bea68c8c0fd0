"""The player's outputs: what Jupyter gets, that no text can break out of it, and the still."""

from __future__ import annotations

import base64
import json
import re
import sys
import types
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ringi_lab.core.errors import FieldError
from ringi_lab.core.trace import Counter, Event, Span, Trace
from ringi_lab.core.view import player as player_module
from ringi_lab.core.view.player import SCRIPT, SPEEDS, STATIC, STYLE, Player, page
from ringi_lab.core.view.still import describe, kinds_in_order, palette, still_svg, time_text, value_text

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]> & \" ' <b>",
    "\x00\x08\x1b\ufffe\ud800",
    "\u2028\u2029",
    "javascript:alert(1)//`${1}`",
]


def small(**changes: object) -> Trace:
    """Two lanes, four spans, an event and two counters."""
    fields: dict[str, object] = {
        "title": "GEMM against a copy",
        "source": "simulated",
        "device": "NVIDIA H200",
        "lanes": ("compute", "copy"),
        "spans": (
            Span("compute", "GEMM 0", 0.0, 1e-3, "gemm", {"bytes": 1 << 26}),
            Span("compute", "wait", 1e-3, 1.5e-3, "wait"),
            Span("compute", "GEMM 1", 1.5e-3, 2e-3, "gemm"),
            Span("copy", "H2D", 0.2e-3, 1.5e-3, "copy"),
        ),
        "events": (Event("copy", "arrived", 1.5e-3, "mbarrier"),),
        "counters": (
            Counter("HBM traffic", "B/s", ((0.0, 2e12), (1e-3, 5e10), (2e-3, 0.0)), 4.8e12),
            Counter("queue", "jobs", ((0.0, 1.0), (1e-3, 3.0))),
        ),
    }
    return Trace(**{**fields, **changes})  # type: ignore[arg-type]


def hostile(text: str) -> Trace:
    """A trace that carries ``text`` everywhere it can."""
    return Trace(
        title=text,
        source="measured",
        device=text,
        lanes=(text, "b"),
        spans=(Span(text, text, 0.0, 1.0, text, {text: text}), Span("b", text, 0.1, 0.9, "wait")),
        events=(Event(text, text, 0.5, text, {text: [text]}),),
        counters=(Counter(text, text, ((0.0, 1.0), (0.5, 2.0)), 3.0),),
    )


def crowd(count: int, lanes: int, kinds: tuple[str, ...] = ("gemm", "copy", "wait", "store")) -> Trace:
    """Many short spans of several kinds, with gaps."""
    names = tuple(f"SM {i}" for i in range(lanes))
    spans = tuple(
        Span(names[i % lanes], f"tile {i}", i * 1e-6, i * 1e-6 + lanes * 0.8e-6, kinds[i * 7 % len(kinds)])
        for i in range(count)
    )
    points = tuple((i * 1e-6, float(i * 7919 % 97)) for i in range(count))
    return Trace("crowd", "recorded", "NVIDIA H200", names, spans, (), (Counter("load", "%", points, 100.0),))


class Page(HTMLParser):
    """Every element with its attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to run in an IPython kernel."""
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.delenv(STATIC, raising=False)


# --- the bundle -------------------------------------------------------------------------------


def test_bundle_of_a_page() -> None:
    bundle = Player(small())._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"] == still_svg(small())
    assert "\n" not in bundle["text/plain"]
    assert "simulated · NVIDIA H200" in bundle["text/plain"]
    read = Page(bundle["text/html"])
    assert [tag for tag, _ in read.tags] == ["div", "img", "script"]
    image = read.tags[1][1]
    assert image["alt"] == describe(small())
    kind, data = image["src"].split(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == still_svg(small())
    assert Trace.from_dict(json.loads(read.scripts[0])) == small()


def test_options_reach_the_page() -> None:
    root = Page(Player(small(), alt="A GEMM and a copy", speed=0.5, height=300).html()).tags
    assert (root[0][1]["data-speed"], root[0][1]["data-height"]) == ("0.5", "300")
    assert root[1][1]["alt"] == "A GEMM and a copy"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"alt": ""}, "alt"),
        ({"alt": "Image"}, "alt"),
        ({"speed": 3}, "speed"),
        ({"speed": 0}, "speed"),
        ({"height": 79}, "height"),
        ({"height": 2001}, "height"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        Player(small(), **options)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("trace", [None, {"schema": "ringi-trace/1"}])
def test_only_a_trace_is_played(trace: object) -> None:
    with pytest.raises(FieldError, match="a Trace"):
        Player(trace)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object(), {1, 2}])
def test_args_that_are_not_json_are_refused(bad: object) -> None:
    span = Span("compute", "GEMM", 0.0, 1.0, "gemm", {"odd": bad})
    with pytest.raises(FieldError, match="JSON"):
        Player(small(spans=(span,)))
    player = Player(small())
    with pytest.raises(FieldError, match="JSON"):
        player.trace = small(spans=(span,))
    assert player.trace == small()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_the_page(text: str) -> None:
    trace = hostile(text)
    written = Player(trace, alt=f"{text} in a long text").html(hint=text.replace("\ud800", ""))
    written.encode("utf-8")
    read = Page(written)
    assert [tag for tag, _ in read.tags] == ["div", "img", "script", "p"]
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    assert Trace.from_dict(json.loads(read.scripts[0])).to_dict() == trace.to_dict()
    assert "<" not in read.scripts[0]
    whole = Page(page(Player(trace), title=text))
    assert [tag for tag, _ in whole.tags].count("script") == 2
    assert [tag for tag, _ in whole.tags].count("img") == 1


def test_equal_players_give_equal_pages() -> None:
    first, second = Player(small()).html(), Player(small()).html()
    assert first == second
    mark = re.search(r'id="(ringi-[0-9a-f]{12})"', first)[1]
    for other in (
        Player(small(title="another")),
        Player(small(), speed=2),
        Player(small(), alt="other words"),
    ):
        assert mark not in other.html()
    assert "ringi-2" not in mark[:7]


def test_times_keep_ten_digits() -> None:
    exact = small(spans=(Span("copy", "x", 0.0, 0.12345678901234, "copy"),))
    sent = json.loads(Page(Player(exact).html()).scripts[0])["spans"][0][3]
    assert sent == pytest.approx(0.12345678901234, rel=1e-10)
    assert len(str(sent)) <= 12


# --- kernel and book --------------------------------------------------------------------------


def test_no_widget_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert not any("widget" in kind for kind in Player(small())._repr_mimebundle_())


@pytest.mark.usefixtures("kernel")
def test_no_widget_in_a_book(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATIC, "1")
    monkeypatch.setattr(player_module, "_widget_class", lambda: pytest.fail("a widget was made"))
    assert set(Player(small())._repr_mimebundle_()) == {"text/html", "image/svg+xml", "text/plain"}


@pytest.mark.usefixtures("kernel")
def test_widget_in_a_kernel() -> None:
    player = Player(small(), speed=2)
    bundle = player._repr_mimebundle_()
    view = bundle["application/vnd.jupyter.widget-view+json"]
    assert {"text/html", "image/svg+xml", "text/plain"} < set(bundle)
    assert bundle["text/plain"] == repr(player)
    widget = player._widget
    assert view["model_id"] == widget.model_id
    assert widget._esm.startswith(SCRIPT.read_text(encoding="utf-8"))
    assert "export default" in widget._esm
    assert widget._css == STYLE.read_text(encoding="utf-8")
    assert widget.trait_metadata("trace", "sync")
    assert widget.options == {"speed": 2, "alt": player.alt}
    # Shown again it is the same widget; a new trace reaches it at once.
    assert player._repr_mimebundle_()["application/vnd.jupyter.widget-view+json"] == view
    seen = []
    widget.observe(lambda change: seen.append(change.new["title"]), "trace")
    player.trace = small(title="changed")
    assert seen == ["changed"]
    assert Trace.from_dict(widget.trace) == small(title="changed")
    assert "changed" in player._repr_mimebundle_()["text/html"]
    widget.close()


@pytest.mark.usefixtures("kernel")
def test_notebook_goes_on_without_anywidget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    player_module._widget_class.cache_clear()
    bundle = Player(small())._repr_mimebundle_()
    assert not any("widget" in kind for kind in bundle)
    hints = re.findall(r"<p>(.*?)</p>", bundle["text/html"])
    assert len(hints) == 1
    assert "anywidget" in hints[0]
    assert "ringi-still" in bundle["text/html"]


@pytest.mark.usefixtures("kernel")
def test_notebook_goes_on_when_a_widget_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> type:
        raise RuntimeError("<b>no comm</b>")

    monkeypatch.setattr(player_module, "_widget_class", broken)
    text = Player(small())._repr_mimebundle_()["text/html"]
    assert "RuntimeError: &lt;b&gt;no comm&lt;/b&gt;" in text


# --- the files --------------------------------------------------------------------------------


def test_script_is_light_and_classic() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    assert len(script.encode()) <= 25_000
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE), "not a classic script"
    assert not re.search(r"https?://(?!www\.w3\.org/)", script), "asks another host"
    assert str(list(SPEEDS)) in script


def test_style_stays_in_its_place() -> None:
    css = re.sub(r"/\*.*?\*/", "", STYLE.read_text(encoding="utf-8"), flags=re.DOTALL)
    css = re.sub(r"@media[^{]*\{|@[\w-]+", "", css)
    selectors = [s.strip() for group in re.findall(r"([^{}]+)\{", css) for s in group.split(",")]
    assert selectors
    assert [s for s in selectors if ".ringi-player" not in s] == []
    assert "url(" not in css


# WCAG 2.2: 4.5 for text, 3 for what must be seen.
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_told_from_their_ground(theme: str) -> None:
    colours = palette(theme)
    for ground in ("bg", "lane"):
        for text in ("ink", "mute", "counter", "simulated", "measured", "recorded", "accent", "head"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert contrast(colours["bg"], colours["measured"]) >= 4.5
    assert contrast(colours["bg"], colours["head"]) >= 4.5
    pairs = {name: value.split() for name, value in colours.items() if name.startswith(("kind-", "other-"))}
    assert len(pairs) >= 9
    for name, (fill, *text) in pairs.items():
        for words in text:
            assert contrast(fill, words) >= 4.5, name
    assert contrast(colours["kind-wait"], colours["lane"]) >= 3


def contrast(a: str, b: str) -> float:
    """WCAG's contrast ratio of two #rrggbb colours."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# --- the still --------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
@pytest.mark.parametrize("time", [None, 0.0, 1.2e-3, 99.0])
@pytest.mark.parametrize("width", [240, 340, 820])
def test_still_is_a_picture_with_words(theme: str, time: float | None, width: int) -> None:
    root = ET.fromstring(still_svg(small(), time, width, theme))
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    names = {root.find(f"{SVG}{tag}").get("id"): root.find(f"{SVG}{tag}").text for tag in ("title", "desc")}
    assert set(root.get("aria-labelledby").split()) == set(names)
    assert names[next(iter(names))] == "GEMM against a copy (simulated · NVIDIA H200)"
    texts = ["".join(e.itertext()) for e in root.iter(f"{SVG}text")]
    assert "simulated · NVIDIA H200" in texts
    style = root.find(f"{SVG}style").text
    assert ("prefers-color-scheme" in style) == (theme == "auto")
    for element in root.iter(f"{SVG}text"):
        assert -0.5 <= float(element.get("x")) <= width
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("source", ["simulated", "measured", "recorded"])
def test_still_shows_where_its_numbers_come_from(source: str) -> None:
    others = {still_svg(small(source=s)).replace(s, "?") for s in ("simulated", "measured", "recorded")}
    assert len(others) == 3, "two sources look alike but for their name"
    assert f"{source} · NVIDIA H200" in still_svg(small(source=source))


@pytest.mark.parametrize("text", HOSTILE)
def test_still_is_valid_whatever_its_words(text: str) -> None:
    trace = hostile(text)
    for time in (None, 0.5):
        written = still_svg(trace, time)
        root = ET.fromstring(written.encode("utf-8"))
        assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
            "svg", "title", "desc", "style", "defs", "pattern", "path", "rect", "text", "circle", "g", "use",
            "clipPath",
        }  # fmt: skip
        assert text.startswith("\x00") or any(e.text == text for e in root.iter(f"{SVG}text"))


def test_typical_still_is_light() -> None:
    assert 3_000 < len(still_svg(small()).encode()) < 25_000


@pytest.mark.parametrize(
    "trace", [crowd(2000, 8), crowd(5000, 8), crowd(5000, 64), crowd(5000, 132)], ids=lambda t: len(t.lanes)
)
def test_crowded_still_stays_light(trace: Trace) -> None:
    written = still_svg(trace)
    assert len(written.encode()) < 40_000
    ET.fromstring(written)


def test_crowded_still_keeps_the_proportions() -> None:
    """Merging must not let one kind hide the others: areas stay in proportion to the times."""
    trace = crowd(20_000, 4, ("gemm", "gemm", "gemm", "store"))
    area: dict[str, float] = {}
    for path in ET.fromstring(still_svg(trace, theme="light")).iter(f"{SVG}path"):
        kind = re.match(r"[ks](\d+)", path.get("class") or "")
        if kind and path.get("d"):
            name = kinds_in_order(trace)[int(kind[1])]
            area[name] = area.get(name, 0.0) + sum(map(float, re.findall(r"h([\d.]+)", path.get("d"))))
    assert area["gemm"] == pytest.approx(3 * area["store"], rel=0.1)
    # and a row that is empty for the most part does not become full
    sparse = Trace(
        "sparse",
        "simulated",
        "x",
        ("a",),
        tuple(Span("a", "s", i * 1.0, i + 0.05, "gemm") for i in range(20_000)),
    )
    (data,) = re.findall(r'class="s0"[^>]* d="([^"]+)"', still_svg(sparse, theme="light"))
    assert 20 < sum(map(float, re.findall(r"h([\d.]+)", data))) < 60


def test_overlapping_spans_do_not_hide_each_other() -> None:
    spans = tuple(Span("a", f"s{i}", i * 1.0, i + 2.5, "gemm") for i in range(6))
    root = ET.fromstring(still_svg(Trace("t", "simulated", "d", ("a",), spans)))
    tops = {e.get("y") for e in root.iter(f"{SVG}text") if re.fullmatch(r"s\d", e.text)}
    assert len(tops) == 3


@pytest.mark.parametrize(
    "trace",
    [
        Trace("nothing", "simulated", "d", ()),
        Trace("one lane", "simulated", "d", ("a",)),
        Trace("an instant", "measured", "d", ("a",), (Span("a", "s", 1.0, 1.0),)),
        Trace("before zero", "measured", "d", ("a",), (Span("a", "s", -2.0, -1.0),)),
        Trace("empty counter", "measured", "d", ("a",), (), (), (Counter("c", "B", ()),)),
        Trace(
            "zero counter", "measured", "d", ("a",), (), (), (Counter("c", "B", ((0.0, 0.0), (1.0, 0.0))),)
        ),
    ],
    ids=lambda t: t.title,
)
def test_odd_traces_have_a_still(trace: Trace) -> None:
    ET.fromstring(still_svg(trace))
    ET.fromstring(still_svg(trace, time=0.5))
    assert Player(trace).html()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"theme": "pink"}, "theme"), ({"width": 239}, "width"), ({"time": float("nan")}, "time")],
)
def test_bad_still_options_are_named(options: dict[str, object], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        still_svg(small(), **options)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_kinds_keep_their_order_and_colour() -> None:
    lane = ("a",)
    spans = [
        Span("a", "s", i, i + 1, kind) for i, kind in enumerate(["store", "wait", "copy", "load", "gemm"])
    ]
    trace = Trace("t", "simulated", "d", lane, tuple(spans))
    assert kinds_in_order(trace) == ["gemm", "copy", "wait", "store", "load"]
    copy = palette("light")["kind-copy"].split()[0]
    assert f"{{fill:{copy}}}" in still_svg(trace)
    assert f"{{fill:{copy}}}" in still_svg(Trace("t", "simulated", "d", lane, (spans[2],)))


def test_alt_text_says_what_happens() -> None:
    text = describe(small())
    for fact in (
        "simulated for NVIDIA H200",
        "2 ms",
        "2 gemm (1.5 ms in all)",
        "1 wait",
        "up to 2 TB/s of 4.8 TB/s",
    ):
        assert fact in text
    assert "more lanes" in describe(crowd(100, 20))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (4.123456e-4, "412.3 µs"),
        (1.0, "1 s"),
        (2e-9, "2 ns"),
        (0.9998e-3, "999.8 µs"),
        (-1e-3, "-1 ms"),
    ],
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (999.9e9, "B/s", "1 TB/s"),
        (1 << 26, "B", "64 MiB"),
        (1000.0, "B", "1000 B"),
        (132.0, "SMs", "132 SMs"),
        (0.5, "", "0.5"),
        (0.0, "B/s", "0 B/s"),
        (2e-3, "s", "2 ms"),
        (9.89e14, "FLOP/s", "989 TFLOP/s"),
    ],
)
def test_values_carry_their_unit(value: float, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_views_import_no_numbers_of_their_own() -> None:
    """The still needs the standard library and this package only."""
    source = Path(player_module.__file__).with_name("still.py").read_text(encoding="utf-8")
    names = set(re.findall(r"^(?:from|import) ([\w.]+)", source, re.MULTILINE))
    assert {n for n in names if n.split(".")[0] not in sys.stdlib_module_names} == {
        "ringi_lab.core.errors",
        "ringi_lab.core.trace",
    }

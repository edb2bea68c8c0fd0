"""Plots and tables: words and sources in every output, marks that tell sources apart, both themes."""

from __future__ import annotations

import base64
import html
import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from PIL import Image

from ringi_lab.core.errors import FieldError
from ringi_lab.core.result import Provenance, Result, Samples
from ringi_lab.core.stats import Estimate
from ringi_lab.core.view import plots
from ringi_lab.core.view.plots import (
    MOST_SVG,
    NARROW,
    WIDE,
    Figure,
    Series,
    Source,
    axis,
    colours,
    error_between,
    estimate_text,
    figure,
    marks,
    number,
    overlay,
    percent,
    table,
)

SIMULATED = Source("simulated", "NVIDIA H200 SXM")
RECORDED = Source("recorded", "NVIDIA H200", "2026-12-01", "580.159.04")
MEASURED = Source("measured", "NVIDIA H100 PCIe", "2026-12-03", "570.1")
ALT = "k falls from 3 at 8 SMs to 1 at 64 SMs"
SVG = "{http://www.w3.org/2000/svg}"


def picture(source: Source = RECORDED, draw: Any = None, **options: Any) -> Figure:
    """Three points with an interval each."""

    def points(axes: Axes, narrow: bool) -> None:
        axis(axes, x="SMs", y="k")
        marks(axes, source.name, [8, 16, 64], [Estimate(3, 2.5, 3.5, 30), Estimate(2, 1.8, 2.2, 30), 1.0])

    given = {"title": "k falls", "alt": ALT, "sources": [source], "height": 120, **options}
    return Figure(draw or points, **given)


def images(text: str) -> list[str]:
    """The SVGs inside some HTML."""
    found = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", text)
    return [base64.b64decode(data).decode() for data in found]


# --- what every output says -----------------------------------------------------------------------


@pytest.mark.parametrize("source", [SIMULATED, RECORDED, MEASURED], ids=lambda s: s.name)
def test_every_output_says_source_and_device(source: Source) -> None:
    bundle = picture(source)._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    page = bundle["text/html"]
    caption = re.search(r"<figcaption[^>]*>(.*?)</figcaption>", page)[1]
    alt = html.unescape(re.search(r' alt="([^"]*)"', page)[1])
    drawn = images(page)
    assert len(drawn) == 2
    for text in (caption, bundle["text/plain"], alt, *drawn):
        assert f"{source.name} · {source.device}" in text
    assert source.date in caption
    assert source.driver in caption
    assert alt.startswith(ALT)
    for svg in drawn:  # in the picture itself, not only in its description
        words = [node.text for node in ET.fromstring(svg).iter(f"{SVG}text")]
        assert source.label in words


@pytest.mark.parametrize("alt", ["", "Image", "plot.png", "k falls steeply with the number of SMs"])
def test_words_without_a_finding_are_refused(alt: str) -> None:
    with pytest.raises(FieldError, match="alt"):
        picture(alt=alt)


def test_a_figure_needs_a_source() -> None:
    with pytest.raises(FieldError, match="sources"):
        picture(sources=[])
    with pytest.raises(FieldError, match="source"):
        picture(sources=["model"])
    with pytest.raises(FieldError, match="source"):
        Source("guessed", "NVIDIA H200")
    with pytest.raises(FieldError, match="device"):
        Source("simulated", " ")


def test_source_of_a_result() -> None:
    p = Provenance("NVIDIA H200", "580", time="2026-12-01T03:14:39+00:00")
    result = Result("overlap", {}, "recorded", p, {"t": Samples("s", (1.0,))})
    assert plots.source_of(result).detail == "recorded · NVIDIA H200, 2026-12-01, driver 580"


# --- marks ------------------------------------------------------------------------------------------


def look_of(source: Source) -> tuple[str, str, int]:
    """Shape of the mark, its style, and how many paths are drawn beside the marks."""
    root = ET.fromstring(picture(source).svg())
    panel = next(node for node in root.iter(f"{SVG}g") if node.get("id") == "axes_1")
    lines = [g for g in panel.iter(f"{SVG}g") if re.match(r"line2d_|LineCollection", g.get("id", ""))]
    uses = [(g, use) for g in lines for use in g.iter(f"{SVG}use")]
    group, use = next((g, u) for g, u in uses[::-1] if len([x for x, _ in uses if x is g]) == 3)
    shapes = {node.get("id"): node.get("d") for node in root.iter(f"{SVG}path")}
    shape = shapes[use.get("href").removeprefix("#")]
    style = use.get("style") or next(n.get("style") for n in group.iter() if use in list(n))
    joined = [p for p in group.iter(f"{SVG}path") if p.get("d", "").count("L") == 2 and p.get("clip-path")]
    return ("round" if "C" in shape else "square"), style, len(joined)


def test_sources_differ_in_more_than_colour() -> None:
    simulated, recorded, measured = map(look_of, (SIMULATED, RECORDED, MEASURED))
    assert simulated[0] == recorded[0] == "round"
    assert measured[0] == "square"
    assert "fill: var(--bg)" in simulated[1]  # hollow
    assert "fill: var(--ink)" in recorded[1]
    assert "fill: var(--ink)" in measured[1]
    assert simulated[2] == 1  # a line through the points
    assert recorded[2] == measured[2] == 0


def test_only_observed_values_have_interval_bars() -> None:
    bars = {s.name: "LineCollection" in picture(s).svg() for s in (SIMULATED, RECORDED, MEASURED)}
    assert bars == {"simulated": False, "recorded": True, "measured": True}


def test_marks_of_no_source_are_refused() -> None:
    def draw(axes: Axes, narrow: bool) -> None:
        marks(axes, "guessed", [1], [1.0])

    with pytest.raises(FieldError, match="source"):
        picture(draw=draw).svg()


# --- the SVG ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_svg_is_small_valid_and_self_contained(width: int) -> None:
    svg = picture().svg(width)
    root = ET.fromstring(svg)
    assert root.get("width") == str(width)
    assert len(svg) < MOST_SVG
    assert root.find(f"{SVG}title").text == "k falls"
    assert root.find(f"{SVG}desc").text.startswith(ALT)
    assert not re.search(r"(href|src)=\"(?!#)|url\((?!#)|@import", svg)


def test_svg_has_no_colour_of_its_own() -> None:
    body = picture().svg().split("</style>", 1)[1]
    assert "var(--" in body
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b(?!\))", re.sub(r'(href="|url\()#\w+', "", body))


def test_a_colour_outside_the_house_is_refused() -> None:
    def draw(axes: Axes, narrow: bool) -> None:
        axes.plot([0, 1], [0, 1], color="#123456")

    with pytest.raises(FieldError, match="colour"):
        picture(draw=draw).svg()


def test_same_bytes_twice_and_in_another_process() -> None:
    code = (
        "import hashlib, test_plots as t; f = t.picture(); "
        "print(hashlib.sha256(f.html().encode() + f.png()).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    seen = {
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent).stdout
        for _ in "ab"
    }
    assert len(seen) == 1
    assert picture().html() == picture().html()
    assert picture().png() == picture().png()


def test_contrast_of_words_in_both_themes() -> None:
    def luminance(value: str) -> float:
        parts = [int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for theme in ("light", "dark"):
        c = colours(theme)
        ground = luminance(c["bg"])
        for name in ("ink", "mute", "gemm", "simulated", "measured", "recorded", *plots.OWN):
            light, dark = sorted((luminance(c[name]), ground), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (theme, name)


def test_light_colours_are_all_different() -> None:
    values = list(colours("light").values())
    assert len(set(values)) == len(values)  # else the dark theme could not tell them apart


def test_chinese_and_a_negative_tick() -> None:
    """Open case D08: no glyph warning, and the minus is there."""

    def draw(axes: Axes, narrow: bool) -> None:
        axis(axes, x="时间（毫秒）", y="温度变化 (°C)", x_ticks=[-2, 0, 2])
        marks(axes, "recorded", [-2.0, 2.0], [-1.5, 1.0])

    shown = picture(draw=draw, title="拷贝引擎：温度变化从 −1.5 到 1.0")
    svg = shown.svg()  # warnings are errors
    assert "\N{MINUS SIGN}2" in svg
    assert "时间（毫秒）" in svg
    assert "拷贝引擎" in svg
    bundle = shown._repr_mimebundle_()
    assert "text/html" in bundle


def test_no_png_rather_than_one_with_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_families", lambda: ["DejaVu Sans"])
    shown = picture(title="拷贝引擎")
    assert shown.png() is None
    assert set(shown._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_hostile_words_stay_words() -> None:
    bad = "</figcaption><script>alert(1)</script> $x^2$ \x00 & \" '"
    shown = picture(Source("measured", bad), title=bad, alt=f"{bad} 1 2 3 4 5 6", note=bad)
    page = shown.html()
    assert "<script" not in page
    for svg in images(page):
        ET.fromstring(svg)
        assert "<script" not in svg
        assert "$x^2$" in svg


def test_png_is_a_picture_of_twice_the_size() -> None:
    image = Image.open(io.BytesIO(picture().png()))
    assert image.size[0] == 2 * WIDE
    assert len(image.getcolors(1 << 20)) > 20


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 820])
def test_the_picture_follows_the_page(browser: Any, theme: str, width: int) -> None:
    """The ground is that of the page's theme, and the layout the one that fits."""
    tab = browser.new_page(viewport={"width": width, "height": 600})
    tab.set_content(
        f"<html style='color-scheme:{theme}'><body style='margin:0'>{picture().html()}</body></html>"
    )
    size = tab.evaluate(
        "async () => { const i = document.querySelector('img'); await i.decode();"
        " return [i.naturalWidth, i.getBoundingClientRect().width] }"
    )
    assert size == [NARROW if width < 640 else WIDE] * 2
    box = tab.locator("img").bounding_box()
    shot = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    ground = shot.getpixel((int(box["x"] + 20), int(box["y"] + 6)))
    assert "#{:02x}{:02x}{:02x}".format(*ground) == colours(theme)["bg"]
    tab.close()


# --- overlay and errors -----------------------------------------------------------------------------


def test_overlay_says_the_error_between() -> None:
    observed = Series("shared", RECORDED, (8.0, 16.0, 32.0), (2.0, Estimate(4.0, 3.8, 4.2, 30), 8.0))
    model = Series("shared", SIMULATED, (8.0, 16.0, 24.0, 32.0), (2.1, 4.0, 5.0, 6.4))
    error = error_between(observed, model)
    assert (error.count, error.at) == (3, 32.0)
    assert error.median == pytest.approx(0.05)
    assert error.worst == pytest.approx(0.2)
    shown = overlay([observed, model], title="k grows", x="SMs", y="k")
    for text in (shown.alt, shown.caption):
        assert "median 5.0%, worst 20.0%" in text
        assert "recorded · NVIDIA H200" in text
        assert "simulated · NVIDIA H200 SXM" in text
    assert "from 2.00 at 8 to 8.00 at 32" in shown.alt


def test_series_are_checked() -> None:
    with pytest.raises(FieldError, match="as many x as y"):
        Series("a", RECORDED, (1.0, 2.0), (1.0,))
    with pytest.raises(FieldError, match="ascending"):
        Series("a", RECORDED, (2.0, 1.0), (1.0, 1.0))
    other = Series("a", SIMULATED, (3.0,), (1.0,))
    assert error_between(Series("a", RECORDED, (1.0,), (1.0,)), other) is None


def test_numbers_for_people() -> None:
    assert [number(v) for v in (1.234, 12.34, 123.4, -1.5, 0.0)] == ["1.23", "12.3", "123", "−1.50", "0.00"]
    assert percent(-0.031) == "−3.1%"
    assert estimate_text(Estimate(3.89, 3.864, 3.94, 30)) == "3.89 (3.86–3.94)"
    assert estimate_text(Estimate(3.93, 3.93, 3.93, 1)) == "3.93"
    assert estimate_text(None) == "refused"


# --- tables -----------------------------------------------------------------------------------------


def test_table_of_one_source() -> None:
    made = table(
        ["copy", ("step", "ms")],
        [["H2D", Estimate(1.5, 1.4, 1.6, 30)], ["<b>", None]],
        title="t",
        sources=[RECORDED],
    )
    bundle = made._repr_mimebundle_()
    for text in bundle.values():
        assert "recorded · NVIDIA H200, 2026-12-01, driver 580.159.04" in text
        assert "step (ms)" in text
        assert "1.50 (1.40–1.60)" in text
    assert "<b>" not in bundle["text/html"]
    assert "source" not in bundle["text/plain"].split("\n", 3)[3]
    ET.fromstring(bundle["text/html"].replace("<br>", "<br/>"))


def test_table_of_two_sources_names_one_in_each_row() -> None:
    made = table(["copy", "k"], [["H2D", 1.0], ["H2D", 1.1]], title="t", sources=[RECORDED, SIMULATED])
    rows = repr(made).splitlines()
    assert any("1.00" in r and "recorded · NVIDIA H200" in r for r in rows)
    assert any("1.10" in r and "simulated · NVIDIA H200 SXM" in r for r in rows)
    cells = re.findall(r"<tr>(.*?)</tr>", made.html())
    assert "recorded" in cells[1]
    assert "simulated" in cells[2]


def test_tables_are_checked() -> None:
    with pytest.raises(FieldError, match=r"rows\[0\]"):
        table(["a", "b"], [["x"]], title="t", sources=[RECORDED])
    with pytest.raises(FieldError, match="sources"):
        table(["a"], [["x"], ["y"], ["z"]], title="t", sources=[RECORDED, SIMULATED])


def test_figure_is_the_class() -> None:
    assert isinstance(figure(lambda axes, narrow: None, title="t", alt=ALT, sources=[RECORDED]), Figure)

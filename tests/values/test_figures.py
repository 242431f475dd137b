"""Descriptions of figures and images."""

from __future__ import annotations

import sys
import types
from typing import Any

import matplotlib.pyplot as plt
import PIL.Image
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import jp_nb as jp
from tests.kit.values import describe_value
from tests.values.helpers import PNG, picture


def test_figure_is_drawn_in_the_size_of_the_budget() -> None:
    assert max(picture(Figure(figsize=(8, 4)), side=100).size) == 100
    assert picture(Figure(figsize=(2, 1), dpi=100)).size == (200, 100)


def test_metadata_of_an_image_is_removed() -> None:
    assert b"Software" not in jp.describe(Figure(figsize=(1, 1))).images[0].content
    made = PIL.Image.new("RGB", (2, 2))
    made.info = {"icc_profile": b"of a camera"}
    assert picture(made).info == {}
    assert made.info != {}


def test_figure_that_cannot_be_drawn_is_described() -> None:
    said = jp.describe(Figure(figsize=(2_000, 2)))
    assert said.text.endswith("(Cannot be drawn: ValueError: a figure of 2000 x 2 inches)")
    assert said.images == ()


def test_image_is_scaled_down_as_a_copy() -> None:
    made = PIL.Image.new("RGB", (2_000, 1_000))
    assert picture(made).size == (768, 384)
    assert made.size == (2_000, 1_000)


def test_mode_of_an_image_is_converted_and_keeps_transparency() -> None:
    for mode, shown in [("P", "RGB"), ("CMYK", "RGB"), ("La", "LA"), ("PA", "RGBA")]:
        assert picture(PIL.Image.new(mode, (3, 3))).mode == shown
    made = PIL.Image.new("P", (3, 3))
    made.info["transparency"] = 0
    assert picture(made).mode == "RGBA"


def test_huge_image_is_not_scaled_down() -> None:
    said = jp.describe(PIL.Image.new("1", (10_000, 6_001)))
    assert said.images == ()
    assert "too large to show. Make a smaller copy" in said.text


def test_only_small_bytes_of_an_image_are_shown() -> None:
    small = jp.describe(PNG)
    assert small.text == "bytes, 28 bytes: image/png"
    assert small.images == (jp.Image("image/png", PNG),)

    large = jp.describe(PNG + b"\0" * 5_000_000)
    assert large.text == "bytes, 5,000,028 bytes: image/png"
    assert large.images == ()


def test_number_of_drawn_figures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    draw: Any = FigureCanvasAgg.draw

    def recording_draw(canvas: Any) -> None:
        drawn.append(canvas)
        draw(canvas)

    monkeypatch.setattr(FigureCanvasAgg, "draw", recording_draw)
    said = describe_value([Figure(figsize=(1, 1)) for _ in range(4)], images=2)
    assert len(said.images) == len(drawn) == 2
    assert said.text.count("matplotlib.Figure") == 4


def test_plotly_figure_is_drawn_if_kaleido_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    go = pytest.importorskip("plotly.graph_objects", reason="pip install -e '.[tiers]'")
    made = go.Figure(go.Scatter(x=[1], y=[2]), layout={"width": 1_536, "height": 100})
    monkeypatch.setitem(sys.modules, "kaleido", types.ModuleType("kaleido"))
    asked: list[dict[str, Any]] = []

    def drawn(self: object, **how: Any) -> bytes:
        asked.append(how)
        return PNG

    monkeypatch.setattr(go.Figure, "to_image", drawn)
    assert [image.content for image in jp.describe(made).images] == [PNG]
    assert asked == [{"format": "png", "width": 1_536, "height": 100, "scale": 0.5}]


def test_drawing_a_figure_changes_nothing() -> None:
    plt.switch_backend("agg")
    figure, axes = plt.subplots(figsize=(20, 5), dpi=150)
    other = plt.figure()
    axes.plot([1, 2])
    canvas = figure.canvas
    numbers = plt.get_fignums()
    said = describe_value(figure, side=400)
    assert len(said.images) == 1
    assert figure.canvas is canvas
    assert (tuple(figure.get_size_inches()), figure.dpi) == ((20, 5), 150)
    assert plt.get_fignums() == numbers
    assert plt.gcf() is other
    plt.close("all")

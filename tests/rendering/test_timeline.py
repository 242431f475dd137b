"""`%jp timeline` and the picture of `%jp usage`: steps, times, and pictures of hostile records."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import jp_nb as jp
from tests.kit.notebook_record import open_document
from tests.kit.renderings import render
from tests.rendering.markdown_readers import dangers, without_pictures

BEGIN = datetime(2026, 11, 22, 21, 53, 58, 527039)
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>\ufffe\x07\u202e$x$`_*]]>&'\"%23 | \ud800"


def entry(second: float, kind: str, **fields: Any) -> dict[str, Any]:
    moment = (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S.%f")
    return {"timestamp": moment, "type": kind, **fields}


def times(**groups: Any) -> dict[str, Any]:
    return {"times": groups}


def span(before_ms: Any, ms: Any, **more: Any) -> dict[str, Any]:
    return {"before_ms": before_ms, "ms": ms, **more}


def document(*events: dict[str, Any]) -> Any:
    conversation = {"id": "jp-c2", "made": "live"}
    stored = {"conversation": conversation, "base_config": {}, "events": list(events)}
    return open_document({"version": 1, **stored})


START = [entry(0, "turn_start"), entry(0, "chat_request", content="q")]
USAGE = {"model": "p/m", "input_tokens": 1200, "cache_read_tokens": 900, "output_tokens": 48}
REQUESTS = [span(6900, 350, failed="rate_limit"), span(5000, 5000, first_ms=840)]


def make_turn(*, is_measured: bool = True, name: str = "forecast") -> list[dict[str, Any]]:
    """Return a turn: a retry, a tool that waits half an hour for the user, and an answer."""
    events = [
        *START,
        entry(7, "tool_call_request", id="a", name=name, arguments={},
              metadata={"usage": USAGE, **times(requests=REQUESTS)}),
        entry(1809, "tool_call_response", id="a", content="sun", is_error=False,
              metadata=times(runs=[span(1500, 1500)], waits=[span(1802000, 1800000)])),
        entry(1812, "chat_response", message="Take one.",
              metadata={"usage": USAGE, **times(requests=[span(3000, 3000, first_ms=200)])}),
    ]  # fmt: skip
    if not is_measured:
        for event in events:
            event.get("metadata", {}).pop("times", None)
    return events


def table(report: Any) -> list[list[str]]:
    lines = [line for line in report.text.splitlines() if "  " in line]
    return [[cell.strip() for cell in re.split("  +", line)] for line in lines]


def read_svg(markdown: str) -> ElementTree.Element:
    """Return the SVG of the only image in `markdown`."""
    [source] = re.findall('src="data:image/svg[+]xml,([^"]*)"', markdown)
    return ElementTree.fromstring(unquote(unescape(source)))


def texts(svg: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in svg.iter(f"{SVG}text")]


def bars(svg: ElementTree.Element, name: str) -> list[tuple[float, float]]:
    """Return the positions and widths of the bars of a class, without those of the legend."""
    found = [each for each in svg.iter(f"{SVG}rect") if name in each.get("class", "").split()]
    sized = [each for each in found if each.get("height") == "12"]
    return [(float(each.get("x", "")), float(each.get("width", ""))) for each in sized]


@pytest.mark.req("CELL-38")
def test_steps_have_their_times_and_tokens() -> None:
    shown = render("timeline", document(*make_turn()))
    head, *rows = table(shown)
    assert head[:8] == [
        "step", "start", "time", "first token", "tokens in", "from cache", "out", "end",
    ]  # fmt: skip
    assert [row[:4] for row in rows] == [
        ["request 1", "100 ms", "350 ms", "-"],
        ["request 1, try 2", "2.0 s", "5.0 s", "840 ms"],
        ["you", "7.0 s", "30 min", "-"],
        ["forecast", "30 min 8 s", "1.5 s", "-"],
        ["request 2", "30 min 9 s", "3.0 s", "200 ms"],
    ]
    assert rows[0][-2] == "rate limit"
    assert rows[1][4:7] == ["1,200", "900", "48"]
    assert "Timeline of turn 1: 30 min 12 s, 3 requests, 1 tool run, 30 min waiting" in shown.text


@pytest.mark.req("CELL-38")
def test_picture_has_a_bar_for_each_step_in_order() -> None:
    svg = read_svg(render("timeline", document(*make_turn())).markdown)
    [failed] = bars(svg, "error")
    first, second = bars(svg, "request")
    [waits] = bars(svg, "wait")
    [tool] = bars(svg, "tool")
    assert failed[0] < first[0] < waits[0] < tool[0] < second[0]
    assert len(bars(svg, "first")) == 2
    assert svg.get("role") == "img"
    assert (svg.findtext(f"{SVG}title") or "").startswith("Timeline of turn 1: 30 min 12 s")
    for label in ("request 1", "forecast", "you", "5.0 s (840 ms)"):
        assert label in texts(svg)


@pytest.mark.req("CELL-38")
def test_long_wait_is_drawn_shorter_and_marked() -> None:
    shown = render("timeline", document(*make_turn()))
    svg = read_svg(shown.markdown)
    [cut] = [each for each in svg.iter(f"{SVG}rect") if each.get("class") == "cut"]
    assert float(cut.get("width", "")) < 60
    assert min(width for _, width in bars(svg, "request")) > 40
    assert "drawn shorter" in shown.text


@pytest.mark.req("CELL-38")
def test_record_without_measured_times_says_so() -> None:
    shown = render("timeline", document(*make_turn(is_measured=False)))
    _, *rows = table(shown)
    assert [row[:4] for row in rows] == [
        ["request 1", "about 0 s", "about 7.0 s", "-"],
        ["forecast", "about 7.0 s", "about 30 min 2 s", "-"],
        ["request 2", "about 30 min 9 s", "about 3.0 s", "-"],
    ]
    assert "This turn has no measured times" in shown.text
    assert bars(read_svg(shown.markdown), "rough")


@pytest.mark.req("CELL-38")
def test_order_is_shown_without_times() -> None:
    reproducible = [
        {**event, "timestamp": entry(place, "")["timestamp"]}
        for place, event in enumerate(make_turn(is_measured=False))
    ]
    live = render("timeline", document(*make_turn()), ordered=True)
    replayed = render("timeline", document(*reproducible))
    for shown in (live, replayed):
        assert "The order of the steps, without times" in shown.text
        assert table(shown)[0] == ["step", "tokens in", "from cache", "out", "end"]
        words = [shown.text, *texts(read_svg(shown.markdown))]
        assert not [text for text in words if re.search(r"\d (ms|s|min|h)\b", text)]
    assert [row[0] for row in table(replayed)[1:]] == ["request 1", "forecast", "request 2"]


@pytest.mark.req("CELL-38")
def test_questions_of_an_older_record_are_waits_for_the_user() -> None:
    source = {"source": "tool", "name": "forecast"}
    question = {"text": "?", "answer_type": {"type": "boolean"}}
    asked = {"source": source, "question": question}
    outcome = {"outcome": "answered", "answer": True}
    events = [
        *START,
        entry(2.5, "tool_call_request", id="a", name="forecast", arguments={}),
        entry(3, "inquiry_request", id="a.q.1", **asked),
        entry(8, "inquiry_response", id="a.q.1", **outcome, metadata={"channel": "form"}),
        entry(8, "inquiry_request", id="a.r.1", **asked),
        entry(9, "inquiry_response", id="a.r.1", **outcome,
              metadata={"channel": "model", "usage": USAGE}),
    ]  # fmt: skip
    shown = render("timeline", document(*events))
    rows = [row[:3] for row in table(shown)[1:]]
    assert ["you", "about 3.0 s", "about 5.0 s"] in rows
    assert ["question of forecast", "about 8.0 s", "about 1.0 s"] in rows
    assert "This turn has a tool call without a result" in shown.text


@pytest.mark.req("CELL-38")
def test_hostile_texts_stay_texts() -> None:
    shown = render("timeline", document(*make_turn(name=HOSTILE)))
    assert dangers(without_pictures(shown.markdown)) == []
    svg = read_svg(shown.markdown)
    assert {each.tag.removeprefix(SVG) for each in svg.iter()} == {
        "svg", "title", "style", "defs", "pattern", "path", "rect", "text",
    }  # fmt: skip
    names = {name for each in svg.iter() for name in each.attrib}
    assert not [name for name in names if "href" in name or name.startswith("on")]
    assert any(text.startswith("</text>") for text in texts(svg))
    addresses = re.findall(r"https?://[^'\" )]+|url\([^)]*\)", ElementTree.tostring(svg, "unicode"))
    assert all(address.startswith(("http://www.w3.org/", "url(#")) for address in addresses)


DAMAGED: list[Any] = [
    None, 3, [], {"requests": 3}, {"requests": [3, None, {}]},
    {"requests": [span(-5, 3)]}, {"requests": [span(5, 1e300)]}, {"requests": [span(True, True)]},
    {"requests": [span(3, 5)]}, {"requests": [span("5", "3")]}, {"runs": [span(2**60, 1)]},
    {"requests": [span(10**11, 10**11, first_ms=-3, failed=["x"])]},
    {"waits": [span(5, 5, failed="<b>")] * 10_000},
]  # fmt: skip


@pytest.mark.req("CELL-38")
@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_times_are_ignored(damaged: Any) -> None:
    said = entry(9, "chat_response", message="a", metadata={"times": damaged})
    shown = render("timeline", document(*START, said))
    assert "request 1" in shown.text
    assert len(shown.text.splitlines()) < 110
    assert "-" not in "".join(row[2] for row in table(shown)[1:])
    read_svg(shown.markdown)


@pytest.mark.req("CELL-38")
@pytest.mark.parametrize("second", [-3600.0, 1e9, 0.0])
def test_clock_may_go_back_or_jump(second: float) -> None:
    said = entry(second, "chat_response", message="a")
    shown = render("timeline", document(*START, said, entry(5, "chat_response", message="b")))
    svg = read_svg(shown.markdown)
    assert ("The clock went back" in shown.text) == (second != 0.0)
    assert all(-1 <= x <= 721 for name in ("request", "rough") for x, _ in bars(svg, name))


@pytest.mark.req("CELL-38")
def test_picture_and_table_of_ten_thousand_requests_are_bounded() -> None:
    said = [
        entry(place, "chat_response", message="a",
              metadata={"usage": USAGE, "continues": True, **times(requests=[span(900, 900)])})
        for place in range(1, 10_001)
    ]  # fmt: skip
    shown = render("timeline", document(*START, *said))
    assert "Only the first 100 steps are shown, 9,900 more are not." in shown.text
    assert len(shown.markdown) < 100_000
    svg = read_svg(shown.markdown)
    assert "… 9,900 more steps" in texts(svg)
    assert len(bars(svg, "request")) == 100

    usage = render("usage", document(*START, *said), 10)
    assert len(usage.markdown) < 100_000
    assert "The last 100 of 10,000 requests" in texts(read_svg(usage.markdown))


@pytest.mark.req("CELL-38")
def test_turn_without_an_answer_shows_its_attempts() -> None:
    failed = [span(9000 - 1000 * place, 500, failed="transient") for place in range(3)]
    ended = {"ended": "failed", "takes_back": 0}
    metadata = {"no_answer": ended, **times(requests=failed)}
    mark = entry(9, "config_delta", delta={}, metadata=metadata)
    shown = render("timeline", document(*START, mark))
    assert [row[0] for row in table(shown)[1:]] == [
        "request 1", "request 1, try 2", "request 1, try 3",
    ]  # fmt: skip
    assert "This turn failed: it has no answer." in shown.text
    assert len(bars(read_svg(shown.markdown), "error")) == 3


@pytest.mark.req("CELL-38")
def test_legend_has_only_the_bars_of_the_picture() -> None:
    failed = times(requests=[span(9000, 500, first_ms=100, failed="transient")])
    metadata = {"no_answer": {"ended": "failed", "takes_back": 0}, **failed}
    mark = entry(9, "config_delta", delta={}, metadata=metadata)
    shown = texts(read_svg(render("timeline", document(*START, mark)).markdown))

    # The bar of a failed request has no part for the time until its first token.
    assert "failed" in shown
    assert "until the first token" not in shown


@pytest.mark.req("CELL-38")
def test_turn_is_named_or_the_last_one() -> None:
    second = [entry(50, "turn_start"), entry(50, "chat_request", content="r")]
    both = document(*make_turn(), *second, entry(52, "chat_response", message="a"))
    assert "Timeline of turn 2" in render("timeline", both).text
    assert "Timeline of turn 1" in render("timeline", both, 1).text
    with pytest.raises(jp.UsageError, match=r"no turn 3. The last turn is 2"):
        render("timeline", both, 3)
    with pytest.raises(jp.UsageError, match="no turn yet"):
        render("timeline", document())


@pytest.mark.req("CELL-38")
def test_usage_has_a_bar_for_each_request() -> None:
    shown = render("usage", document(*make_turn()), 10)
    svg = read_svg(shown.markdown)
    cached, new, written = (bars(svg, name) for name in ("first", "request", "written"))
    assert len(cached) == len(new) == len(written) == 2
    # 900 tokens from the cache, 300 new ones, and 48 that the model wrote
    assert cached[0][1] == pytest.approx(3 * new[0][1], rel=0.01)
    assert new[0][1] == pytest.approx(300 / 48 * written[0][1], rel=0.02)
    assert "900 + 300 → 48" in texts(svg)
    assert "img" not in shown.text


@pytest.mark.req("CELL-38")
def test_usage_without_tokens_has_no_picture() -> None:
    said = entry(3, "chat_response", message="a", metadata={"usage": {"model": "p/m"}})
    assert "<img" not in render("usage", document(*START, said), 10).markdown


@pytest.mark.req("CELL-38")
def test_colors_have_contrast_in_each_theme() -> None:
    style = read_svg(render("timeline", document(*make_turn())).markdown).findtext(f"{SVG}style")
    rules = str(style).split("svg{")
    themes = [dict(re.findall("--([a-z]+):(#[0-9a-f]+)", rule)) for rule in rules]
    light, contrast, dark, dark_contrast = (theme for theme in themes if theme)
    for theme in (light, light | contrast, dark, dark | dark_contrast):
        for name in ("request", "tool", "user", "failed", "written"):
            assert contrast_of(theme[name], theme["back"]) >= 3, (name, theme)
        for name in ("text", "dim"):
            assert contrast_of(theme[name], theme["back"]) >= 4.5, (name, theme)


def contrast_of(one: str, other: str) -> float:
    """Return the contrast of two colors: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    digits = color[1:]
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)

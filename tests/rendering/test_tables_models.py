"""The table of `%jp models`."""

from __future__ import annotations

from tests.kit.kinds import make
from tests.kit.renderings import render
from tests.rendering.markdown_readers import dangers

MAX_TABLE_ROWS = 50


def ids(text: str) -> list[str]:
    """Return the first column of the table without its head."""
    return [line.split("  ")[0].strip() for line in text.splitlines()[1:-1] if line.strip()]


OLD = make("model_info", "old", created=1.0, state="deprecated", ends="2027-01-05")
NEW = make("model_info", "new", "New One", context_window=200_000, tools=True, created=3.0)
GONE = make("model_info", "gone", created=9.0, state="retired")


def test_models_in_use_come_first_then_newer_ones_and_retired_ones_last() -> None:
    listed = make("model_list", (OLD, GONE, NEW, make("model_info", "mine", created=0.0)))
    shown = render("model_table", listed, "p", current="old", aliases={"mine": ["fast", "f"]})
    assert ids(shown.text) == ["p/old", "p/mine", "p/new", "p/gone"]
    head, first, second, *_ = shown.text.splitlines()
    assert head.split() == ["model", "name", "context", "tools", "ends", "used", "as"]
    assert first.split() == ["p/old", "2027-01-05", "current"]
    assert second.split() == ["p/mine", "fast,", "f"]
    assert "p: 4 models. " in shown.text


def test_empty_columns_are_omitted() -> None:
    assert (
        render(
            "model_table", make("model_list", (make("model_info", "m"),)), "p"
        ).text.splitlines()[0]
        == "model"
    )


def test_models_are_searched_by_id_and_name() -> None:
    listed = make("model_list", (NEW, OLD, GONE))
    assert ids(render("model_table", listed, "p", words=["EW o"]).text) == ["p/new"]
    none = render("model_table", listed, "p", words=["o", "zz"]).text
    assert "None of the 3 models of p matches 'o zz'." in none
    assert "p lists no models." in render("model_table", make("model_list"), "p").text


def test_long_list_is_cut_with_a_hint_to_search() -> None:
    many = make("model_list", tuple(make("model_info", f"m{n}") for n in range(400)), is_cut=True)
    shown = render("model_table", many, "p").text
    assert len(ids(shown)) == MAX_TABLE_ROWS
    assert (
        "350 are not shown: search with `%jp models p WORD`; the list of the provider was truncated"
        in shown
    )


def test_hostile_name_from_a_server_is_shown_as_text() -> None:
    name = "<img src=x onerror=alert(1)>|[a](javascript:x)`\u202e\x1b[31m"
    shown = render(
        "model_table",
        make("model_list", (make("model_info", name, name, parameters=name, ends=name),)),
        "p",
    )
    assert not dangers(shown.markdown)
    for sign in ("\u202e", "\x1b"):
        assert sign not in shown.markdown + shown.text

"""`choices.ts` in a bare page: options are picked with mouse and keyboard, and read as an answer.

RPI-50 and RPI-51 are settled otherwise: the ticks and the own text are on one page, which a button
ends; RPI-65: the box for an own text keeps its text.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered
from tests.notebook.prompt.choices_page import ChoicesPage, OpenChoices

OTHER_LABEL = "Other (type your own)"


pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what starts the browser
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

COLOURS = ("red", "green", "blue")
LONG = "\n".join(
    f"line {n}: {'what it would mean for those who come later ' * 3}" for n in range(6)
)


def select(*options: Any, **more: Any) -> jp.Question:
    return jp.Question.select("q", "Which?", options or COLOURS, **more)


def own(custom: str, *selected: str) -> Any:
    value: JsonValue = {"selected": [*selected], "custom": custom}
    return answered(value, "form")


def ticked(shown: ChoicesPage) -> list[bool]:
    return [box.is_checked() for box in shown.page.locator(".jp-nb-option input").all()]


# --- one of several --------------------------------------------------------------------------


@pytest.mark.req("RPI-49", "RPI-14", "RCP-11", "RCP-8", "RPI-12", "RPI-35")
def test_options_have_a_row_for_an_own_text_if_one_is_allowed(choices: OpenChoices) -> None:
    shown = choices(select(other=True))
    group = shown.page.get_by_role("radiogroup", name="Which?")
    assert group.get_by_role("radio").count() == 4
    rows = shown.page.locator(".jp-nb-option").all_inner_texts()
    assert rows == [*COLOURS, OTHER_LABEL]  # and no number
    shown.option("green").check()
    assert shown.read() == answered("green", "form")
    shown.page.get_by_role("radio", name=OTHER_LABEL).click()
    assert shown.own_text.evaluate("box => box === document.activeElement")
    shown.page.keyboard.type("pink")
    assert ticked(shown) == [False, False, False, True]
    assert shown.read() == own("pink")
    shown.own_text.fill("one\n two\n")
    assert shown.own_text.evaluate("box => box.scrollHeight <= box.clientHeight")
    assert shown.read() == own("one\n two\n")
    shown = choices(select(recommended=0))
    assert shown.page.get_by_role("radio").count() == 3
    assert shown.own_text.count() == 0
    shown = choices(jp.Question.select("q", "Which?", [], other=True))
    assert shown.page.get_by_role("radio").count() == 0
    box = shown.page.get_by_role("textbox", name=OTHER_LABEL)
    box.fill("mine")
    assert shown.read() == own("mine")
    box.fill("")
    assert is_kind(shown.read(), "no_valid_answer")


@pytest.mark.req("RPI-63", "HB-5", "RPI-65", "RPI-58")
def test_emptied_own_text_gives_way_to_the_earlier_pick(choices: OpenChoices) -> None:
    shown = choices(select(other=True))
    shown.option("green").check()
    shown.own_text.fill("pink")
    assert ticked(shown) == [False, False, False, True]
    shown.own_text.fill("")
    assert ticked(shown) == [False, True, False, False]
    assert shown.read() == answered("green", "form")
    shown.own_text.fill("pink and more")
    assert shown.read() == own("pink and more")
    shown.option("red").check()
    assert shown.read() == answered("red", "form")
    assert shown.own_text.input_value() == "pink and more"
    shown.page.get_by_role("radio", name=OTHER_LABEL).check()
    assert shown.read() == own("pink and more")
    shown.option("red").check()
    shown.own_text.click()
    assert shown.read() == own("pink and more")
    shown = choices(select(other=True))
    shown.own_text.click()
    assert shown.read() == make(
        "no_valid_answer", "Please choose an option first.", may_stay_open=True
    )


@pytest.mark.req("RPI-18", "RPI-22", "RCP-9", "HB-8", "RPI-20", "RPI-19")
def test_recommended_option_is_marked_and_picked_at_first(choices: OpenChoices) -> None:
    shown = choices(select(recommended=1))
    rows = shown.page.locator(".jp-nb-option")
    assert rows.all_inner_texts() == ["red", "green (recommended) ★", "blue"]
    assert shown.option("green (recommended)").is_checked()  # in a screen reader as well
    assert shown.read() == answered("green", "form")
    twice = choices(select("red", "Green (Recommended)", recommended=1))
    assert rows.all_inner_texts() == ["red", "Green (Recommended) ★"]
    assert twice.read() == answered("Green (Recommended)", "form")
    several = choices(select(recommended=1, multi=True))
    assert rows.all_inner_texts() == [*COLOURS]
    assert ticked(several) == [False] * 3


def test_choice_that_may_be_left_open_can_be_cleared(choices: OpenChoices) -> None:
    for key in ("Enter", "click"):
        shown = choices(select(other=True).with_required(False))
        clear = shown.page.get_by_role("button", name="Clear the choice")
        assert clear.count() == 0
        shown.option("green").check()
        if key == "click":
            clear.click()
        else:
            clear.focus()
            press(shown, key)
        assert ticked(shown) == [False] * 4
        assert is_kind(shown.read(), "no_valid_answer")
        assert clear.count() == 0
        assert shown.option("red").evaluate("box => box === document.activeElement")


# --- several ---------------------------------------------------------------------------------


@pytest.mark.req("RPI-50", "RPI-54", "RPI-56", "RPI-55")
def test_ticks_count_in_the_order_of_the_clicks(choices: OpenChoices) -> None:
    shown = choices(select(multi=True))
    counted = [shown.counts]
    for label in ("blue", "red", "green", "blue", "blue"):
        shown.option(label).click()
        counted.append(shown.counts)
    assert counted == ["", *(f"({n} selected)" for n in (1, 2, 3, 2, 3))]
    assert shown.read() == answered(["red", "green", "blue"], "form")
    kind = make(
        "select_answer", options=tuple(jp.Option(value=x) for x in COLOURS), multi=True, min_picks=2
    )
    shown = choices(jp.Question(id="q", text="Which?", answer_type=kind))
    assert shown.counts == "Please pick at least 2."
    shown.option("blue").click()
    assert shown.counts == "Please pick at least 2. (1 selected)"
    assert shown.read() == make("no_valid_answer", "Please pick at least 2.")


@pytest.mark.req("RPI-64", "RPI-51", "HB-5", "RPI-58")
def test_custom_text_joins_the_ticks(choices: OpenChoices) -> None:
    shown = choices(select(multi=True, other=True))
    shown.option("blue").check()
    shown.page.get_by_role("checkbox", name=OTHER_LABEL).check()
    asked = shown.read()
    assert is_kind(asked, "no_valid_answer")
    assert "empty" in asked.why
    shown.page.keyboard.type("pink")
    shown.option("red").check()
    assert shown.counts == "(3 selected)"
    assert shown.read() == own("pink", "blue", "red")
    shown.page.get_by_role("checkbox", name=OTHER_LABEL).uncheck()
    assert shown.read() == answered(["blue", "red"], "form")
    shown.page.get_by_role("checkbox", name=OTHER_LABEL).check()
    assert shown.read() == own("pink", "blue", "red")
    shown.own_text.fill("")
    assert shown.read() == answered(["blue", "red"], "form")


# Actions of a user, and their meaning without any page.
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("click"), st.integers(0, 11)),
        st.tuples(st.just("own"), st.sampled_from(["", "pink", " two\nlines "])),
        st.tuples(st.just("other"), st.none()),
        st.tuples(st.just("filter"), st.sampled_from(["", "1", "zzz"])),
        st.tuples(st.just("reload"), st.none()),
    ),
    max_size=12,
)


class Meant:
    """Answer by the rules: picks in the order of the clicks, and the user's own text."""

    def __init__(self, *, multi: bool) -> None:
        self.multi = multi
        self.picks: list[int] = []
        self.custom: str | None = None
        self.draft = ""

    def click(self, index: int) -> None:
        if not self.multi:
            self.picks = [index]
            self.custom = None
        elif index in self.picks:
            self.picks.remove(index)
        else:
            self.picks.append(index)

    def own(self, text: str) -> None:
        if text or self.draft:  # else nothing is typed
            self.draft = text
            self.custom = text or None

    def other(self, _: None) -> None:
        self.custom = self.draft if self.custom is None or not self.multi else None


# Carries out the actions in the page, as events of its elements.
ACT = """acts => {
    const one = selector => document.querySelector(selector);
    const type = (box, text) => {
        box.focus();
        box.value = text;
        box.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const does = {
        click: index => {
            const row = document.querySelectorAll(".jp-nb-options .jp-nb-option")[index];
            if (row.hidden) type(one(".jp-nb-filter"), ""); // as a user does to see the row
            row.querySelector("input").click();
        },
        own: text => {
            const box = one(".jp-nb-own-text");
            if (text || box.value) type(box, text);
        },
        other: () => one(".jp-nb-own input").click(),
        filter: text => type(one(".jp-nb-filter"), text),
        reload: () => window.draw(),
    };
    for (const [action, value] of acts) does[action](value);
    const boxes = [...document.querySelectorAll(".jp-nb-option input")];
    return [boxes.map(box => box.checked), one(".jp-nb-own-text").value];
}"""


@pytest.mark.req("RPI-56", "RPI-32", "HB-5", "RPI-58")
@pytest.mark.parametrize("multi", [True, False], ids=["several", "one"])
def test_after_any_clicks_the_answer_is_on_screen(choices: OpenChoices, multi: bool) -> None:
    question = select(*range(12), multi=multi, other=True)

    @given(ACTS)
    def holds(acts: list[tuple[str, Any]]) -> None:
        shown = choices(question)
        meant = Meant(multi=multi)
        boxes, text = shown.page.evaluate(ACT, acts)
        for what, value in acts:
            if what in ("click", "own", "other"):
                getattr(meant, what)(value)
        replaced = meant.custom is not None and not multi
        picked = [] if replaced else meant.picks
        assert [index for index in range(12) if boxes[index]] == sorted(picked)
        assert boxes[12] is (meant.custom is not None)
        assert text == meant.draft
        selected: list[JsonValue] = [*picked]
        answer: JsonValue = selected if multi else (selected or [None])[0]
        if meant.custom is not None:
            answer = {"selected": selected, "custom": meant.custom}
        found = shown.read(confirmed=True)
        nothing = is_kind(found, "no_valid_answer")
        assert nothing is (not multi and not selected and meant.custom is None)
        assert is_kind(found, "no_valid_answer") or found.value == answer

    holds()


# --- many, long, hostile ---------------------------------------------------------------------

MANY = [
    jp.Option(
        value=n,
        label=f"Option {n} {'with a name that is rather long ' * (1 + n % 4)}end",
        description=None if n % 2 else f"About {n}: {'what it comes to in the end ' * 20}",
    )
    for n in range(30)
]


@pytest.mark.req("RPI-13", "RPI-89")
def test_thirty_options_scroll_and_each_can_be_ticked(choices: OpenChoices) -> None:
    shown = choices(select(*MANY, multi=True, other=True))
    listed = shown.page.locator(".jp-nb-options")
    assert listed.evaluate("list => list.scrollHeight > list.clientHeight * 2")
    box = shown.page.locator(".jp-nb-choices").bounding_box()
    assert box is not None
    assert box["height"] < 600
    boxes = listed.get_by_role("checkbox")
    assert boxes.count() == 30
    for index in (29, 0, 15):
        boxes.nth(index).click()
    assert shown.read() == answered([29, 0, 15], "form")
    shown.sync()
    shown.mount()  # as on a page that is loaded again: the last one that was ticked is in view
    in_view = """row => {
        const list = row.closest(".jp-nb-options").getBoundingClientRect();
        const { top, bottom } = row.getBoundingClientRect();
        return top >= list.top - 1 && bottom <= list.bottom + 1;
    }"""
    row = listed.locator(".jp-nb-option").nth(15)
    handle = row.element_handle()
    shown.page.wait_for_function(in_view, arg=handle)
    assert not listed.locator(".jp-nb-option").nth(0).evaluate(in_view)


@pytest.mark.req("RPI-89", "RPI-13", "RPI-14")
def test_filter_hides_rows_and_changes_no_pick(choices: OpenChoices) -> None:
    shown = choices(select(*MANY, multi=True, other=True))
    boxes = shown.page.locator(".jp-nb-options input")
    boxes.nth(3).click()
    shown.filter.fill("ABOUT 2 end")  # words of label and description, in any case
    visible = [n for n in range(30) if boxes.nth(n).is_visible()]
    assert visible == [2, 3, 12, 20, 22, 24, 26, 28]
    assert shown.counts == "8 of 30 shown (1 selected)"
    boxes.nth(20).click()
    shown.filter.fill("nothing of the kind")
    assert shown.counts == "2 of 30 shown (2 selected)"
    assert shown.page.get_by_role("checkbox", name=OTHER_LABEL).is_visible()
    assert shown.own_text.is_visible()
    shown.filter.fill("")
    assert shown.counts == "(2 selected)"
    assert shown.read() == answered([3, 20], "form")


def test_filter_ignores_case_and_accents_and_is_emptied_with_escape(choices: OpenChoices) -> None:
    assert choices(select(*range(8), other=True)).filter.count() == 0
    shown = choices(select("Résumé", "Straße", *range(8), other=True))
    visible = shown.page.locator(".jp-nb-option:visible")
    for typed, found in (("resume", "Résumé"), ("RÉSUMÉ", "Résumé"), ("straße", "Straße")):
        shown.filter.fill(typed)
        assert visible.all_inner_texts() == [found, OTHER_LABEL]
    press(shown, "Escape")
    assert shown.filter.input_value() == ""
    assert visible.count() == 11
    press(shown, "Enter")
    assert shown.option("Résumé").evaluate("box => box === document.activeElement")
    assert is_kind(shown.read(), "no_valid_answer")


def test_long_description_is_whole_where_the_focus_or_the_pick_is(choices: OpenChoices) -> None:
    plans = [jp.Option(value=n, label=f"Plan {n}", description=LONG) for n in range(3)]
    shown = choices(select(*plans, other=True))

    def are_whole(*wanted: bool) -> None:
        shown.page.wait_for_function(
            """wanted => [...document.querySelectorAll('.jp-nb-description')].every(
              (text, i) => text.getBoundingClientRect().height > 60 === wanted[i])""",
            arg=list(wanted),
        )

    are_whole(False, False, False)
    shown.option("Plan 1").focus()
    are_whole(False, True, False)
    shown.option("Plan 2").check()
    are_whole(False, False, True)
    shown.own_text.click()
    are_whole(False, False, True)  # it is the one that is picked
    assert shown.own_text.is_visible()
    shown.own_text.fill("mine")
    are_whole(False, False, False)


def test_nothing_moves_under_the_mouse(choices: OpenChoices) -> None:
    plans = [jp.Option(value=n, label=f"Plan {n}", description=LONG) for n in range(3)]
    shown = choices(select(*plans, multi=True))
    shown.option("Plan 0").focus()
    target = shown.option("Plan 2").bounding_box()
    assert target is not None
    mouse = shown.page.mouse
    mouse.move(target["x"] + 5, target["y"] + 5)
    mouse.down()
    assert shown.option("Plan 2").bounding_box() == target
    mouse.up()
    assert shown.read() == answered([2], "form")
    for multi in (True, False):
        shown = choices(select(multi=multi).with_required(False))
        button = shown.page.get_by_role("button", name="Next")
        before = button.bounding_box()
        shown.option("green").click()
        assert button.bounding_box() == before


@pytest.mark.req("RPI-38", "RPI-10")
def test_hostile_text_stays_text(choices: OpenChoices) -> None:
    evil = [
        "<img src=x onerror=window.pwned=1>",
        "<script>window.pwned=1</script>",
        "$\\href{javascript:alert(1)}{x}$",
        '" onfocus=window.pwned=1 autofocus x="',
        "\u202egnp.exe\u2066\x1b[31m\x00",
        "עברית (x) abc",
        "a\u200bb",
        "ab",
        "W" * 4000,
    ]
    options = [jp.Option(value=n, label=text, description=text) for n, text in enumerate(evil)]
    question = jp.Question.select("q", evil[0], options, other=True)
    shown = choices(question)
    group = shown.page.locator(".jp-nb-choices")
    assert group.locator("img, script, a, [onfocus], [onerror]").count() == 0
    assert shown.page.evaluate("window.pwned") is None
    said = group.inner_text()
    assert "<img src=x onerror=window.pwned=1>" in said
    assert not {"\u202e", "\u2066", "\x1b", "\x00", "\u200b"} & {*said}
    assert "⟨U+202E⟩gnp.exe" in said
    assert "a⟨U+200B⟩b" in said
    wide = group.evaluate("group => group.scrollWidth <= group.clientWidth")
    assert wide is True
    directions = group.locator("bdi").evaluate_all("all => all.map(each => each.dir)")
    assert directions == ["auto"] * len(evil)


# --- keyboard, accessibility ------------------------------------------------


def press(shown: ChoicesPage, *keys: str) -> None:
    """Press keys as a form hands them on: it offers each to what has the focus."""
    offer = """key => !document.activeElement.dispatchEvent(
        new CustomEvent("jp-nb-key", { bubbles: true, cancelable: true, detail: key }))"""
    for key in keys:
        if not shown.page.evaluate(offer, key):
            shown.page.keyboard.press(key)


@pytest.mark.req("RPI-49", "RPI-50")
def test_options_are_picked_with_the_keyboard(choices: OpenChoices) -> None:
    shown = choices(select(other=True))
    shown.option("red").focus()
    press(shown, "ArrowDown", "ArrowDown")
    assert shown.read() == answered("blue", "form")
    press(shown, "ArrowDown", "Tab")
    shown.page.keyboard.type("pink")
    assert shown.read() == own("pink")
    press(shown, "Shift+Tab", "ArrowUp")
    assert shown.read() == answered("blue", "form")
    press(shown, "Tab", "Tab")
    assert shown.page.evaluate("document.activeElement.textContent") == "Next"
    shown = choices(select(*range(12), multi=True, other=True))
    shown.filter.focus()
    shown.page.keyboard.type("1")
    press(shown, "ArrowDown", "Space", "ArrowDown", "Tab", "Space", "ArrowDown", "Space")
    shown.page.keyboard.press("Tab")
    shown.page.keyboard.type("mine")
    assert shown.read() == answered({"selected": [1, 11], "custom": "mine"}, "form")
    press(shown, "Shift+Tab", "Space", "ArrowUp", "Space")
    assert shown.read() == answered([1], "form")


def test_options_have_accessible_names_and_descriptions(choices: OpenChoices) -> None:
    shown = choices(select(jp.Option(value=1, label="one", description="The first."), "two"))
    box = shown.page.get_by_role("radio", name="one", exact=True)
    described = box.evaluate(
        "box => document.getElementById(box.getAttribute('aria-describedby')).textContent"
    )
    assert described == "The first."
    assert shown.option("two").get_attribute("aria-describedby") is None
    several = choices(select(multi=True, other=True))
    assert several.page.get_by_role("group", name="Which?").is_visible()
    assert several.page.get_by_role("textbox", name="Your own answer").is_visible()

"""Forms that the user may decline, confirmations, and addresses, as MCP servers ask them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.consoles import ConsoleUser
from tests.kit.forms import FormUser
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered
from tests.kit.renderings import render

REFUSED = frozenset({"refused"})
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "nights": {"type": "integer", "default": 2},
        "note": {"type": "string", "default": "quiet"},
        "food": {"type": "array", "items": {"enum": ["fish", "rice"]}, "default": ["rice"]},
    },
    "required": ["city"],
}
TRIP = jp.Question.form("trip", SCHEMA, "Which trip?")
HOTEL = jp.Question.form("hotel", {"type": "object", "properties": {"stars": {"type": "integer"}}})
SURE = jp.Question.form("sure", {"type": "object", "properties": {}}, "Delete all?")
SIGN_IN = jp.Question.url("login", "Please sign in.", "https://login.example.org/start?key=a1")
DECLINED = not_answered("declined", "form", marks=REFUSED)
CANCELLED = not_answered("cancelled", "form")


def asked(*questions: jp.Question) -> FormUser:
    """Return a form as a tool that accepts Decline shows it."""
    return FormUser(*questions, partial=False, menu=False, declines=True)


def test_decline_and_cancel_are_different_ends() -> None:
    user = asked(TRIP)
    assert user.labels == ["Submit", "Decline", "Cancel"]
    user.send("decline")
    assert user.ends == [DECLINED]
    user = asked(TRIP)
    user.send("cancel")
    assert user.ends == [CANCELLED]


def test_decline_asks_before_input_is_lost_and_stays_a_decline() -> None:
    user = asked(TRIP)
    user.boxes[0].value = "Delft"
    user.send("decline")
    assert (user.screen, user.ends) == ("discard", [])
    user.send("resume")
    assert user.boxes[0].value == "Delft"
    user.send("decline")
    user.send("discard")
    assert user.ends == [DECLINED]
    user = asked(TRIP)
    user.boxes[0].value = "Delft"
    user.send("decline")
    user.send("resume")
    user.send("cancel")
    user.send("discard")
    assert user.ends == [CANCELLED]


def test_each_page_of_a_form_can_be_declined_alone() -> None:
    user = asked(TRIP, HOTEL)
    user.send("decline")
    assert user.page == 1
    user.boxes[0].value = "4"
    user.send("submit")
    assert user.ends == [make("form_end", (DECLINED, answered({"stars": 4}, "form")))]


def test_declined_page_can_be_answered_until_the_form_is_sent() -> None:
    user = asked(TRIP, HOTEL)
    user.send("decline")
    user.send("decline")
    assert user.screen == "summary"
    assert "declined" in user.summary
    user.send("go-0")
    user.boxes[0].value = "Delft"
    user.send("submit")
    [end] = user.ends
    assert is_kind(end, "form_end")
    assert [each == DECLINED for each in end.ends] == [False, True]


def test_declined_page_stays_declined_while_it_is_blank() -> None:
    user = asked(jp.Question.select("a", "Which?", ["x", "y"]), TRIP)
    user.send("decline")
    user.send("back")
    user.send("next")
    user.boxes[0].value = "Delft"
    user.send("submit")
    [end] = user.ends
    assert is_kind(end, "form_end")
    assert end.ends[0] == DECLINED


def test_send_leads_to_a_required_page_that_is_still_open() -> None:
    user = asked(TRIP, HOTEL)
    user.send("next")
    user.send("decline")
    assert user.screen == "summary"
    user.send("send")
    assert (user.screen, user.page, user.ends) == ("page", 0, [])
    assert any(user.problems)
    user.boxes[0].value = "Delft"
    user.send("submit")
    [end] = user.ends
    assert is_kind(end, "form_end")
    assert end.ends[1] == DECLINED


def test_stdin_leads_to_a_required_page_that_is_still_open() -> None:
    pages = (
        make("question_prompt", jp.Question.text("a", "Why?")),
        make("question_prompt", HOTEL),
    )
    prompt = make("form_prompt", pages, declines=True)
    typed = ["", "!", "d", "s", "because", "s"]
    end = ConsoleUser(*typed).ask(prompt)
    assert is_kind(end, "form_end")
    assert end.ends == (
        answered("because", "stdin"),
        not_answered("declined", "stdin", marks=REFUSED),
    )


def test_required_question_must_be_answered_or_declined() -> None:
    user = asked(jp.Question.select("a", "Which?", ["x", "y"]))
    user.send("submit")
    assert user.ends == []
    user.send("decline")
    assert user.ends == [DECLINED]


@pytest.mark.req("R-MCP-46")
def test_field_left_alone_is_sent_with_its_default_and_a_cleared_one_is_absent() -> None:
    user = asked(TRIP)
    user.boxes[0].value = "Delft"
    user.send("submit")
    answer: JsonValue = {"city": "Delft", "nights": 2, "note": "quiet", "food": ["rice"]}
    assert user.ends == [make("form_end", (answered(answer, "form"),))]
    user = asked(TRIP)
    user.boxes[0].value = "Delft"
    user.boxes[1].value = ""
    user.boxes[2].value = ""
    user.boxes[3].picks = []
    user.send("submit")
    assert user.ends == [make("form_end", (answered({"city": "Delft"}, "form"),))]


@pytest.mark.req("R-MCP-46")
def test_optional_field_without_default_that_was_left_alone_is_absent() -> None:
    user = asked(HOTEL)
    user.send("submit")
    assert user.ends == [make("form_end", (answered({}, "form"),))]


def test_condition_of_the_whole_schema_names_its_field_and_keeps_the_input() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$"},
            "count": {"type": "integer", "multipleOf": 5},
        },
    }
    user = asked(jp.Question.form("q", schema))
    user.boxes[0].value = "abc"
    user.boxes[1].value = "7"
    user.send("submit")
    assert user.problems == ["", "Expected a multiple of 5"]
    assert [box.value for box in user.boxes] == ["abc", "7"]
    user.boxes[0].value = "ABC"
    user.boxes[1].value = "10"
    user.send("submit")
    assert user.problems == ["Expected a text that matches ^[a-z]+$", ""]
    user.boxes[0].value = "abc"
    user.send("submit")
    assert user.ends == [make("form_end", (answered({"name": "abc", "count": 10}, "form"),))]


def test_question_without_fields_is_a_confirmation() -> None:
    user = asked(SURE)
    assert user.labels == ["Confirm", "Decline", "Cancel"]
    user.send("unchosen")
    assert (user.note, user.ends) == ("You changed nothing here. Press Confirm to continue.", [])
    user.send("submit")
    assert user.ends == [make("form_end", (answered({}, "form"),))]
    prompt = user.prompt
    assert render("prompt", prompt, user.ends[0]).plain == "Delete all? → confirmed"


def test_declined_question_is_shown_as_declined() -> None:
    user = asked(TRIP)
    user.send("decline")
    assert render("prompt", user.prompt, user.ends[0]).plain == "Which trip? → declined"


# --- addresses -------------------------------------------------------------------------------


def test_address_is_text_with_its_host_marked_and_one_link_without_opener() -> None:
    url = "https://login.example.org/start?a=1&b="
    user = FormUser(prompt=make("question_prompt", jp.Question.url("q", "Sign in.", url)))
    [shown] = [each.value for each in user.widgets if "jp-nb-address" in _classes(each)]
    user.close()
    assert "https://<mark>login.example.org</mark>/start?a=1&amp;b=" in shown
    assert 'tabindex="0" role="region" aria-label="The address"' in shown  # a long one scrolls
    [link] = re.findall("<a [^>]*>", shown)
    assert 'target="_blank" rel="noopener noreferrer"' in link
    assert 'href="https://login.example.org/start?a=1&amp;b="' in link


def _classes(widget: Any) -> tuple[str, ...]:
    return getattr(widget, "_dom_classes", ())


def test_address_is_done_only_after_the_button() -> None:
    user = asked(SIGN_IN)
    assert user.labels == ["Done", "Decline", "Cancel"]
    user.send("unchosen")
    assert user.ends == []
    user.send("submit")
    assert user.ends == [make("form_end", (answered(True, "form"),))]


def test_address_of_an_own_tool_is_a_form_of_its_own() -> None:
    prompt = make("question_prompt", SIGN_IN)
    user = FormUser(prompt=prompt)
    user.send("unchosen")
    assert user.note == "You changed nothing. To send the proposed value, press Done."
    user.send("submit")
    user.close()
    assert user.ends == [answered(True, "form")]
    assert render("prompt", prompt, user.ends[0]).plain == "Please sign in. → done"


def test_saved_text_of_an_open_form_has_no_address_to_follow() -> None:
    saved = render("prompt_without_form", make("question_prompt", SIGN_IN))
    assert "an address at login.example.org" in saved
    assert "https://" not in saved


# --- on stdin --------------------------------------------------------------------------------


def typed(question: jp.Question, *lines: str) -> tuple[Any, str]:
    """Return the end of a form that accepts Decline, and all that was shown."""
    user = ConsoleUser(*lines)
    prompt = make("form_prompt", (make("question_prompt", question),), declines=True)
    end = user.ask(prompt)
    return end, "\n".join(user.transcript)


@pytest.mark.parametrize("question", [TRIP, SURE, SIGN_IN])
def test_decline_on_stdin_is_not_a_cancel(question: jp.Question) -> None:
    end, _ = typed(question, "!", "d")
    assert end == not_answered("declined", "stdin", marks=REFUSED)
    end, _ = typed(question, "!", "b", "!", "c")
    assert end == not_answered("cancelled", "stdin")


def test_confirmation_on_stdin_needs_a_yes() -> None:
    end, shown = typed(SURE, "", "1", "y")
    assert end == make("form_end", (answered({}, "stdin"),))
    assert "Delete all?" in shown


def test_address_on_stdin_is_printed_again_on_request_and_not_opened() -> None:
    end, shown = typed(SIGN_IN, "a", "y")
    assert end == make("form_end", (answered(True, "stdin"),))
    assert shown.count("  https://login.example.org/start?key=a1\n") == 2
    assert "  Host: login.example.org" in shown
    end = ConsoleUser("y").ask(make("question_prompt", SIGN_IN))
    assert end == answered(True, "stdin")


def test_field_with_a_condition_of_the_schema_is_asked_again_on_stdin() -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer", "multipleOf": 5}}}
    end, shown = typed(jp.Question.form("q", schema), "7", "10", "s")
    assert end == make("form_end", (answered({"count": 10}, "stdin"),))
    assert "Expected a multiple of 5" in shown


def test_kinds_are_forms_of_own_tools_too() -> None:
    kind = TRIP.answer_type
    assert is_kind(kind, "form_answer")
    assert kind.misfit({"city": "D"}) == "value"
    assert (SIGN_IN.human_only, SIGN_IN.automatic) == (True, None)
    assert SIGN_IN.model_dump()["answer_type"] == {
        "type": "url",
        "url": "https://login.example.org/start",
    }

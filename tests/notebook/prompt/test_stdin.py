from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.consoles import ConsoleUser
from tests.kit.kinds import make
from tests.kit.questions import answered, not_answered
from tests.notebook.prompt.prompts import DELIVERY, DELTAS, PROMPT, approval_of

SPELLED_OUT = "⟨U+200B⟩ stands for one invisible character; U+200B is its code point."


BOOLEAN = make("question_prompt", jp.Question.boolean("q", "Sure?"), remember=True)
SELECT = make("question_prompt", jp.Question.select("q", "Which?", ["red", "10", "green"]))
TEXT = make("question_prompt", jp.Question.text("q", "Why?"))
SECRET = make("question_prompt", jp.Question.secret("q", "Key?"))
PERMISSION = make(
    "decision_prompt",
    "Run local rename tool?",
    actions=(
        make("action", "y", "Run", "run"),
        make("action", "Y", "Run all", "run_turn"),
    ),
    exhibits=(make("prompt_detail", "Arguments", {"path": "a.txt"}),),
)
DELTA = make(
    "decision_prompt",
    "Apply delta?",
    actions=(
        make("action", "y", "Apply", "apply"),
        make("action", "n", "Reject", "reject"),
    ),
)
APPROVAL = approval_of(
    make("proposed_change", "assistant.model.id", '"anthropic/opus"', '"anthropic/sonnet"'),
    make("proposed_change", "assistant.model.parameters.temperature", "0.5", None),
)
EDIT = make(
    "question_prompt",
    jp.Question.free_text("arguments", "Arguments of t, as JSON:").with_default("{}"),
    consents=True,
)
CONSENTS: list[Any] = [
    make("question_prompt", BOOLEAN.question.with_default(True), remember=True),
    make("question_prompt", BOOLEAN.question.with_default(False)),
    DELTA,
    APPROVAL,
    DELIVERY,
    EDIT,
]


WITH_DEFAULTS = [
    make("question_prompt", SELECT.question.with_default("green")),
    make(
        "question_prompt",
        jp.Question.select("q", "Which?", ["red", "10", "green"], multi=True).with_default(
            ["green", "red"]
        ),
    ),
    make("question_prompt", TEXT.question.with_default("because")),
    make("question_prompt", jp.Question.integer("q", "How many?").with_default(3)),
]


def with_default(prompt: Any, default: bool | str) -> Any:
    return replace(prompt, question=prompt.question.with_default(default))


def only_by_the_user(prompt: Any) -> Any:
    return replace(prompt, question=prompt.question.with_exclusive())


def once(prompt: Any) -> Any:
    return replace(prompt, question=prompt.question.with_persistence("none"))


@pytest.mark.req("R083-65")
@pytest.mark.parametrize(
    ("key", "value", "remember"),
    [("y", True, False), ("Y", True, True), ("n", False, False), ("N", False, True)],
)
def test_uppercase_remembers_for_the_turn(key: str, value: bool, remember: bool) -> None:
    assert ConsoleUser(key).ask(BOOLEAN) == answered(value, "stdin", remember)


@pytest.mark.req("R083-64")
def test_without_persistence_uppercase_is_neither_offered_nor_accepted() -> None:
    user = ConsoleUser("Y", "N", "y")
    assert user.ask(once(BOOLEAN)) == answered(True, "stdin")
    assert user.shown.count("[y/n/?] ") == 3
    assert "Please type one of y, n, or ? for help." in user.shown


def test_typed_line_is_read_as_an_answer(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str, JsonValue]] = [
        (BOOLEAN, "yes", True),
        (SELECT, "3", "green"),
        (SELECT, "red", "red"),
        (SELECT, " 2 ", "10"),
        (with_default(SELECT, "green"), "", "green"),
        (TEXT, '""', ""),
        (TEXT, "1", "1"),
        (TEXT, " spaces stay ", " spaces stay "),
        (with_default(TEXT, "because"), "", "because"),
        (with_default(TEXT, "because"), '""', ""),
        (SECRET, "?", "?"),
        (SECRET, '""', '""'),
        (PERMISSION, "Y", "run_turn"),
        (DELTA, "n", "reject"),
        (EDIT, "=", "{}"),
        (EDIT, '{"a": 1}', '{"a": 1}'),
        (EDIT, '""', ""),
        (APPROVAL, "Y", "apply"),
        (APPROVAL, "y", "apply"),
        (APPROVAL, "n", "reject"),
        (APPROVAL, "N", "reject"),
    ]
    for prompt, typed, value in rows:
        with subtests.test(prompt=prompt):
            assert ConsoleUser(typed).ask(prompt, "terminal") == answered(value, "terminal")


def test_five_bad_answers_cancel(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        (BOOLEAN, ""),
        (BOOLEAN, "1"),
        (SELECT, ""),
        (SELECT, "0"),
        (SELECT, "4"),
        (SELECT, "10"),  # a number is an index, whatever the options are
        (SELECT, "9" * 5000),
        (SELECT, "RED"),
        (SELECT, "²"),
        (SECRET, ""),
        (TEXT, ""),
        (TEXT, " "),
        *((only_by_the_user(each), "") for each in WITH_DEFAULTS),
        (PERMISSION, ""),
        (DELTA, "Y"),
        (APPROVAL, "x"),
        *((consent, blank) for consent in CONSENTS for blank in ("", " ")),
    ]
    for prompt, bad in rows:
        with subtests.test(prompt=prompt):
            user = ConsoleUser(*[bad] * 4, bad, "never read")
            assert user.ask(prompt) == not_answered("cancelled", "stdin")
            assert user.lines == ["never read"]


@pytest.mark.parametrize(("typed", "value"), [("1", "3"), ("03", "1")])
def test_number_is_an_index_even_where_another_option_is_that_number(
    typed: str, value: str
) -> None:
    numbers = make("question_prompt", jp.Question.select("q", "Which?", ["3", "2", "1"]))
    user = ConsoleUser("?", typed)
    assert user.ask(numbers) == answered(value, "stdin")
    told = "  Type the number of an option, or its text if that is not a number."
    assert told in user.shown


def test_end_of_the_input_cancels() -> None:
    assert ConsoleUser().ask(TEXT, "terminal") == not_answered("cancelled", "terminal")


def test_help_costs_no_attempt() -> None:
    user = ConsoleUser(*["?"] * 6, "y")
    assert user.ask(BOOLEAN) == answered(True, "stdin")
    assert "  Y  yes, and remember for this turn" in user.shown


def test_only_a_secret_is_read_without_echo() -> None:
    for prompt, secret in ((SECRET, True), (TEXT, False), (PERMISSION, False)):
        user = ConsoleUser("y")
        user.ask(prompt)
        assert user.hidden == [secret]


@pytest.mark.req("R083-19")
def test_context_is_above_the_question_and_the_label_above_both() -> None:
    question = TEXT.question.with_context("first line\nsecond line")
    user = ConsoleUser("x")
    user.ask(make("question_prompt", question, label="Assistant", tool="ask_user"))
    assert user.shown == [
        "Assistant (asked by tool ask_user)",
        "first line\nsecond line",
        "Why?",
        "Text: ",
    ]


def keyed(keys: str, **more: Any) -> Any:
    actions = tuple(
        make("action", key, f"Do {key}", f"do_{key}", on_form=key != "p") for key in keys
    )
    return make("decision_prompt", "What now?", actions, **more)


@pytest.mark.parametrize("keys", ["yYnNpre", "yne", "crsa", "crts"])
def test_every_action_has_its_key_and_no_other_is_taken(keys: str) -> None:
    for key in keys:
        user = ConsoleUser("", "x", f" {key} ")
        assert user.ask(keyed(keys)) == answered(f"do_{key}", "stdin")
        again = f"Please type one of {', '.join(keys)}, or ? for help."
        asked = [*(f"  {each}  Do {each}" for each in keys), f"[{'/'.join(keys)}/?] "]
        assert user.shown == ["What now?", *asked, again, *asked, again, *asked]


def test_decisions_are_shown_whole_and_backgrounds_of_questions_are_truncated() -> None:
    long = f"{'x' * 30_000} /etc/passwd"
    user = ConsoleUser("y", "")
    user.ask(replace(PERMISSION, exhibits=(make("prompt_detail", "Result", long),)))
    assert "".join(line[2:] for line in user.shown if line[:2] in ("│ ", "┊ ")) == long
    question = jp.Question.text("q", "Why?").with_context(long)
    user.ask(make("question_prompt", question))
    assert any("more characters)" in line for line in user.shown)


def test_prompt_names_the_answer_that_enter_sends() -> None:
    for prompt, asked in zip(
        WITH_DEFAULTS,
        (
            "Number (Enter sends: 3, green): ",
            "Numbers (Enter sends: 3,1, green, red): ",
            "Text (Enter sends: because): ",
            "A whole number (Enter sends: 3): ",
        ),
        strict=True,
    ):
        user = ConsoleUser("")
        default = prompt.question.default
        assert user.ask(prompt) == answered(default, "stdin")
        assert user.shown[-1] == asked
    own: dict[str, JsonValue] = {"selected": [], "custom": "a file"}
    question = jp.Question(
        id="q", text="Which?", answer_type=make("select_answer", options=(), other=True)
    )
    user = ConsoleUser("")
    end = user.ask(make("question_prompt", question.with_default(own)))
    assert (end, user.shown[-1]) == (
        answered(own, "stdin"),
        "Your answer (Enter sends: a file): ",
    )


def test_default_that_only_the_user_may_send_is_a_suggestion() -> None:
    select, several, text, number = map(only_by_the_user, WITH_DEFAULTS)
    for prompt, typed, lines in (
        (select, "3", ["  3  green (suggested)", "Number: "]),
        (several, "3,1", ["  1  red (suggested)", "  3  green (suggested)"]),
        (text, "=", ["Text (= sends: because): "]),
        (number, "3", ["A whole number (suggested: 3): "]),
    ):
        user = ConsoleUser("", typed)
        default = prompt.question.default
        assert user.ask(prompt) == answered(default, "stdin")
        assert {*lines} <= {*user.shown}


def test_upper_case_key_is_another_one() -> None:
    assert ConsoleUser("Y").ask(keyed("yYn")) == answered("do_Y", "stdin")
    assert ConsoleUser("y").ask(keyed("yYn")) == answered("do_y", "stdin")


def test_default_of_several_lines_is_all_there_above_the_input() -> None:
    default = '{\n  "path": "\x1b[2Ja.txt"\n}'
    prompt = with_default(TEXT, default)
    user = ConsoleUser("?", "")
    assert user.ask(prompt) == answered(default, "stdin")  # as it was
    assert user.shown[:6] == [
        "Why?",
        SPELLED_OUT,
        "│ {",
        '│   "path": "⟨U+001B⟩[2Ja.txt"',
        "│ }",
        "Text (Enter sends: the text above): ",
    ]
    assert ConsoleUser('""').ask(prompt) == answered("", "stdin")
    line = '{"path": "b.txt", "lines": [1, 2]}'
    assert ConsoleUser(line).ask(prompt) == answered(line, "stdin")


SECTION_8_5 = """\
⟳ Configuration delta proposed by tool 'change_model':

  assistant.model.id: "anthropic/opus" → "anthropic/sonnet"
  assistant.model.parameters.temperature: (unset)

Apply delta? [y/n/?] """


@pytest.mark.req("R078-75", "R078-76")
def test_configuration_change_is_asked_about_word_for_word() -> None:
    user = ConsoleUser("y")
    user.ask(APPROVAL)
    assert "\n".join(user.shown) == SECTION_8_5


def test_choices_about_a_configuration_change_are_explained_and_it_asks_again() -> None:
    user = ConsoleUser("?", "", "y")
    assert user.ask(APPROVAL) == answered("apply", "stdin")
    assert user.shown[-7:] == [
        "Apply delta? [y/n/?] ",
        "  y  Apply changes",
        "  n  Reject changes",
        "  Either all of the changes are applied or none. The tool gets your decision.",
        "Apply delta? [y/n/?] ",
        "Please type one of y, n, or ? for help.",
        "Apply delta? [y/n/?] ",
    ]


def test_tool_s_suggestion_is_named_and_takes_a_key() -> None:
    user = ConsoleUser("", "?", "n")
    prompt = with_default(BOOLEAN, False)
    assert user.ask(prompt) == answered(False, "stdin")
    assert "[y/Y/n/N/?] (n suggested) " in user.shown
    assert "  n  no, just this once (suggested)" in user.shown
    assert user.shown.count("Please type one of y, Y, n, N, or ? for help.") == 1


def test_of_a_long_value_the_difference_is_shown_and_all_of_it_on_demand() -> None:
    user = ConsoleUser("d", "D", "y")
    prompt = DELTAS["a prompt of many lines"]
    assert user.ask(prompt) == answered("apply", "stdin")
    asked = user.shown.index("Apply delta? [y/n/d/?] ")
    above = user.shown[:asked]
    below = user.shown[asked + 1 :]
    assert "  assistant.system_prompt: text, 30 lines → text, 31 lines" in above
    assert [line for line in above if line.startswith(("  │ -", "  │ +"))] == [
        f"  │ - {PROMPT[14]}",
        "  │ + Rule 14: never be sure.",
        r"  │ + A last\u200b one.\u0020",
    ]
    assert not any(PROMPT[5] in line for line in above)
    for line in PROMPT:
        assert below.count(f"  │ {line}") == (2 if line == PROMPT[14] else 4)


def test_hostile_text_reaches_no_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eyes\x00"
    question = jp.Question.select("q", evil, [evil, "fine"]).with_context(evil)
    user = ConsoleUser("1")
    end = user.ask(make("question_prompt", question, label=evil, tool=evil))
    assert end == answered(evil, "stdin")  # the answer is the option, as the tool wrote it
    assert not any(c in "".join(user.shown) for c in "\x1b\x00\x07\u202e")

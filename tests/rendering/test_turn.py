"""The output of a turn: static, safe, and the same every time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given

import jp_nb as jp
from jp_nb.rendering.transcripts.transcript import Transcript
from tests.kit.kinds import make
from tests.kit.screens import display_event
from tests.rendering.markdown_readers import HTML, dangers, markdowns

question_outcome = partial(make, "question_outcome")
"""The end of a question: `answered`, `declined`, `cancelled` …, and its channel."""

MAX_FOLDED_CHARS = 10_000
MAX_FOLDED_LINES = 200


def folded(*events: Any, **options: Any) -> Transcript:
    transcript = Transcript(**options)
    for event in events:
        transcript.add(event)
    return transcript


def text(*pieces: str, kind: Any = "message") -> list[Any]:
    return [
        *(display_event("show_text", kind, piece) for piece in pieces),
        display_event("end_of_text"),
    ]


def tool(name: str = "t", *, error: bool = False, **more: Any) -> list[Any]:
    begins = display_event(
        "tool_begins", "c", name, {"a": 1, "none": None, "empty": {}}, more.get("hidden", False)
    )
    return [
        begins,
        display_event("tool_ends", "c", name, "no such file", error, seconds=1.25, **more),
    ]


def result_of(content: str, *, error: bool = False, **more: Any) -> dict[str, str]:
    """Return the bundle of a call whose result is folded."""
    ends = display_event(
        "tool_ends", "c", "t", content, error, seconds=1.25, **{"folds_result": True, **more}
    )
    return folded(display_event("tool_begins", "c", "t", {}), ends).parts[-1].render()


YES = question_outcome("answered")
SECRET = question_outcome("answered", is_secret=True)


def question(**fields: Any) -> Any:
    return display_event(
        "question_ends",
        "c",
        "t",
        jp.Question.boolean("q", "Ship it?"),
        **{"outcome": YES, **fields},
    )


def test_result_is_folded_below_its_call_and_not_in_the_text(subtests: pytest.Subtests) -> None:
    rows = [
        ("rain in Delft", "result (13 characters)", "rain in Delft"),
        ("a", "result (1 character)", "a"),
        ("one\n  two\n\nthree", "result (16 characters)", "one\n  two\n\nthree"),
        ("\u202ea\x1b[31m", "result (7 characters)", "⟨U+202E⟩a"),
    ]
    for content, title, shown in rows:
        with subtests.test(content=content):
            block = f"<details><summary>{title}</summary>\n\n```text\n{shown}\n```\n\n</details>"
            assert result_of(content) == {
                "text/markdown": f"✓ `t()`\n\n{block}",
                "text/plain": "✓ t()",
            }

    assert "<details>" not in result_of("  \n")["text/markdown"]
    assert "<details>" not in result_of("rain", folds_result=False)["text/markdown"]


def test_error_is_folded_if_its_line_has_only_the_beginning() -> None:
    short = result_of("no such file", error=True)["text/markdown"]
    assert short == "✗ `t()` — no such file"
    long = result_of("no such file\nat line 3", error=True)["text/markdown"]
    assert "<summary>error (22 characters)</summary>" in long
    assert "no such file\nat line 3\n```" in long


@pytest.mark.parametrize("content", ["x" * 2_000_000, "x\n" * 1_000_000, "`" * 50_000])
def test_folded_result_is_bounded(content: str) -> None:
    markdown = result_of(content)["text/markdown"]
    assert len(markdown) < 2 * MAX_FOLDED_CHARS + 200
    assert markdown.count("\n") < MAX_FOLDED_LINES + 20
    assert f"result ({len(content):,} characters)" in markdown
    assert "more" in markdown


@pytest.mark.parametrize(
    "content",
    ["</details><img src=x onerror=alert(1)>", "```\n<script>x</script>", "$a$ **b** [c](x:y)"],
)
def test_folded_result_is_no_markup(content: str) -> None:
    markdown = result_of(content)["text/markdown"]
    assert content in markdown
    block = markdown.partition("<details>")[2]
    assert dangers(block.partition("</summary>")[2].removesuffix("\n\n</details>")) == []


def test_request_is_shown_folded_and_stays_when_the_answer_is_discarded() -> None:
    asked = "```\n</details><img src=x>\n" + "word " * 10_000 + "end"
    shown = folded(
        display_event("show_request", asked),
        *text("a"),
        display_event("discard_text"),
        display_event("notice", "refused"),
    )
    markdown = shown.parts[-1].render()["text/markdown"]
    assert markdown.startswith("<details><summary>Request</summary>\n\n````text\n```\n</details>")
    assert "end\n````\n\n</details>" in markdown
    assert "refused" in markdown
    assert (
        shown.parts[-1]
        .render()["text/plain"]
        .startswith("> ```\n> </details><img src=x>\n> word word")
    )


def test_text_tools_questions_and_notices_are_shown_in_order() -> None:
    transcript = folded(
        *text("Let me", " look."),
        *tool(),
        question(outcome=question_outcome("answered", "form"), answer=True, label="Ops"),
        *tool(error=True),
        display_event("notice", "⚠ cut off"),
        display_event("waits", "model", "⚠ retrying"),
        *text("Done."),
    )
    assert transcript.parts[-1].render()["text/plain"].split("\n") == [
        "Let me look.",
        "✓ t(a=1)",
        "? Ops: Ship it? → Yes",
        "✗ t(a=1) — no such file",
        "⚠ cut off",
        "Done.",
    ]
    assert set(transcript.parts[-1].render()) == {"text/plain", "text/markdown"}


def test_times_and_status_are_shown_only_while_the_turn_runs() -> None:
    transcript = folded(*text("Hi."), *tool())
    assert "1.2 s" in transcript.parts[-1].render(live=True, status="⚠ retrying")["text/markdown"]
    assert (
        "retrying" in transcript.parts[-1].render(live=True, status="⚠ retrying")["text/markdown"]
    )
    for static in transcript.parts[-1].render().values():
        assert "1.2" not in static
        assert "retrying" not in static


def test_static_output_is_the_same_for_events_one_by_one_and_at_once() -> None:
    events = [*text("a"), *tool(), *text("b"), question(outcome=SECRET), *text("c")]
    growing = Transcript()
    for event in events:
        growing.add(event)
        growing.parts[-1].render(live=True)["text/markdown"]
    assert growing.parts[-1].render() == folded(*events).parts[-1].render()


def test_discard_removes_only_the_latest_text() -> None:
    transcript = folded(
        *text("a"),
        *tool(),
        *text("b"),
        display_event("discard_text"),
        display_event("notice", "refused"),
    )
    assert transcript.parts[-1].render()["text/plain"] == "a\n✓ t(a=1)\nrefused"


def test_reasoning_is_folded_or_hidden_and_tools_may_be_hidden() -> None:
    events = [*text("hm", kind="reasoning"), *tool(), *tool("secret", hidden=True)]
    shown = folded(*events).parts[-1].render()["text/markdown"]
    assert "<details><summary>Reasoning</summary>\n\nhm\n\n</details>" in shown
    assert "secret" not in shown
    assert (
        folded(*events, show_reasoning=False, show_tools=False).parts[-1].render()["text/markdown"]
        == ""
    )


def test_traceback_is_folded_and_names_no_temporary_file() -> None:
    trace = 'File "/tmp/ipykernel_123/456.py", line 1\nFile "<ipython-input-3-abc>", line 2'
    shown = folded(*tool(error=True, traceback=trace)).parts[-1].render()["text/markdown"]
    assert shown.count('File "<cell>"') == 2
    assert "<details><summary>Traceback</summary>" in shown


def test_question_is_shown_with_its_answer_or_the_reason_for_none(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"outcome": question_outcome("answered", "configured"), "answer": False},
         "→ No (configured)"),
        ({"answer": ""}, "→ (empty)"),
        ({"outcome": SECRET}, "→ (secret)"),
        ({"outcome": question_outcome("timed_out")}, "— no answer: timed out"),
        ({"outcome": question_outcome("cancelled")}, "— no answer: cancelled"),
        ({"outcome": question_outcome("unavailable")}, "no user was available"),
        ({"outcome": question_outcome("denied")}, "only a user may answer"),
        ({"outcome": question_outcome("invalid")}, "does not fit"),
        ({"outcome": question_outcome("cancelled", unexpected="from_the_future")},
         "from_the_future"),
    ]  # fmt: skip
    for fields, expected in rows:
        with subtests.test(fields=fields):
            assert expected in folded(question(**fields)).parts[-1].render()["text/plain"]


# --- a configuration change ------------------------------------------------------------------

CHANGE = make("proposed_change", "assistant.model.id", '"anthropic/opus"', '"anthropic/sonnet"')
ADDED = make("proposed_change", "conversation.attachments", "[]", '"a.txt"', added=True)
UNSET = make("proposed_change", "assistant.model.parameters.temperature", "0.5", None)


def change(*changes: Any, applied: bool = True, **fields: Any) -> Any:
    return display_event(
        "change_ends", "c", "change_model", changes, applied, fields.pop("by", "person"), **fields
    )


ONE = 'assistant.model.id: "anthropic/opus" → "anthropic/sonnet"'


def test_change_is_shown_with_the_decision_and_its_author() -> None:
    for ends, decision in [
        (change(CHANGE, channel="form"), "applied by you (form)"),
        (change(CHANGE, channel="stdin", applied=False), "rejected by you (stdin)"),
        (change(CHANGE, channel="form", person="Bo"), "applied by Bo (form)"),
        (change(CHANGE, applied=False, person="you, Ada"), 'rejected by "you, Ada"'),
        (change(CHANGE, by="grant"), "applied by a grant"),
        (
            change(CHANGE, by="nobody", applied=False, reason="prompt.channel is 'never'"),
            "not applied: prompt.channel is 'never'",
        ),
        (change(CHANGE, by="nobody", applied=False), "not applied: no user was available"),
    ]:
        assert folded(ends).parts[-1].render() == {
            "text/plain": f"⟳ change_model: {ONE} — {decision}",
            "text/markdown": f"⟳ `change_model: {ONE}` — {decision}",
        }


def test_several_changes_have_one_line_each() -> None:
    shown = folded(change(CHANGE, ADDED, UNSET, applied=False, channel="stdin"))
    assert shown.parts[-1].render()["text/plain"] == (
        "⟳ change_model: 3 configuration changes — rejected by you (stdin)\n"
        f"    {ONE}\n"
        '    conversation.attachments: + "a.txt"\n'
        "    assistant.model.parameters.temperature: (unset)"
    )
    assert shown.parts[-1].render()["text/markdown"] == (
        "⟳ `change_model: 3 configuration changes` — rejected by you (stdin)\n\n"
        f"- `{ONE}`\n"
        '- `conversation.attachments: + "a.txt"`\n'
        "- `assistant.model.parameters.temperature: (unset)`"
    )


def test_change_is_shown_with_hidden_tools_and_stays_when_the_answer_is_discarded() -> None:
    events = [
        *tool("secret", hidden=True),
        change(CHANGE),
        *text("b"),
        display_event("discard_text"),
    ]
    for transcript in (folded(*events), folded(*events, show_tools=False)):
        assert (
            transcript.parts[-1].render()["text/plain"] == f"⟳ change_model: {ONE} — applied by you"
        )


def test_difference_of_a_long_change_is_shown() -> None:
    lines = [f"Rule {n}: `be` sure about topic {n}." for n in range(30)]
    now = lines
    proposed = [*lines[:14], "Rule 14: never be sure.", *lines[15:]]
    texts = [json.dumps("\n".join(value)) for value in (now, proposed)]
    long = make("proposed_change", "a.prompt", texts[0], texts[1])
    differs = [
        "⟨… 11 unchanged lines⟩",
        *(f"  {line}" for line in lines[11:14]),
        f"- {lines[14]}",
        "+ Rule 14: never be sure.",
        *(f"  {line}" for line in lines[15:18]),
        "⟨… 12 unchanged lines⟩",
    ]
    about = "a.prompt: text, 30 lines → text, 30 lines"
    assert folded(change(long)).parts[-1].render() == {
        "text/plain": "\n".join(
            [f"⟳ change_model: {about} — applied by you", *(f"    {line}" for line in differs)]
        ),
        "text/markdown": "\n".join(
            [f"⟳ `change_model: {about}` — applied by you", "", "```diff", *differs, "```"]
        ),
    }
    several = folded(change(CHANGE, long)).parts[-1].render()
    assert several["text/plain"].split("\n")[2:] == [
        f"    {about}",
        *(f"        {line}" for line in differs),
    ]
    assert several["text/markdown"].split("\n")[3:] == [
        f"- `{about}`",
        "",
        *(f"  {line}" for line in ["```diff", *differs, "```"]),
    ]


def test_size_of_a_shown_difference_is_limited() -> None:
    long = make("proposed_change", "assistant.name", f'"{"a" * 5000}"', f'"{"b" * 5000}"')
    left = "… (4802 more characters)"
    a = "a" * 198
    b = "b" * 198
    assert folded(change(long)).parts[-1].render()["text/plain"].split("\n")[1:] == [
        f"    - {a}{left}",
        f"    + {b}{left}",
    ]
    many = make("proposed_change", "assistant.name", None, json.dumps("\n".join(["x"] * 5000)))
    for shown in folded(change(many, many)).parts[-1].render().values():
        assert shown.count("+ x\n") == 100
        assert "… 4900 more lines that differ" in shown
        assert "… 5000 more lines that differ" in shown


def test_context_of_a_question_is_rendered_in_a_quotation() -> None:
    context = "Read **this**:\n\n- `one`\n<b>two</b>\n```\n<i>\n```"
    shown = folded(with_context(context)).parts[-1].render()["text/markdown"]
    assert shown.startswith("> Read **this**:\n>\n> - `one`\n> &lt;b>two&lt;/b>\n> ```\n")
    assert re.search(r"\n\n> ❓ Ship it\? [^\n]*$", shown)


def with_context(context: str) -> Any:
    asked = question(answer=True)
    return replace(asked, question=asked.question.with_context(context))


@given(markdowns, markdowns)
def test_context_of_a_question_is_safe(context: str, reply: str) -> None:
    transcript = folded(with_context(f"{context}{HTML}"), *text(reply))
    assert dangers(transcript.parts[-1].render()["text/markdown"]) == []


def test_number_of_shown_changes_is_limited() -> None:
    many = [make("proposed_change", f"options.k{n}", None, "1") for n in range(60)]
    for shown in folded(change(*many)).parts[-1].render().values():
        assert "60 configuration changes" in shown
        assert "options.k49: " in shown
        assert "options.k50: " not in shown
        assert "… 10 more changes" in shown


def test_path_of_a_change_cannot_imitate_a_second_one() -> None:
    path = f"options.x\n⟳ change_model: {ONE} — applied by you\x1b[2K\u202e"
    for shown in (
        folded(change(make("proposed_change", path, None, "1"), applied=False))
        .parts[-1]
        .render()
        .values()
    ):
        assert "\n" not in shown
        assert "x⟨U+000A⟩⟳ change_model" in shown
        assert "⟨U+001B⟩[2K⟨U+202E⟩" in shown


# --- notices ---------------------------------------------------------------------------------

INVALID = """\
⚠ Tool 't' proposed an invalid config change:
  assistant.name = 1 (expected a string)
  assistant.model.id = "<b>$\u202e" (unknown *alias*)
Change not applied, tool re-invoked."""


def test_notice_keeps_its_lines() -> None:
    shown = folded(display_event("notice", INVALID))
    assert shown.parts[-1].render()["text/plain"] == INVALID.replace("\u202e", "⟨U+202E⟩")
    assert shown.parts[-1].render()["text/markdown"].split("  \n") == [
        "*⚠ Tool 't' proposed an invalid config change:*",
        "\xa0\xa0*assistant.name = 1 (expected a string)*",
        '\xa0\xa0*` assistant.model.id = "<b>$⟨U+202E⟩" (unknown *alias*) `*',
        "*Change not applied, tool re-invoked.*",
    ]


def test_size_of_a_notice_is_limited() -> None:
    for shown in folded(display_event("notice", "x\n" * 100_000 + "y")).parts[-1].render().values():
        assert "… 99951 more lines" in shown
        assert len(shown) < 1000


# --- calls -----------------------------------------------------------------------------------


def test_no_text_of_models_and_tools_becomes_html() -> None:
    evil = f"{HTML} `{HTML}` ```\n{HTML}\n $$ {HTML}"
    transcript = folded(
        *text(evil),
        *text(evil, kind="reasoning"),
        *text(evil, kind="structured"),
        display_event("tool_begins", "c", "t", {"a": evil}),
        display_event("tool_ends", "c", "t", evil, True, 1.0, traceback=evil),
        display_event("tool_begins", "d", evil, {evil: evil}, parameters="json"),
        display_event("tool_ends", "d", evil, evil, False, 1.0, result_lines=None),
        display_event("tool_begins", "e", "t", {}, formatted=evil),
        display_event("tool_ends", "e", "t", evil, True, 1.0, result_lines=3),
        display_event("tool_begins", "f", evil, {}, parameters="off"),
        display_event("tool_ends", "f", evil, evil, False, 1.0, skipped=True),
        display_event(
            "question_ends",
            "c",
            "t",
            jp.Question.text("q", evil).with_context(evil),
            YES,
            evil,
            label=evil,
        ),
        display_event("notice", evil),
        display_event(
            "notice",
            f"⚠ Tool 't' proposed an invalid config change:\n  {evil}\n    - {evil}\n{evil}",
        ),
        display_event("change_ends", "g", evil, (CHANGE,), False, "nobody", reason=evil),
        display_event(
            "change_ends",
            "h",
            evil,
            (CHANGE, make("proposed_change", evil, evil, evil)),
            True,
            "grant",
        ),
        *text(f"```\n{HTML}\n```\n{evil}"),
    )
    assert dangers(transcript.parts[-1].render()["text/markdown"]) == []
    assert dangers(transcript.parts[-1].render(live=True, status=evil)["text/markdown"]) == []


def test_call_that_begins_again_keeps_its_line() -> None:
    transcript = Transcript()
    for event in [
        display_event("tool_begins", "c1", "publish", {"page": 1}),
        display_event("tool_begins", "c2", "look", {}),
    ]:
        transcript.add(event)
    transcript.add(display_event("tool_begins", "c1", "publish", {"page": 2}))
    assert transcript.parts[-1].render()["text/plain"] == "⚙ publish(page=2) …\n⚙ look() …"


def test_shown_call_is_shown_again_when_it_begins_again_and_when_it_ends() -> None:
    transcript = folded(display_event("tool_begins", "c", "publish", {"page": 1}))
    assert transcript.parts[-1].render()["text/plain"] == "⚙ publish(page=1) …"
    transcript.add(display_event("tool_begins", "c", "publish", {"page": 2}, edited=True))
    assert (
        transcript.parts[-1].render()["text/plain"]
        == "⚙ publish(page=2) (arguments edited by you) …"
    )
    transcript.add(display_event("tool_ends", "c", "publish", "", False, 1.25))
    assert (
        transcript.parts[-1].render()["text/plain"] == "✓ publish(page=2) (arguments edited by you)"
    )
    assert transcript.parts[-1].render(live=True)["text/markdown"].endswith(" 1.2 s")


def test_text_of_one_kind_grows_until_it_is_complete() -> None:
    transcript = folded(display_event("show_text", "message", "a"))
    assert transcript.parts[-1].render()["text/plain"] == "a"
    transcript.add(display_event("show_text", "message", "b"))
    assert transcript.parts[-1].render()["text/plain"] == "ab"
    transcript.add(display_event("end_of_text"))
    transcript.add(display_event("show_text", "message", "c"))
    assert transcript.parts[-1].render()["text/plain"] == "ab\nc"


def test_new_part_begins_after_the_line_of_a_call_and_keeps_later_pieces() -> None:
    transcript = folded(
        display_event("tool_begins", "a", "t", {}),
        display_event("tool_begins", "b", "u", {}),
        display_event("notice", "n"),
    )
    assert transcript.start_part("a")
    assert [part.render()["text/plain"] for part in transcript.parts] == [
        "⚙ t() …",
        "⚙ u() …\nn",
    ]
    assert not transcript.parts[0].is_final
    transcript.add(display_event("tool_ends", "a", "t", "", False, 1.0))
    assert transcript.parts[0].is_final
    assert transcript.start_part()
    assert not transcript.start_part()
    assert transcript.start_part(always=True)
    assert transcript.parts[-1].render()["text/plain"] == ""


def test_deeply_nested_data_is_shown_unparsed() -> None:
    deep = "[" * 100_000
    shown = folded(*text(deep, kind="structured"))
    assert deep in shown.parts[-1].render()["text/markdown"]
    assert shown.parts[-1].render()["text/plain"].startswith("[[[[")


def test_questions_of_parallel_calls_are_shown_in_call_order() -> None:
    def shown(*order: str) -> tuple[str, str]:
        transcript = folded(
            *(display_event("tool_begins", each, "t", {}, hidden=each == "b") for each in "abc")
        )
        for each in order:
            question = jp.Question.boolean("q", f"Is it {each}?")
            end = display_event("question_ends", each, "t", question, YES, answer=True)
            transcript.add(end)
            transcript.add(replace(end, outcome=SECRET, answer=None))
        transcript.add(display_event("notice", "Well."))
        for event in text("Done."):
            transcript.add(event)
        bundle = transcript.parts[-1].render()
        return bundle["text/markdown"], bundle["text/plain"]

    markdown, plain = shown("a", "b", "c")
    assert plain.index("Is it a?") < plain.index("Is it b?") < plain.index("Is it c?")
    assert shown("c", "a", "b") == (markdown, plain)
    assert plain.index("Is it c?") < plain.index("Well.")


def test_declined_call_that_never_began_has_its_line() -> None:
    ends = display_event("tool_ends", "c", "t", "Tool skipped by user.", False, 0.0, skipped=True)
    assert folded(ends).parts[-1].render()["text/plain"] == "⊘ t — Tool skipped by user."

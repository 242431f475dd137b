"""Text arguments, such as code: shown, edited and run exactly."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import Field

import jp_nb as jp
from jp_nb.rendering.transcripts.call_text import render_call
from tests.agent.turn_bench import call, reply, say
from tests.kit.consoles import ConsoleUser
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, for_tool, yes

CODE = "print(1)\nif x:\n\treturn \u202e2 \n"
Code = Annotated[str, Field(json_schema_extra={"contentMediaType": "text/x-python"})]
Markup = Annotated[str, Field(json_schema_extra={"contentMediaType": "text/html; charset=utf-8"})]


class Runner:
    """Tools that record their arguments."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

        def run(code: Code) -> str:
            self.seen.append(code)
            return "ran"

        def many(code: Code, page: Markup, times: int = 1) -> str:
            self.seen.append((code, page, times))
            return "ran"

        self.tools = [new_tool(run), new_tool(many)]


async def run_with_decisions(
    name: str, arguments: dict[str, Any], *ends: Any
) -> tuple[TurnBench, Runner]:
    runner = Runner()
    bench = TurnBench(
        [reply(call(name, "c1", text=json.dumps(arguments))), reply(say("Done."))],
        tools=runner.tools,
        person=FakePrompter(*ends),
        config=for_tool(name, run="ask"),
    )
    await bench.run()
    return bench, runner


def exhibits(bench: TurnBench, number: int = 0) -> Any:
    prompt = bench.person.asked[number]
    assert is_kind(prompt, "decision_prompt")
    return prompt.exhibits


async def test_prompt_shows_text_arguments_apart_from_the_others() -> None:
    given = {"times": 2, "code": CODE, "page": "<b>"}
    bench, runner = await run_with_decisions("many", given, yes("run"))
    assert exhibits(bench) == (
        make("prompt_detail", "code (python)", CODE, "python"),
        make("prompt_detail", "page (html)", "<b>", "html"),
        make("prompt_detail", "Arguments", {"times": 2}),
    )
    assert runner.seen == [(CODE, "<b>", 2)]


async def test_edited_text_argument_runs() -> None:
    ends = yes("edit"), yes({"code": "print(2)"})
    bench, runner = await run_with_decisions("run", {"code": CODE}, *ends)
    edit = bench.person.asked[1]
    assert is_kind(edit, "question_prompt")
    [field] = edit.fields
    assert (field.question.text, field.question.default) == ("code (python)", CODE)
    assert field.is_code
    assert edit.consents
    assert runner.seen == ["print(2)"]
    assert '{"code": "print(2)"}' in json.dumps(bench.of("tool_call_response")[0].metadata)
    assert bench.shown_of("tool_begins")[-1].arguments == {"code": "print(2)"}


async def test_cancelled_edit_asks_again() -> None:
    ends = yes("edit"), CANCELLED, yes("run")
    bench, runner = await run_with_decisions("run", {"code": "1"}, *ends)
    assert runner.seen == ["1"]
    assert exhibits(bench, 2) == (make("prompt_detail", "code (python)", "1", "python"),)


async def test_text_is_shown_below_its_call_after_the_prompt() -> None:
    bench, _ = await run_with_decisions("run", {"code": CODE}, yes("run"))
    asked, runs = bench.shown_of("tool_begins")
    assert "print(1)" not in render_call(asked, None).text
    assert "run(code=…3 lines)" in render_call(asked, None).text
    assert render_call(runs, None).text.split("\n") == [
        "⚙ run(code=…3 lines) …",
        "    print(1)",
        "    if x:",
        "    ⇥\treturn ⟨U+202E⟩2⟨U+0020⟩",
    ]
    assert "```python\nprint(1)\n" in render_call(runs, None).markdown


async def test_code_of_a_skipped_call_is_shown() -> None:
    bench, runner = await run_with_decisions("run", {"code": "rm()"}, yes("skip"))
    (asked,) = bench.shown_of("tool_begins")
    assert "    rm()" in render_call(asked, bench.shown_of("tool_ends")[0]).text
    assert runner.seen == []


@pytest.mark.parametrize(
    "text",
    ["```\n<b>x</b>\n````\n$a$", "\x1b[31mred\x1b]0;title\x07", "x" * 200_000, "a\n" * 60_000],
)
async def test_hostile_code_stays_in_its_block(text: str) -> None:
    bench, _ = await run_with_decisions("run", {"code": text}, yes("run"))
    begins = bench.shown_of("tool_begins")[-1]
    markdown = render_call(begins, None).markdown
    assert len(markdown) < 110_000
    fence = next(line for line in markdown.split("\n") if line.startswith("```"))
    assert markdown.removesuffix("\n\n</details>").endswith("\n" + fence.removesuffix("python"))
    assert markdown.count(fence.removesuffix("python")) == 2
    assert "\x1b" not in markdown


@pytest.mark.parametrize(("lines", "folded"), [(40, False), (41, True)])
async def test_long_code_is_folded(lines: int, folded: bool) -> None:
    text = "\n".join(["x"] * lines)
    bench, _ = await run_with_decisions("run", {"code": text}, yes("run"))
    begins = bench.shown_of("tool_begins")[-1]
    markdown = render_call(begins, None).markdown
    assert ("<details><summary>41 lines of python</summary>" in markdown) is folded
    assert render_call(begins, None).text.count("\n    x") == lines


async def test_language_comes_from_the_media_type(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str | None]] = [
        ("text/x-python", "python"),
        ("text/plain", "text"),
        ("TEXT/X-SQL", "sql"),
        ("text/markdown; variant=GFM", "markdown"),
        ("application/json", None),
        (3, None),
        ("text/", None),
        ("text/x-`py`", None),
        ("text/" + "a" * 50, None),
    ]
    for media_type, language in rows:
        with subtests.test(media_type=media_type):
            assert await read_languages(media_type, "x") == ([] if language is None else [language])
            assert await read_languages(media_type, 1) == []


async def read_languages(media_type: Any, argument: Any) -> list[str]:
    """Return the languages of the text arguments of a call."""
    extra: Any = {"contentMediaType": media_type}

    def show(a: Annotated[Any, Field(json_schema_extra=extra)]) -> str:
        return "shown"

    show.__annotations__["a"] = Annotated[Any, Field(json_schema_extra=extra)]
    bench = TurnBench(
        [reply(call("show", text=json.dumps({"a": argument}))), reply(say("Done."))],
        tools=[new_tool(show)],
    )
    await bench.run()
    return [each.language for each in bench.shown_of("tool_begins")[-1].texts]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["="], "def f():\n    return 1\n"),
        (["?", "="], "def f():\n    return 1\n"),
        (["def g():", "    ?", "", "    return 2", "."], "def g():\n    ?\n\n    return 2"),
        (["x⟨U+200B⟩", "."], "x⟨U+200B⟩"),
        (["."], ""),
    ],
)
def test_code_is_edited_line_by_line_on_stdin(lines: list[str], text: str) -> None:
    question = jp.Question.text("arguments", "code:").with_default("def f():\n    return 1\n")
    console = ConsoleUser(*lines)
    end = console.ask(make("question_prompt", question, consents=True, is_code=True))
    assert end == answered(text, "stdin")
    assert console.shown[1:4] == ["│ 1 def f():", "│ 2     return 1", "│ 3 "]


@pytest.mark.parametrize(
    ("consents", "told"),
    [(True, "it cancels the edit"), (False, "the text is empty")],
)
def test_help_tells_what_an_empty_code_does(consents: bool, told: str) -> None:
    question = jp.Question.text("arguments", "code:").with_default("x")
    console = ConsoleUser("?", ".")
    console.ask(make("question_prompt", question, consents=consents, is_code=True))
    assert any(f"first line, {told}" in line for line in console.shown)


def test_invisible_characters_are_spelled_on_stdin() -> None:
    question = jp.Question.text("arguments", "code:").with_default("a\u200b")
    console = ConsoleUser("b⟨U+200B⟩", ".")
    end = console.ask(make("question_prompt", question, consents=True, is_code=True))
    assert end == answered("b\u200b", "stdin")
    assert "│ 1 a⟨U+200B⟩" in console.shown

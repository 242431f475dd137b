"""Exact texts in prompts: each prompt shows all that a tool runs with."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

import jp_nb as jp
from jp_nb import storable_json
from jp_nb.rendering.prompt_texts import prompt_text
from tests.agent.turn_bench import call, reply, say
from tests.kit.consoles import ConsoleUser
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered
from tests.kit.renderings import render
from tests.kit.texts import write_text
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.exact_blocks import SPELLED, blocks, parse_object, parse_text
from tests.support.fakes import FakePrompter, for_tool, yes

posix = pytest.mark.skipif(os.name != "posix", reason="sh, signals and process groups")

# --- hostile text ------------------------------------------------------------------------------

ODD = (
    "\x00\x07\x08\t\n\x0b\x0c\r\x1b\x7f\x85\x9b\xa0\xad\u034f\u0301\u0300\u0489\u061c\u115f\u1680"
    "\u180e\u2000\u2003\u200b\u200d\u200e\u200f\u2024\u2028\u2029\u202a\u202e\u2044\u2060\u2066"
    "\u2069\u2800\u3000\u3164\ufe0f\ufeff\uffa0\ufff9\ufffc\U000e0041\U000e0101\U0001d159\ud800"
    "\udfff\u212a\u1100\u1161⟨⟩⇥│┊→é漢א"
)
IMITATIONS = [
    "3 lines\n  │ a\n  │ b",
    'a"\npath: "/etc/passwd',
    "│ x",
    "  │ x\n│ y\n┊ z",
    "2 keys",
    "⟨U+200B⟩",
    r"\u200b",
    "Arguments\n│ a: 1\nCommand line: 1 line\n│ ls",
    "⇥\t",
    "a\r\nb\r\n",
    "x" * 99 + "漢字" + "y" * 250,
    "ls \u009b>~/.bashrc",
]


def as_json(value: Any) -> Any:
    """Return `value` as JSON has it: two halves of one character are that character."""
    return json.loads(json.dumps(value))


texts = st.one_of(
    st.text(),
    st.text(alphabet=st.sampled_from(ODD)),
    st.text(alphabet=st.sampled_from('abe \n\\"│:' + ODD), max_size=40),
    st.sampled_from(IMITATIONS),
    st.lists(st.sampled_from(IMITATIONS), max_size=3).map("\n".join),
).map(as_json)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
objects = st.dictionaries(texts, values, max_size=5).map(as_json)


# --- reader of the notation ----------------------------------------------------------------------


def count_in(caption: str) -> str:
    """Return the number of lines in a caption; one by default."""
    return caption.partition(": ")[2] or "1 line"


def same(one: JsonValue, other: JsonValue) -> bool:
    """Return True if both are the same JSON: 1 is not true, and keys have an order."""
    return json.dumps(one) == json.dumps(other)


def lines_of(arguments: Any) -> list[str]:
    """Return the lines that show a JSON object."""
    text = write_text("object", arguments)
    return text.split("\n") if text else []


def labels_of(*options: str) -> list[str]:
    """Return the labels of `options` in a list on a console."""
    asked = make("question_prompt", jp.Question.select("q", "Which?", list(options)))
    user = ConsoleUser("1")
    user.ask(asked)
    found = (re.fullmatch(r" +[0-9]+  (.*)", line) for line in user.transcript)
    return [match[1] for match in found if match]


# --- text --------------------------------------------------------------------------------------


@given(objects)
@example({"path": "a", "content": "x\n\n"})
@example({"a": "2 lines", "b": ["a\nb", {"c": "d\ne"}], "[0]": 1})
def test_lines_of_an_object_spell_it_exactly(arguments: dict[str, JsonValue]) -> None:
    lines = lines_of(arguments)
    assert same(parse_object(lines), arguments)
    for line in lines:
        assert_all_is_seen(line.replace("⇥\t", ""))


@given(texts)
def test_lines_of_a_text_spell_it_exactly(text: str) -> None:
    assert parse_object(lines_of({"a": text})) == {"a": text}


@given(texts)
def test_edit_box_spells_the_text_exactly(text: str) -> None:
    shown = write_text("edit_box", text)
    assert write_text("edited", shown) == text
    assert_all_is_seen(shown.replace("\t", "").replace("\n", "⏎"))


def test_edit_box_spells_trailing_white_space() -> None:
    assert write_text("edit_box", "a\t\nb \t\nc ") == "a⟨U+0009⟩\nb ⟨U+0009⟩\nc⟨U+0020⟩"


@given(texts, texts)
def test_names_with_invisible_characters_look_different(one: str, other: str) -> None:
    spelled = write_text("spelled", one)
    assert (spelled == write_text("spelled", other)) == (one == other)
    assert SPELLED.sub(lambda at: chr(int(at[1], 16)), spelled) == one
    assert "  " not in spelled
    assert spelled.strip() == spelled


BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2800\u3164\ufe00\ufe0f\uffa0\ufffc\U0001d159"


def assert_all_is_seen(line: str) -> None:
    """Each character prints, none is blank but a space, and none looks like another text."""
    assert all(char.isprintable() and char not in BLANK for char in line)
    assert not re.search("(?<!│) (⏎|$)", line)
    assert unicodedata.is_normalized("NFC", line)
    marks = "".join("M" if unicodedata.category(x) in ("Mn", "Me") else " " for x in line)
    assert "M" * 5 not in marks


LOOKALIKES = [
    ("e\u0301", r"e\u0301"),  # looks like é
    ("\u1100\u1161", "\u1100" + r"\u1161"),  # looks like 가
    ("\u212aelvin", r"\u212aelvin"),
    ("a\u037eb", r"a\u037eb"),  # looks like a semicolon
    ("good.example\u2215@evil", r"good.example\u2215@evil"),
    ("x" + "\u0302" * 6, "x" + "\u0302" * 4 + r"\u0302\u0302"),
    (" \u0302", r" \u0302"),
]


def test_lookalike_characters_are_escaped() -> None:
    for text, shown in LOOKALIKES:
        assert write_text("exact", text) == shown


def test_natural_languages_are_not_escaped(subtests: pytest.Subtests) -> None:
    for text in [
        "Việt Nam",
        "हिन्दी",
        "ไทย",
        "中文\uff0c\uff08是\uff09\uff01",
        "Ελλάδα",
        "Россия",
        "한국어",
        "שלום",
        "👩 ≠ é",
    ]:
        with subtests.test(text=text):
            assert write_text("exact", text) == write_text("spelled", text) == text


def test_prose_keeps_emoji_and_spells_invisible_characters() -> None:
    assert write_text("prose", "⚠️ Delete\u200b it?\nReally") == "⚠️ Delete⟨U+200B⟩ it?\nReally"


def test_file_content_is_shown_as_counted_lines() -> None:
    content = "".join(f"line {n}\n" for n in range(120))
    lines = lines_of({"path": "notes.md", "content": content})
    assert lines[:3] == ['path: "notes.md"', "content: 120 lines", "  │ line 0"]
    assert len(lines) == 122


# --- permission ---------------------------------------------------------------------------------


def on_stdin(prompt: Any) -> dict[str, list[str]]:
    user = ConsoleUser("y")
    assert is_kind(user.ask(prompt), "answered")
    return blocks("\n".join(user.shown[:-1]).split("\n"))


async def ran_with(arguments: dict[str, JsonValue]) -> tuple[Any, dict[str, Any]]:
    """Return the prompt, and the arguments that the tool then ran with."""
    seen: list[dict[str, Any]] = []

    def tool(value: Any) -> str:
        seen.append(value)
        return "done"

    bench = TurnBench(
        [reply(call("tool", text=json.dumps({"value": arguments}))), reply(say("Done."))],
        tools=[new_tool(tool)],
        person=FakePrompter(yes("run")),
        config=for_tool("tool", run="ask"),
    )
    await bench.run()
    [prompt] = bench.person.asked
    assert is_kind(prompt, "decision_prompt")
    [value] = seen
    return prompt, {"value": value}


@given(objects)
async def test_permission_prompt_shows_the_exact_arguments(arguments: dict[str, JsonValue]) -> None:
    prompt, ran = await ran_with(arguments)
    [(caption, lines)] = prompt_text.list_exhibits(prompt)
    assert (caption, same(parse_object(lines), ran)) == ("Arguments", True)
    assert same(parse_object(on_stdin(prompt)["Arguments"]), ran)


# --- commands ------------------------------------------------------------------------------------

PRINTS_ITS_WORDS = "import json,os,sys; print(json.dumps([sys.argv[1:], os.getcwd()]))"


async def run_command(
    folder: Path, command: JsonValue, *ends: Any, text: str = "{}", **settings: Any
) -> tuple[list[Any], Any]:
    """The prompts about a call of the tool `cmd`, and its response."""
    config: Any = {"source": "local", "command": command, "run": "ask"} | settings
    bench = TurnBench(
        [reply(call("cmd", text=text)), reply(say("Done."))],
        person=FakePrompter(*ends),
        config=for_tool("cmd", **config),
    )
    bench.use(shared={"root": str(folder), "conversation_id": "jp-c1"})
    await bench.run()
    [response] = bench.of("tool_call_response")
    return bench.person.asked, response


HOSTILE_WORDS = [
    "it's; rm -rf ~",
    "\u009b>~/.bashrc",
    "\u200b\u3164\U000e0041 e\u0301",
    "a\nFolder: 1 line\n│ /tmp",
    "a\u2028b",
    " ends in a space ",
    "$(evil) `evil` \\",
    "-" * 300,
    "\u202egnp.exe",
]


@posix
async def test_displayed_command_line_and_folder_are_the_executed_ones(tmp_path: Path) -> None:
    for number, word in enumerate(HOSTILE_WORDS):
        folder = tmp_path / f"my \u200bfolder {number}"
        folder.mkdir()
        command: JsonValue = {
            "program": sys.executable,
            "args": ["-c", PRINTS_ITS_WORDS, "{{tool.arguments.word}}", "{{tool.arguments}}"],
        }
        [prompt], response = await run_command(
            folder,
            command,
            yes("run"),
            text=json.dumps({"word": word}),
            parameters={"word": {"type": "string"}},
        )
        words, place = json.loads(response.content)
        assert words[0] == word
        for shown in (dict(prompt_text.list_exhibits(prompt)), on_stdin(prompt)):
            said = {caption.partition(":")[0]: (caption, x) for caption, x in shown.items() if x}
            assert list(said) == ["Command line", "Folder", "Arguments"]
            line, cwd = (
                parse_text(count_in(caption), lines)
                for caption, lines in (said["Command line"], said["Folder"])
            )
            assert shlex.split(line) == [sys.executable, "-c", PRINTS_ITS_WORDS, *words]
            assert cwd == place == str(folder)
            assert parse_object(said["Arguments"][1]) == {"word": word}


@posix
async def test_edited_arguments_of_a_command_are_used_after_another_decision(
    tmp_path: Path,
) -> None:
    command: JsonValue = {"program": "echo", "args": ["{{ tool.arguments.x }}"]}
    prompts, response = await run_command(
        tmp_path,
        command,
        yes("edit"),
        yes({"x": "c"}),
        yes("run"),
        text='{"x": "b"}',
        parameters={"x": {"type": "string"}},
    )
    edits, again = prompts[1:]
    assert is_kind(edits, "question_prompt")
    assert edits.submit == "Use these arguments …"
    assert is_kind(again, "decision_prompt")
    assert again.exhibits[0].value == "echo c"
    assert response.content.strip() == "c"


@posix
async def test_shell_command_is_shown_as_the_shell_reads_it(tmp_path: Path) -> None:
    command: JsonValue = {
        "program": "echo a; echo",
        "args": ["{{tool.arguments.x}}"],
        "shell": True,
    }
    [prompt], response = await run_command(
        tmp_path, command, yes("run"), text='{"x": "b; echo c"}', parameters={"x": {}}
    )
    assert response.content == "a\nb; echo c\n"
    [shell, *_] = prompt_text.list_exhibits(prompt)
    assert shell.caption == "Command line, run by a shell (sh -c)"
    assert shell.lines == ["echo a; echo 'b; echo c'"]


@posix
async def test_command_line_that_depends_on_answers_is_marked(tmp_path: Path) -> None:
    for word, first in [
        ("{{tool.answers.where}}", True),
        ("{{ tool | tojson }}", True),
        ("{{context.delta_rejection.reason}}", True),
        ("{{tool.arguments}}", False),
        ("answer my tool's context", True),  # rather once too often
        ("{{tool['name']}}", False),
    ]:
        command: JsonValue = {"program": "echo", "args": [word]}
        [prompt], _ = await run_command(tmp_path, command, yes("run"))
        [line, *_] = prompt_text.list_exhibits(prompt)
        said = "Command line (for the first run; the next run gets the answers to its questions)"
        assert line.caption == (said if first else "Command line")


@posix
async def test_invalid_command_template_is_shown_as_an_error(tmp_path: Path) -> None:
    [prompt], response = await run_command(tmp_path, "echo {{1/0}}", yes("run"))
    [problem] = prompt_text.list_exhibits(prompt)
    assert problem.caption == "The tool cannot run: it has no command line"
    assert problem.lines == ["Template error: ZeroDivisionError"]
    assert response.is_error


def test_random_functions_are_missing_in_templates() -> None:
    for template in ("{{ [1, 2, 3, 4, 5] | random }}", "{{ lipsum() }}"):
        with pytest.raises(Exception, match=r"^Template error: \S"):
            write_text("template", template)


@posix
async def test_formatter_text_is_shown_apart_from_the_arguments(tmp_path: Path) -> None:
    faked = 'Arguments\n│ path: "notes.md"\x1b[8m'
    (tmp_path / "shown").write_text(faked)
    [prompt], _ = await run_command(
        tmp_path,
        "true",
        yes("run"),
        text='{"path": "/etc/passwd"}',
        parameters={"path": {}},
        format="unattended",
        style={"parameters": "cat shown"},
    )
    captions = [caption for caption, _ in prompt_text.list_exhibits(prompt)]
    assert captions == [
        "Command line",
        "Folder",
        "Arguments",
        "Arguments, formatted for display (the tool receives those above): "
        "2 lines, no line break at the end",
    ]
    shown = on_stdin(prompt)
    assert shown["Arguments"] == ['path: "/etc/passwd"']
    assert shown[captions[-1]] == ["Arguments", '│ path: "notes.md"⟨U+001B⟩[8m']


# --- edit boxes, results -------------------------------------------------------------------------


@given(objects, st.booleans())
async def test_unchanged_edit_box_gives_the_arguments_back(
    arguments: dict[str, JsonValue], on_a_console: bool
) -> None:
    """The unchanged text changes nothing, and all its characters are visible.

    Half a surrogate pair is U+FFFD for the user and for the tool.
    """
    seen: list[Any] = []
    expected = storable_json.make_storable(arguments)

    async def submit() -> Any:
        form = bench.person.asked[-1]
        assert is_kind(form, "form_prompt")
        [prompt] = form.pages[0].fields
        box = render("text_box", prompt)
        assert_all_is_seen(box.shown.replace("\n", ""))
        assert same(json.loads(box.shown), expected)
        if on_a_console:
            return ConsoleUser("=", "s").ask(form)
        typed: JsonValue = {"n": box.unspell_edited(box.shown)}
        return make("form_end", (answered(typed, "form"),))

    bench = TurnBench(
        [reply(call("tool", text=json.dumps({"n": arguments}))), reply(say("Done."))],
        tools=[new_tool(_notes(seen), name="tool")],
        person=FakePrompter(submit),
        config=for_tool("tool", run="edit"),
    )
    await bench.run()
    [value] = seen
    assert same(value, expected)
    assert bench.of("tool_call_response")[0].metadata == {}


@pytest.mark.parametrize(("typed", "runs"), [("true", True), ("1.0", 1.0)])
async def test_edit_from_one_to_true_is_an_edit(typed: str, runs: Any) -> None:
    seen: list[Any] = []
    bench = TurnBench(
        [reply(call("tool", text='{"n": 1}')), reply(say("Done."))],
        tools=[new_tool(_notes(seen), name="tool")],
        person=FakePrompter(yes("edit"), yes({"n": typed})),
        config=for_tool("tool", run="ask"),
    )
    await bench.run()
    assert [repr(n) for n in seen] == [repr(runs)]


def _notes(seen: list[Any]) -> Any:
    def tool(n: Any) -> str:
        seen.append(n)
        return "done"

    return tool


@given(texts.filter(str.strip))
async def test_result_is_shown_and_edited_exactly(content: str) -> None:
    prompts: list[Any] = []

    async def edit() -> Any:
        prompts.append(bench.person.asked[-1])
        return answered("edit", "form")

    async def submit() -> Any:
        prompt = bench.person.asked[-1]
        assert is_kind(prompt, "question_prompt")
        box = render("text_box", prompt)
        assert_all_is_seen(box.shown.replace("\n", "⏎").replace("\t", ""))
        return answered(box.unspell_edited(f"{box.shown}!"), "form")

    bench = TurnBench(
        [reply(call("tool")), reply(say("Done."))],
        tools=[new_tool(lambda: content, name="tool")],
        person=FakePrompter(edit, submit),
        config=for_tool("tool", result="ask"),
    )
    await bench.run()
    [(caption, lines)] = prompt_text.list_exhibits(prompts[0])
    assert parse_text(count_in(caption), lines) == content
    assert bench.of("tool_call_response")[0].content == f"{content}!"


def test_options_with_invisible_characters_look_different() -> None:
    options = ("delete", "delete\u200b", "delete ", "del\u00adete", "dele\ufe0fte", "a b", "a  b")
    assert labels_of(*options) == [
        "delete",
        "delete⟨U+200B⟩",
        "delete⟨U+0020⟩",
        "del⟨U+00AD⟩ete",
        "dele⟨U+FE0F⟩te",
        "a b",
        "a ⟨U+0020⟩b",
    ]
    asked = make(
        "question_prompt",
        jp.Question.select("q", "Which?", list(options)),
        label="Bot\u200b",
        tool="t\u3164",
    )
    assert render("prompt", asked, answered("delete\u200b", "form")).plain == (
        "Bot⟨U+200B⟩: Which? (asked by tool t⟨U+3164⟩) → delete⟨U+200B⟩"
    )
    user = ConsoleUser("2")
    assert user.ask(asked) == answered("delete\u200b", "stdin")
    assert "  2  delete⟨U+200B⟩" in user.transcript


def test_options_with_lookalike_letters_are_distinguished_by_their_code() -> None:
    for one, other in [
        ("paypal", "p\u0430yp\u0430l"),
        ("ohm", "\uff4fhm"),
        ("\u05d01", "1\u05d0"),
        ("A", "\u0391"),
    ]:
        first, second = labels_of(one, other)
        assert first in (one, f"{one} ({json.dumps(one)})")
        assert second == f"{other} ({json.dumps(other)})"
        assert labels_of(other, "else") == [other, "else"]


@pytest.mark.deep
@pytest.mark.parametrize("text", ["e\u0301", "\u200b", "a\n", "אב", "漢", "\u1100\u1161", "x "])
def test_spelling_takes_linear_time(text: str) -> None:
    def calls(count: int) -> int:
        made = 0

        def count_calls(*_: object) -> None:
            nonlocal made
            made += 1

        sys.setprofile(count_calls)
        try:
            write_text("object", {"a": text * count})
            write_text("spelled", text * count)
        finally:
            sys.setprofile(None)
        return made

    assert calls(20_000) < 2.5 * calls(10_000) + 1000

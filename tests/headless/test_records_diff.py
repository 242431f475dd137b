"""`jp-nb diff` compares two records by turn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from tests.kit.notebook_record import open_document
from tests.kit.records import new_event, parse_event

Write = Callable[..., Path]

ASKED = {
    "type": "inquiry_request",
    "id": "c1.which.1",
    "source": {"source": "tool", "name": "look"},
    "question": {"text": "Which one?", "answer_type": {"type": "text"}},
    "timestamp": "2026-03-18 12:00:00.0",
}
ANSWERED = {
    "type": "inquiry_response",
    "id": "c1.which.1",
    "outcome": "answered",
    "answer": "the first",
    "metadata": {"channel": "form"},
    "timestamp": "2026-03-18 12:00:00.0",
}


def talk(stream: Any, *, days: int = 2, tokens: int = 30, said: str = "Rain.") -> None:
    """Three turns with a call, a question, a change of the configuration and tokens."""
    stream.start_turn(new_event("chat_request", content="Hello."))
    stream.append(new_event("chat_response", message="Hello.\nWhat is it?"))
    stream.start_turn(new_event("chat_request", content="How will it be?"))
    stream.append(
        new_event(
            "tool_call_request", id="c1", name="look", arguments={"city": "Delft", "days": days}
        )
    )
    stream.append(parse_event(ASKED), parse_event(ANSWERED))
    stream.append(
        new_event("tool_call_response", id="c1", content="rain\nand wind", is_error=False)
    )
    stream.append(new_event("config_delta", delta={"assistant": {"name": "Ada"}}))
    stream.append(
        new_event(
            "chat_response",
            message=said,
            metadata={"usage": {"model": "a/b", "output_tokens": tokens}},
        )
    )
    stream.start_turn(new_event("chat_request", content="Thanks."))
    stream.append(new_event("chat_response", message="Gladly."))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a notebook with the record of `fill`: the same texts with new ids."""

    def written(name: str, fill: Any = talk, **jp: Any) -> Path:
        stream = open_document().conversation
        fill(stream)
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1\n2", id="one")])
        base: dict[str, Any] = {"assistant": {"name": "Eve"}}
        made.metadata["jp"] = {
            "version": 1,
            "conversation": stream.properties,
            "base_config": base,
            "events": stream.raw,
        } | jp
        (tmp_path / name).write_text(json.dumps(made, indent=1, sort_keys=True), encoding="utf-8")
        return tmp_path / name

    return written


@pytest.fixture
def difference(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the printed difference without the two names, after a check of the exit code."""

    def printed(before: Path, after: Path, code: int = 1) -> str:
        assert main(["diff", str(before), str(after)]) == code
        output = capsys.readouterr()
        assert output.err == ""
        head, _, rest = output.out.partition("\n\n")
        assert head == (f"--- {before}\n+++ {after}" if code else "")
        return rest

    return printed


Difference = Callable[..., str]


def test_ids_and_times_are_not_compared(write: Write, difference: Difference) -> None:
    one = write("a.ipynb")
    two = write("b.ipynb", signature="2:" + "0" * 64)
    assert one.read_bytes() != two.read_bytes()
    assert difference(one, two, 0) == ""


def test_difference_within_a_turn_is_shown_with_its_context(
    write: Write, difference: Difference
) -> None:
    after = write("b.ipynb", lambda s: talk(s, days=3, tokens=31, said="Sun.\u202e"))
    assert difference(write("a.ipynb"), after) == (
        "turn 2: How will it be?\n"
        "  you:\n"
        "    How will it be?\n"
        "  call look\n"
        '    city: "Delft"\n'
        "-   days: 2\n"
        "+   days: 3\n"
        "    result:\n"
        "      rain\n"
        "      and wind\n"
        "⟨… 10 unchanged lines⟩\n"
        "      }\n"
        "    }\n"
        "  assistant:\n"
        "-   Rain.\n"
        "- tokens: 30 out\n"
        "+   Sun.\\u202e\n"
        "+ tokens: 31 out\n"
        "  question of look\n"
        "  tokens of: a/b\n"
    )


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "inquiry_response", "answer": "none"}, '-   answer (form): "the first"'),
    (
        {"type": "inquiry_response", "metadata": {"channel": "answers"}},
        '+   answer (answers): "the first"',
    ),
    (
        {"type": "inquiry_response", "metadata": {"channel": "form", "end": "declined"}},
        '+   answer (form, end: declined): "the first"',
    ),
    ({"type": "inquiry_response", "outcome": "redacted"}, "+   answer (form): (secret)"),
    (
        {"type": "inquiry_response", "outcome": "cancelled", "reason": "user"},
        "+   no answer (form): cancelled",
    ),
    ({"type": "tool_call_response", "is_error": True}, "+   error:"),
    ({"type": "tool_call_request", "name": "see"}, "+ call see"),
    ({"type": "config_delta", "unsets": ["assistant.name"]}, "+   unset assistant.name"),
    ({"type": "config_delta", "delta": {"user": {"name": "Bo"}}}, '+       "name": "Bo"'),
    ({"type": "inquiry_request", "question": {"text": "Who?"}}, "+   Who?"),
    (
        {"type": "inquiry_request", "question": {"exclusive": True}},
        "+ question of look, which only a user may answer",
    ),
    (
        {"type": "inquiry_request", "source": {"source": "tool", "name": "see"}},
        "+ question of see",
    ),
    ({"type": "chat_request", "author": "Bo"}, "+ author: Bo"),
]


def test_each_part_of_a_turn_is_compared(
    write: Write, difference: Difference, subtests: pytest.Subtests
) -> None:
    before = write("a.ipynb")
    for change, shown in PARTS:
        with subtests.test(change=change):
            made = nbformat.read(before, as_version=4)
            entry = next(e for e in made.metadata.jp.events if e["type"] == change["type"])
            if change.get("outcome", "answered") != "answered":
                del entry["answer"]
            question = {**entry.get("question", {}), **change.get("question", {})}
            entry |= {**change, "question": question}
            if change["type"] != "inquiry_request":
                del entry["question"]
            after = before.with_name("b.ipynb")
            nbformat.write(made, after)
            assert shown in difference(before, after)


def test_reasoning_models_and_ends_without_an_answer_are_compared(
    write: Write, difference: Difference
) -> None:
    def thought(reasoning: str, model: str, ended: Any) -> Callable[[Any], None]:
        def fill(stream: Any) -> None:
            stream.start_turn(new_event("chat_request", content="Hello."))
            usage = {"usage": {"model": model, "output_tokens": 3}}
            stream.append(new_event("chat_response", reasoning=reasoning, metadata=usage))
            mark = {"no_answer": {"ended": ended, "takes_back": 0}}
            stream.append(new_event("config_delta", delta={}, metadata=mark))

        return fill

    before = write("a.ipynb", thought("Rain?", "a/b", "failed"))
    changes: list[tuple[str, str, Any, str]] = [
        ("Sun?", "a/b", "failed", "+   Sun?"),
        ("Rain?", "a/c", "failed", "+ tokens of: a/c"),
        ("Rain?", "a/b", "interrupted", "+ no answer (interrupted): this turn is not sent"),
    ]
    for reasoning, model, ended, shown in changes:
        assert shown in difference(before, write("b.ipynb", thought(reasoning, model, ended)))


def test_added_and_removed_turns_are_shown_in_full(write: Write, difference: Difference) -> None:
    def more(stream: Any) -> None:
        stream.start_turn(new_event("chat_request", content="First of all."))
        stream.append(new_event("chat_response", message="Yes?"))
        talk(stream)

    short = write("a.ipynb")
    long = write("b.ipynb", more)
    came = difference(short, long)
    assert came == ("+ turn 1: First of all.\n+ you:\n+   First of all.\n+ assistant:\n+   Yes?\n")
    assert difference(long, short) == came.replace("+", "-")


def test_reworded_request_is_the_same_turn(write: Write, difference: Difference) -> None:
    def other(stream: Any) -> None:
        talk(stream)
        raw = [dict(entry) for entry in stream.raw]
        raw[1]["content"] = "Hi."
        stream.raw[:] = raw

    assert difference(write("a.ipynb"), write("b.ipynb", other)) == (
        "turn 1: Hi.\n  you:\n-   Hello.\n+   Hi.\n  assistant:\n    Hello.\n    What is it?\n"
    )


def test_base_configuration_compactions_and_other_conversations_are_compared(
    write: Write, difference: Difference
) -> None:
    def shortened(stream: Any) -> None:
        talk(stream)
        stream.append(new_event("compaction", from_turn=0, to_turn=0, reasoning="strip"))

    base = {"assistant": {"name": "Kim"}}
    other = {"conversation": {"id": "jp-c1"}, "base_config": {}, "events": [{"type": "x"}]}
    same = {**other, "conversation": {"id": "jp-c2"}}
    before = write("a.ipynb", others=[same])
    assert difference(before, write("b.ipynb", others=[other]), 0) == ""
    after = write("b.ipynb", shortened, base_config=base, others=[other, other])
    output = difference(before, after)
    assert '-     "name": "Eve"\n+     "name": "Kim"' in output
    assert "+ compaction: " in output
    assert "other conversations\n+ 1 without a counterpart\n" in output


def test_notebook_without_a_record_has_no_turns(write: Write, difference: Difference) -> None:
    one = write("a.ipynb")
    empty = one.with_name("b.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), empty)
    assert difference(empty, empty, 0) == ""
    assert difference(empty, one).count("\n+ turn ") == 3
    assert difference(one, Path(os.devnull)).count("\n- turn ") == 3


def test_text_of_a_record_cannot_forge_lines_or_move_the_cursor(
    write: Write, difference: Difference
) -> None:
    def hostile(stream: Any) -> None:
        stream.start_turn(
            new_event("chat_request", content="a\x1b[2Jb\n\nturn 9: x\n+ y\rz ⟨… 3⟩ \ud800")
        )
        stream.append(
            new_event(
                "tool_call_request", id="1", name="x\nturn 8: y", arguments={"k\n- z": "\x9b"}
            )
        )

    output = difference(write("a.ipynb", lambda _: None), write("b.ipynb", hostile))
    lines = output.splitlines()
    assert [line for line in lines if "turn" in line] == [
        lines[0],
        "+   turn 9: x",
        "+ call x\\nturn 8: y",
    ]
    assert all(line.isprintable() for line in lines)
    assert "+   + y\\rz \\u27e8… 3⟩ \\ud800" in lines


def test_damaged_entry_is_shown_as_such(write: Write, difference: Difference) -> None:
    before = write("a.ipynb")
    made = nbformat.read(before, as_version=4)
    made.metadata.jp.events[1] = {"type": "chat_request", "content": 7}
    after = before.with_name("b.ipynb")
    nbformat.write(made, after)
    assert "+ damaged: " in difference(before, after)


def test_unreadable_notebook_ends_with_2(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    one = write("a.ipynb")
    other = one.with_name("b.ipynb")
    for content in (None, "{", '{"nbformat": 4, "cells": []'):
        if content is not None:
            other.write_text(content, encoding="utf-8")
        assert main(["diff", str(one), str(other)]) == 2
        output = capsys.readouterr()
        assert "b.ipynb" in output.err
        assert output.out == ""
    newer = write("c.ipynb", version=9)
    assert main(["diff", str(one), str(newer)]) == 2
    assert main(["diff", str(one)]) == 2


def git(folder: Path, *arguments: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, "GIT_PAGER": "cat"},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def test_git_shows_records_and_cells(write: Write) -> None:
    one = write("a.ipynb")
    folder = one.parent
    (folder / ".gitattributes").write_text("*.ipynb diff=jp\n", encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "config", "diff.jp.command", f'"{sys.executable}" -m jp_nb.cli diff --git')
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    write("a.ipynb", lambda stream: talk(stream, days=3))
    made = nbformat.read(one, as_version=4)
    made.cells[0].source = "1\n3"
    nbformat.write(made, one)
    output = git(folder, "diff")
    head, _, cells = output.partition("\n\n")
    assert head == "--- a/a.ipynb\n+++ b/a.ipynb"
    assert cells.startswith("cells\n  [code] one\n    1\n-   2\n+   3\n")
    assert "\nturn 2: How will it be?\n" in output
    git(folder, "mv", "a.ipynb", "b.ipynb")
    renamed = git(folder, "diff", "-M", "HEAD")
    assert renamed.startswith("--- a/a.ipynb\n+++ b/b.ipynb\n")
    (folder / "b.ipynb").write_text("<<<<<<<", encoding="utf-8")
    (folder / "z.txt").write_text("z", encoding="utf-8")
    git(folder, "add", ".")
    broken = git(folder, "diff", "--cached")
    assert "⟨not compared: " in broken
    assert "+z" in broken, "the next file is shown"


def test_documented_settings_of_nbdime_ignore_the_record() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "git.md").read_text("utf-8")
    [settings] = re.findall(r'```json\n(\{"Diff".*?)\n```', page, re.DOTALL)
    # nbdime reads the ignored keys for each path.
    assert json.loads(settings) == {"Diff": {"Ignore": {"/metadata": ["jp", "widgets"]}}}

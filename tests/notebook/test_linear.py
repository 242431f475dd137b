"""Hostile texts are shown in linear time and with bounded length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

import jp_nb as jp
from tests.kit.screens import display_event
from tests.kit.turn_screen import TurnScreen
from tests.support.sessions import Notebook, bare_folder

__all__ = ["bare_folder"]

UNIT = 5_000
"""Characters of the shorter text; the longer one is sixteen times as long."""
MOST = 64
"""Linear work takes 16 times as long for it, quadratic work 256 times."""

HOSTILE: dict[str, Callable[[int], str]] = {
    "fences": lambda n: "```\n" * (n // 4),
    "fences in doubt": lambda n: "```|\n" * (n // 5),
    "fences of many lengths": lambda n: "\n".join("`" * (3 + i % 50) for i in range(n // 28)),
    "a long fence": lambda n: "`" * n + "\n`" * 9,
    "indented fences": lambda n: "   ```\n```\n" * (n // 11),
    "fences in lists": lambda n: "- ```\nx\n" * (n // 8),
    "fences in quotations": lambda n: "> " * (n // 4) + "```\n" + "> x\n" * (n // 8),
    "tildes": lambda n: "- " + "~" * n + "`",
    "tildes at the margin": lambda n: "~" * n + "`",
    "diagrams": lambda n: "~~~ mer" * (n // 7),
    "spans of many lengths": lambda n: "".join("`" * i + "a" for i in range(int((2 * n) ** 0.5))),
    "spans": lambda n: "`a" * (n // 2),
    "quotations": lambda n: ">" * n,
    "quoted lines": lambda n: "> x\n" * (n // 4),
    "brackets": lambda n: "[" * n,
    "images": lambda n: "![" * (n // 2),
    "bangs": lambda n: "!" * n,
    "images that do not end": lambda n: "![](http://a" * (n // 12),
    "images with brackets": lambda n: "![](http://(" * (n // 12),
    "images with titles": lambda n: '![](http://a "' * (n // 14),
    "badges": lambda n: "[![](http://a)](" * (n // 16),
    "links": lambda n: "](" * (n // 2),
    "links and blanks": lambda n: "](" + " " * n,
    "formulas": lambda n: "\\begin{x}\n" * (n // 10),
    "formulas of many names": lambda n: "".join(
        f"\\begin{{{''.join(chr(97 + int(digit)) for digit in str(i))}}}\n" for i in range(n // 13)
    ),
    "formulas with one end": lambda n: "\\begin{x}\n" * (n // 20) + "\\end{x}" + "y" * (n // 2),
    "formulas that are indented": lambda n: "".join(
        f"{' ' * i}$$x\n" for i in range(int((2 * n) ** 0.5))
    ),
    "dollars": lambda n: "$" * n,
    "dollar lines": lambda n: "$$x\n" * (n // 4),
    "backslashes": lambda n: "\\" * n,
    "addresses": lambda n: "://" * (n // 3),
    "sites": lambda n: "www." * (n // 4),
    "addresses and ticks": lambda n: "`" + "://" * (n // 3),
    "tags": lambda n: "<" * n,
    "comments": lambda n: "<!--" * (n // 4),
    "tabs": lambda n: "\t" * n,
    "blank lines": lambda n: " \n" * (n // 2),
    "markers": lambda n: "- " * (n // 2),
    "numbers": lambda n: "1. " * (n // 3),
    "digits": lambda n: "1" * n,
    "definitions": lambda n: "[a]: " * (n // 5),
    "tables": lambda n: "|" * n,
    "emphasis": lambda n: "*a **" * (n // 5),
    "underscores": lambda n: "_" * n,
    "escapes": lambda n: "\x1b]" * (n // 2),
    "an escape": lambda n: "\x1b[" + "0" * n,
    "colours": lambda n: "\x9b" * n,
    "line ends": lambda n: "\r" * n,
    "entities": lambda n: "&#" * (n // 2),
    "braces": lambda n: "{{" * (n // 2),
    "braces and a half": lambda n: "{{a" * (n // 3) + "}",
    "tracebacks": lambda n: 'File "ipykernel_1/' * (n // 18),
}


def shortest(work: Callable[[str], object], text: str) -> float:
    """CPU seconds that `work` takes at least: what else runs on the machine does not count."""
    times = []
    for _ in range(3):
        began = process_time()
        work(text)
        times.append(process_time() - began)
    return min(times)


def show_everywhere(text: str) -> None:
    """Show `text` in each part of a turn."""
    with pytest.MonkeyPatch.context() as patch:
        screen = TurnScreen(patch)
        screen.add(
            display_event("show_text", "message", text),
            display_event("end_of_text"),
            display_event("show_text", "reasoning", text),
            display_event("tool_begins", "1", text, {"a": text}, hidden=False),
            display_event("tool_ends", "1", "t", text, is_error=True, seconds=0.0, traceback=text),
            display_event("notice", text),
        )
        screen.update()
        screen.finish()


def show_answer(text: str, kind: str = "message") -> dict[str, str]:
    """Return the bundle of an answer."""
    with pytest.MonkeyPatch.context() as patch:
        screen = TurnScreen(patch)
        screen.add(display_event("show_text", kind, text))
        [bundle] = screen.finish().values()
        return bundle


@pytest.mark.deep
def test_work_is_linear_in_the_length(bare_folder: Path, subtests: pytest.Subtests) -> None:
    notebook = Notebook(bare_folder)

    def ask(text: str) -> None:
        # The name at the end does not exist, so nothing is sent.
        with pytest.raises(jp.UsageError):
            notebook.cell("", f"{text}\n{{{{nobody}}}}")

    for work in [show_everywhere, ask]:
        for kind in HOSTILE:
            with subtests.test(kind=kind, work=work):
                short = HOSTILE[kind](UNIT)
                long = HOSTILE[kind](16 * UNIT)
                assert shortest(work, long) < MOST * shortest(work, short) + 0.02

    notebook.session.close()


def test_shown_markdown_has_a_bounded_length(subtests: pytest.Subtests) -> None:
    for kind in HOSTILE:
        with subtests.test(kind=kind):
            text = "x\n" + HOSTILE[kind](UNIT)  # blank text is not shown
            assert len(show_answer(text)["text/markdown"]) < 7 * len(text) + 1000


def test_deeply_nested_data_is_not_indented() -> None:
    """Each line would begin with its level: a megabyte could become gigabytes."""
    text = "[" * 99 + ",".join("1" for _ in range(3_000)) + "]" * 99
    data = json.loads(text)
    answer = show_answer(text, "structured")
    assert json.loads(answer["text/plain"]) == data

    with pytest.MonkeyPatch.context() as patch:
        screen = TurnScreen(patch)
        screen.add(display_event("tool_begins", "1", "t", {"a": data}, parameters="json"))
        [call] = screen.finish().values()
    for part in (*answer.values(), *call.values()):
        assert len(part) < 2 * len(text) + 1000


def test_data_is_shown_with_a_line_for_each_item() -> None:
    bundle = show_answer('{"a":[1]}', "structured")
    assert bundle["text/markdown"] == '```text\n{\n  "a": [\n    1\n  ]\n}\n```'

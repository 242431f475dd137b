"""The file that lists the sentences of the program."""

from __future__ import annotations

from tests.messages import PAGE, find_messages, render_messages


def test_file_of_messages_is_current() -> None:
    current = PAGE.read_text(encoding="utf-8") == render_messages()
    assert current, "tests/messages.txt is out of date: run `python -m tests.messages`"


def test_messages_are_strings_with_several_words() -> None:
    source = (
        '"""No docstring is a message."""\n'
        'error = f"The tool {tool.name!r} did not run: " "it is off."\n'
        'button = "Run tool"\n'
        'key, path = "answer", "conversation tools"\n'
        'style = ".jp-nb-form { margin: 0 auto; }"\n'
    )
    expected = ["The tool {tool.name} did not run: it is off.", "Run tool"]
    assert list(find_messages(source)) == expected

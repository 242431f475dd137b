"""The list of the sentences of the program."""

from __future__ import annotations

from tests.messages import find_messages, render_messages


def test_list_has_each_module_with_its_sentences() -> None:
    listed = render_messages().split("\n\n")
    [parts] = [
        part for part in listed if part.startswith("jp_nb/agent/call_steps/result_delivery.py\n")
    ]
    assert "- Result edit cancelled." in parts.splitlines()


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

"""Transcripts of notebooks contain no control sequences."""

from __future__ import annotations

import nbformat
import pytest

from tests.kit.texts import write_text


def test_control_sequences_are_removed(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("\x9b31mx", "x"),
        ("\x1bcx", "x"),
        ("a\x1b[", "a"),
        ("a\x1b]52;c;never closed", "a"),
        (" 10%\r 50%\r100%\nnext\r\n", "100%\nnext\n"),
        ("a\x00\x08b\x7f", "ab"),
        ("\u202eevil\u2066", "evil"),
        ("tab\tä😀\n", "tab\tä😀\n"),
    ]:
        with subtests.test(text=text):
            assert write_text("terminal_output", text) == expected


def test_transcript_shows_cells_and_outputs() -> None:
    new = nbformat.v4
    figure = {"image/png": "iVBO", "text/html": "<b>"}
    notebook = new.new_notebook(
        cells=[
            new.new_markdown_cell("# Title\n\x1b[2Jtext"),
            new.new_code_cell(
                "a\nb",
                execution_count=1,
                outputs=[
                    new.new_output("stream", text="said\n"),
                    new.new_output("display_data", data={"text/plain": "shown", **figure}),
                    new.new_output("display_data", data=figure),
                    new.new_output("execute_result", data={"text/plain": "42"}),
                    new.new_output("error", ename="E", evalue="\x1b[31mwhy", traceback=[]),
                ],
            ),
            new.new_code_cell(""),
        ]
    )
    assert write_text("notebook", notebook) == (
        "# Title\ntext\n\nIn [1]: a\n        b\nsaid\nshown\n<image/png, text/html>\n42\nE: why\n\n"
    )

"""Answers of an answers file, compared with the question."""

from __future__ import annotations

from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.sessions import current_session
from tests.support.sessions import AskedNotebook

LOGIN = {
    "id": "login",
    "text": "Who?",
    "answer_type": {
        "type": "form",
        "fields": [
            {"id": "name", "text": "Name?", "answer_type": {"type": "text"}},
            {"id": "pin", "text": "PIN?", "answer_type": {"type": "secret"}},
        ],
    },
}


def test_errors_of_a_prepared_form_contain_no_secret(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, str]] = [
        ('{ pin = { env = "PIN" } }', ": `name`: "),
        ('{ pin = { env = "PIN" }, nmae = "Ada" }', ": `nmae`: unknown field"),
        ('{ pin = { env = "PIN" }, name = 5 }', ": `name`: expected a string"),
        ('"all of it"', "."),
    ]
    file = bare_folder / "a.toml"
    monkeypatch.setenv("PIN", "sesame-open")
    monkeypatch.setenv("JP_NB_ANSWERS", str(file))
    notebook = AskedNotebook(bare_folder, headless=True)

    with current_session(notebook.session):

        @jp.tool(run="unattended")
        def enter() -> jp.NeedsInput:
            return jp.NeedsInput(jp.Question.model_validate(LOGIN))

        for said, why in rows:
            with subtests.test(said=said):
                file.write_text(f"[questions.enter]\nlogin = {said}\n")
                call = notebook.call("enter")
                assert call.is_error
                assert f"a.toml, line 2: the answer to 'login' does not fit{why}" in call.content
                assert "sesame" not in call.content
                assert "sesame" not in str(notebook.stored)
    notebook.session.close()

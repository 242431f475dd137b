"""Answers of an answers file, compared with the question."""

from __future__ import annotations

from pathlib import Path

import pytest

import jp_nb as jp
from jp_nb.session.answers import SessionAnswers
from jp_nb.storage.config_files import ConfigFiles
from tests.kit.kinds import is_kind

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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, str]] = [
        ('{ pin = { env = "PIN" } }', ": `name`: "),
        ('{ pin = { env = "PIN" }, nmae = "Ada" }', ": `nmae`: unknown field"),
        ('{ pin = { env = "PIN" }, name = 5 }', ": `name`: expected a string"),
        ('"all of it"', ""),
    ]
    for said, why in rows:
        with subtests.test(said=said):
            monkeypatch.setenv("PIN", "sesame-open")
            (tmp_path / "a.toml").write_text(f"[questions.enter]\nlogin = {said}\n")
            answers = SessionAnswers()
            answers.load("a.toml", ConfigFiles(tmp_path))
            found = answers.answer("enter", jp.Question.model_validate(LOGIN))
            assert is_kind(found, "invalid_answer")
            begin = "a.toml, line 2: the answer to 'login' does not fit"
            assert found.why.startswith(begin + why)
            assert why or found.why == begin
            assert "sesame" not in found.why

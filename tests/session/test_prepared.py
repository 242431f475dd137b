"""What an answers file says, held against the question that is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from jp_nb.agent.prepared_answers import Unfit
from jp_nb.session.prepared import SessionAnswers
from jp_nb.tooling.question import Question
from jp_nb.workspace.config_files import ConfigFiles

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


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('{ pin = { env = "PIN" } }', ": `name`: "),
        ('{ pin = { env = "PIN" }, nmae = "Ada" }', ": `nmae`: there is no such field"),
        ('{ pin = { env = "PIN" }, name = 5 }', ": `name`: expected a string"),
        ('"all of it"', ""),
    ],
)
def test_what_is_wrong_with_a_form_is_told_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    monkeypatch.setenv("PIN", "sesame-open")
    (tmp_path / "a.toml").write_text(f"[questions.enter]\nlogin = {said}\n")
    answers = SessionAnswers()
    answers.load("a.toml", ConfigFiles(tmp_path))
    found = answers.answer("enter", Question.model_validate(LOGIN))
    assert isinstance(found, Unfit)
    begin = "a.toml, line 2: the answer to 'login' does not fit"
    assert found.why.startswith(begin + why)
    assert why or found.why == begin
    assert "sesame" not in found.why

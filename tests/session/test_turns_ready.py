"""Requests that cannot begin: without a model, without its key, or with a misspelled name."""

from __future__ import annotations

import json
import os
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHost
from tests.support.notebook_runs import NOTEBOOKS


@pytest.fixture
def session(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session without configuration and keys."""
    for name in os.environ:
        if name.startswith("OPENAI_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    return Session(FakeHost())


def run_refused_turn(
    session: Session, text: str = "Why is the sky blue?", model: str | None = None
) -> str:
    """Run a turn that fails, and return the error. Check that nothing was recorded or shown."""
    before = list(session.document.conversation.raw)
    name = session.settings.model
    shown = len(_outputs(session))
    with pytest.raises(jp.JpNbError) as caught:
        session.turns.run(text, model=model)
    assert session.document.conversation.raw == before
    assert (session.settings.model, len(_outputs(session))) == (name, shown)
    assert session.last_turn is None
    return str(caught.value)


def _outputs(session: Session) -> list[object]:
    assert isinstance(session.host, FakeHost)
    return list(session.host.person.outputs)


def test_each_request_without_a_model_says_how_to_choose_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-quite-secret")
    session.configure(directive("cfg", "providers.llm.openrouter.api_key_env=MY_KEY"))
    for question in ("Why is the sky blue?", "Do I need an umbrella?", "And tomorrow?"):
        said = run_refused_turn(session, question)
        assert said.startswith("No model is configured.")
        rows = {line.split()[2]: line for line in said.splitlines() if "%%jp -m" in line[:12]}
        assert rows["anthropic/MODEL"].endswith("ANTHROPIC_API_KEY is not set")
        assert rows["openai/MODEL"].endswith("OPENAI_API_KEY is set")
        assert rows["openrouter/MODEL"].endswith("MY_KEY is not set")
        assert rows["ollama/MODEL"].endswith("no key; server at http://localhost:11434")
        assert not rows.keys() & {"test/MODEL", "scripted/MODEL"}
        assert 'os.environ["ANTHROPIC_API_KEY"] = getpass.getpass()' in said
        assert "sk-quite-secret" not in said


def test_packaged_script_answers_the_quickstart(session: Session) -> None:
    assert "**script**" in session.turns.run("Hello! Who answers here?").text
    notebook = json.loads((NOTEBOOKS / "01-quickstart.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    asked = [cell.partition("\n")[2] for cell in cells if cell.startswith("%%jp")]
    script = resources.files("jp_nb").joinpath("scripts", "welcome.toml").read_text()
    wanted = tomllib.loads(script)["requests"]
    assert len(asked) == len(wanted) == 5
    assert all(any(each in text for each in wanted) for text in asked)


def test_quickstart_script_answers_in_any_order(session: Session) -> None:
    for text in ("Plan a walk for me, please.", "Hello! Who answers here?"):
        session.turns.run(text)
        session.turns.run(text)
    assert [turn.status for turn in session.conversations.log()] == ["completed"] * 4


def test_request_without_a_key_is_not_recorded(session: Session, subtests: pytest.Subtests) -> None:
    rows: list[str] = ["openai/x", "anthropic/x"]
    for model in rows:
        with subtests.test(model=model):
            variable = f"{model.partition('/')[0].upper()}_API_KEY"
            said = run_refused_turn(session, model=model)
            assert f"the environment variable {variable} is not set" in said
            assert f'os.environ["{variable}"] = getpass.getpass()' in said


def test_request_with_an_invalid_key_is_not_recorded(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\N{EURO SIGN}")
    assert "OPENAI_API_KEY contains characters that are not valid in a key" in run_refused_turn(
        session, model="openai/x"
    )


def test_misspelled_model_is_not_recorded(session: Session) -> None:
    for model in ("opnai/x", "gpt", "scripted/wellcome"):
        run_refused_turn(session, model=model)


def test_configuration_and_provider_errors_keep_their_classes(session: Session) -> None:
    with pytest.raises(jp.ConfigError):
        session.turns.run("Why?")
    with pytest.raises(jp.ProviderError):
        session.turns.run("Why?", model="openai/x")

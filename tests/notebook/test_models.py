"""`%jp models`, Tab, `%jp doctor`: what providers told, and who is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jp_nb.agent.provider import ModelList
from jp_nb.errors import ProviderError, UsageError
from jp_nb.notebook.completion import Names, complete_cell
from jp_nb.session.resolver import CACHE_SECONDS, ModelCatalog
from tests.providers.listed_models import CLAUDE, OLD_CLAUDE, anthropic_page
from tests.support.loopback import LoopbackServer
from tests.support.sessions import Notebook

KEY = "sk-test-0123456789abcdefghij"


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(paths={"/v1/models": anthropic_page(CLAUDE, OLD_CLAUDE)}) as server:
        yield server


@pytest.fixture
def notebook(
    folder: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notebook]:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "CEREBRAS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    made = Notebook(folder)
    made.jp(f"config providers.llm.anthropic.base_url={server.url}")
    yield made
    made.session.close()


def use(notebook: Notebook, name: str) -> None:
    notebook.jp(f"config assistant.model.id=anthropic/{name}")


def offered(notebook: Notebook, line: str) -> list[str]:
    found = complete_cell(line, 0, len(line), Names(notebook.session))
    return [each for text in found.texts if (each := line[: found.start] + text) != line]


def test_models_of_the_current_provider_are_shown_and_the_current_one_is_marked(
    notebook: Notebook, server: LoopbackServer
) -> None:
    use(notebook, "claude-opus-3")
    notebook.jp("config providers.llm.aliases.opus=anthropic/claude-opus-4-5")
    shown = notebook.jp("models")
    first, second = shown.splitlines()[1:3]
    assert first.startswith("anthropic/claude-opus-3 ")
    assert first.endswith("current")
    assert "2027-01-05" in first
    assert second.startswith("anthropic/claude-opus-4-5 ")
    assert second.endswith("opus")
    assert "anthropic: 2 models. " in shown
    assert KEY not in shown


def test_models_without_a_name_asks_only_the_current_provider(
    notebook: Notebook, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    shown = notebook.jp("models")
    assert "scripted/talk" in shown
    assert "List their models: `%jp models anthropic`, `%jp models openai`." in shown
    assert server.requests == []


def test_words_after_a_provider_filter_its_models(notebook: Notebook) -> None:
    shown = notebook.jp("models anthropic OPUS 4")
    assert "claude-opus-4-5" in shown
    assert "claude-opus-3" not in shown
    with pytest.raises(UsageError, match=r"Did you mean `%jp models anthropic`\?"):
        notebook.jp("models antropic")


def test_list_of_models_is_cached_and_refreshed_on_demand(
    notebook: Notebook, server: LoopbackServer
) -> None:
    notebook.jp("models anthropic")
    notebook.jp("models anthropic claude")
    assert len(server.requests) == 1
    notebook.jp("models anthropic --refresh")
    assert len(server.requests) == 2
    notebook.jp("config providers.llm.anthropic.beta_headers=x")
    notebook.jp("models anthropic")
    assert len(server.requests) == 3  # other settings are another server


def test_list_of_models_is_cached_for_some_minutes(notebook: Notebook) -> None:
    now, asked = [0.0], list[float]()

    def wait_for(work: Any) -> ModelList:
        work.close()
        asked.append(now[0])
        return ModelList()

    catalog = ModelCatalog(notebook.session.turns.resolver, wait_for, lambda: now[0])
    for moment in (0.0, CACHE_SECONDS - 1, CACHE_SECONDS + 1):
        now[0] = moment
        catalog.models("anthropic", notebook.session.config)
    assert asked == [0.0, CACHE_SECONDS + 1]


def test_tab_offers_cached_models_without_a_request(
    notebook: Notebook, server: LoopbackServer
) -> None:
    line = "%%jp -m anthropic/"
    assert offered(notebook, line) == []
    assert server.requests == []
    notebook.jp("models anthropic")
    told = [f"{line}claude-opus-4-5", f"{line}claude-opus-3"]
    assert offered(notebook, line) == told
    assert offered(notebook, "%jp config assistant.model.id=anthropic/claude-opus-4") == [
        "%jp config assistant.model.id=anthropic/claude-opus-4-5"
    ]
    assert len(server.requests) == 1
    assert offered(notebook, "%jp models anth") == ["%jp models anthropic"]
    notebook.jp("config providers.llm.anthropic.base_url=http://127.0.0.1:9")
    assert offered(notebook, line) == []  # another server told that


def test_doctor_warns_of_a_model_that_ends_or_is_not_listed(
    notebook: Notebook, server: LoopbackServer
) -> None:
    use(notebook, "claude-opus-4-5")
    assert "anthropic lists this model" in notebook.jp("doctor")
    use(notebook, "claude-opus-3")
    assert "⚠ claude-opus-3 ends on 2027-01-05, according to its provider" in notebook.jp("doctor")
    use(notebook, "claude-opus-9")
    assert "⚠ anthropic does not list claude-opus-9" in notebook.jp("doctor")
    assert len(server.requests) == 1


def test_doctor_reports_when_the_list_is_unavailable(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(notebook, "claude-opus-3")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    notebook.jp("config providers.llm.anthropic.api_key_env=MY_KEY")
    shown = notebook.jp("doctor")
    assert "it is unknown whether the provider has this model: anthropic needs a key" in shown
    assert "MY_KEY" in shown


def test_failing_server_is_an_error_with_the_remedy(notebook: Notebook) -> None:
    notebook.jp("config providers.llm.anthropic.base_url=http://127.0.0.1:9")
    with pytest.raises(ProviderError, match=r"no server of anthropic runs at .*base_url"):
        notebook.jp("models anthropic")

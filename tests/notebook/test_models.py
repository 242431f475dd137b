"""`%jp models`, Tab, `%jp doctor`: what providers told, and who is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.resolution.model_catalog import ModelCatalog
from tests.kit.ipython_shell import IPythonShell
from tests.kit.kinds import make
from tests.providers.listed_models import CLAUDE, OLD_CLAUDE, anthropic_page
from tests.support.loopback import LoopbackServer, RawResponse, Reply
from tests.support.sessions import Notebook

CACHE_SECONDS = 300.0
RETRY_SECONDS = 5.0


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


def not_used(_: Any) -> Any:
    raise AssertionError("another kind of request is expected")


def offered(notebook: Notebook, line: str) -> list[str]:
    found = [
        line[:start] + text for start, text in IPythonShell.complete(f"{line}|", notebook.session)
    ]
    return [each for each in found if each != line]


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
    with pytest.raises(jp.UsageError, match=r"Did you mean `%jp models anthropic`\?"):
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
    now = [0.0]
    asked = list[float]()

    def wait_for(work: Any) -> Any:
        work.close()
        asked.append(now[0])
        return make("model_list")

    catalog = ModelCatalog(notebook.session.turns.resolver, wait_for, not_used, lambda: now[0])
    for moment in (0.0, CACHE_SECONDS - 1, CACHE_SECONDS + 1):
        now[0] = moment
        catalog.list_models("anthropic", notebook.session.config)
    assert asked == [0.0, CACHE_SECONDS + 1]


def test_tab_after_a_provider_requests_its_models_once(
    notebook: Notebook, server: LoopbackServer
) -> None:
    line = "%%jp -m anthropic/"
    for shorter in ("%%jp -m anth", "%%jp -m anthropic", "%%jp -m claude-opus/", "%jp models "):
        offered(notebook, shorter)
    assert server.requests == []
    told = [f"{line}claude-opus-4-5", f"{line}claude-opus-3"]
    assert offered(notebook, line) == told
    assert offered(notebook, f"{line}claude-opus-4") == told[:1]
    assert offered(notebook, "%jp config assistant.model.id=anthropic/claude-opus-4") == [
        "%jp config assistant.model.id=anthropic/claude-opus-4-5"
    ]
    notebook.jp("models anthropic")
    assert [request.target for request in server.requests] == ["/v1/models?limit=1000"]
    assert offered(notebook, "%jp models anth") == ["%jp models anthropic"]
    notebook.jp("config providers.llm.anthropic.base_url=http://127.0.0.1:9")
    assert offered(notebook, line) == []  # another server told that


def test_tab_does_not_wait_for_a_slow_list_and_offers_it_later(
    notebook: Notebook, server: LoopbackServer
) -> None:
    page = json.dumps(anthropic_page(CLAUDE)).encode()
    line = "%%jp -m anthropic/"
    sent = Event()

    def pieces() -> Iterator[bytes | float]:
        yield page[:20]
        while not sent.is_set():
            yield 0.01
        yield page[20:]

    slow = Reply(raw=pieces(), content_type="application/json")  # type: ignore[arg-type]
    with LoopbackServer(paths={"/v1/models": lambda _: slow}) as slow_server:
        notebook.jp(f"config providers.llm.anthropic.base_url={slow_server.url}")
        before = monotonic()
        assert offered(notebook, line) == offered(notebook, line) == []
        assert 0.2 < monotonic() - before < 3
        sent.set()
        while not offered(notebook, line):
            assert monotonic() - before < 10
        assert offered(notebook, line) == [f"{line}claude-opus-4-5"]
        assert len(slow_server.requests) == 1


def test_failed_request_of_tab_is_repeated_after_a_while(notebook: Notebook) -> None:
    now = [0.0]
    asked = list[float]()
    error = jp.ProviderError("no")

    def start(work: Any) -> Future[Any]:
        work.close()
        asked.append(now[0])
        failed = Future[Any]()
        failed.set_exception(error)
        return failed

    catalog = ModelCatalog(notebook.session.turns.resolver, not_used, start, lambda: now[0])
    for moment in (0.0, RETRY_SECONDS - 1, RETRY_SECONDS + 1):
        now[0] = moment
        with pytest.raises(jp.ProviderError):
            catalog.offer("anthropic", notebook.session.config)
    assert asked == [0.0, RETRY_SECONDS + 1]


def test_list_that_arrived_is_offered_however_late_the_next_tab_is(notebook: Notebook) -> None:
    now = [0.0]
    listings = list[Future[Any]]()

    def start(work: Any) -> Future[Any]:
        work.close()
        listings.append(Future[Any]())
        return listings[-1]

    catalog = ModelCatalog(notebook.session.turns.resolver, not_used, start, lambda: now[0])
    config = notebook.session.config
    assert not catalog.offer("anthropic", config, seconds=0).models

    now[0] = RETRY_SECONDS + 1
    assert not catalog.offer("anthropic", config, seconds=0).models
    listings[0].set_result(make("model_list", (make("model_info", "claude"),)))
    now[0] = 10 * RETRY_SECONDS
    assert catalog.offer("anthropic", config, seconds=0).find("claude")
    assert len(listings) == 1


def test_session_ends_while_a_list_is_requested(notebook: Notebook) -> None:
    silent = RawResponse((b"HTTP/1.1 200 OK\r\n\r\n", 30.0))
    with LoopbackServer(paths={"/v1/models": lambda _: silent}) as silent_server:
        notebook.jp(f"config providers.llm.anthropic.base_url={silent_server.url}")
        assert offered(notebook, "%%jp -m anthropic/") == []
        before = monotonic()
        notebook.session.close()
        assert monotonic() - before < 3


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


@pytest.mark.req("RESP-24")
def test_doctor_names_the_dialect_and_models_lists_those_of_its_server(
    notebook: Notebook, subtests: pytest.Subtests
) -> None:
    listed = {"data": [{"id": "gpt-x"}]}
    with LoopbackServer(paths={"/v1/models": listed}) as server:
        notebook.jp(f"config providers.llm.openai.base_url={server.url}")
        notebook.jp("config assistant.model.id=openai/gpt-x")
        for setting, dialect in (("", "chat"), ("responses", "responses")):
            with subtests.test(setting=setting):
                if setting:
                    notebook.jp(f"config providers.llm.openai.dialect={setting}")
                assert f"dialect `{dialect}`" in notebook.jp("doctor")
                assert "gpt-x" in notebook.jp("models openai --refresh")


def test_doctor_warns_of_an_alias_whose_model_ends(notebook: Notebook) -> None:
    use(notebook, "claude-opus-4-5")
    for alias, name in (
        ("old", "claude-opus-3"),
        ("new", "claude-opus-4-5"),
        ("far", "ollama/claude-opus-3"),
    ):
        target = name if "/" in name else f"anthropic/{name}"
        notebook.jp(f"config providers.llm.aliases.{alias}={target}")
    shown = notebook.jp("doctor")
    assert shown.count("Alias `") == 1
    assert "Alias `old`: ⚠ claude-opus-3 ends on 2027-01-05" in shown
    use(notebook, "claude-opus-3")
    assert "Alias `" not in notebook.jp("doctor")  # the current model is named anyway


def test_doctor_warns_of_an_answer_longer_than_the_model_writes(notebook: Notebook) -> None:
    use(notebook, "claude-opus-4-5")
    notebook.jp("config assistant.model.parameters.max_tokens=64000")
    assert "anthropic lists this model" in notebook.jp("doctor")
    notebook.jp("config assistant.model.parameters.max_tokens=64001")
    shown = notebook.jp("doctor")
    assert "= 64001, but claude-opus-4-5 writes at most 64000 tokens in an answer" in shown
    assert "`%jp config assistant.model.parameters.max_tokens=64000`" in shown


def test_retired_models_are_last_and_not_completed(folder: Path, notebook: Notebook) -> None:
    gone = {**OLD_CLAUDE, "id": "claude-2", "lifecycle": "retired", "retires_at": "2025-07-21"}
    page = anthropic_page(gone, CLAUDE, {**gone, "id": "claude-1", "retires_at": None})
    with LoopbackServer(paths={"/v1/models": page}) as other:
        notebook.jp(f"config providers.llm.anthropic.base_url={other.url}")
        shown = notebook.jp("models anthropic").splitlines()
        names = offered(notebook, "%%jp -m anthropic/claude-")
        use(notebook, "claude-2")
        warning = notebook.jp("doctor")
    assert shown[1].startswith("anthropic/claude-opus-4-5 ")
    assert shown[2].rstrip().endswith("retired")
    assert shown[3].rstrip().endswith("retired 2025-07-21")
    assert names == ["%%jp -m anthropic/claude-opus-4-5"]
    assert "⚠ claude-2 has ended: 2025-07-21, according to its provider" in warning


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
    with pytest.raises(jp.ProviderError, match=r"no server of anthropic runs at .*base_url"):
        notebook.jp("models anthropic")

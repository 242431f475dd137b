"""Servers of `providers.llm.servers`: their names work wherever the name of a provider does."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.ipython_shell import IPythonShell
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.sessions import AskedNotebook, Notebook, configure, write

KEY = "sk-test-0123456789abcdef"
DIALECTS = ["chat", "responses", "messages", "interactions", "generate"]


@pytest.fixture
def notebook(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    notebook = Notebook(bare_folder)
    yield notebook
    notebook.session.close()


def set_server(notebook: Notebook, name: str, server: LoopbackServer, *settings: str) -> None:
    given = [f"base_url={server.url}", "api_key_env=GATEWAY_KEY", *settings]
    notebook.jp("config " + " ".join(f"providers.llm.servers.{name}.{each}" for each in given))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_named_server_answers_in_each_dialect(notebook: Notebook, dialect: str) -> None:
    replies = [Reply(reasoning="Hm.", text="Hello."), Reply(text="Again.")]
    with LoopbackServer(replies) as server:
        set_server(notebook, "gateway", server, f"dialect={dialect}", "headers.X-Team=blue")
        notebook.ask("Hi.", model="gateway/some/model-1")
        assert notebook.ask("And?") == "Again."

    first, second = server.requests
    assert first.headers["x-team"] == "blue"
    assert KEY in "".join(first.headers.values())
    # Its own reasoning and signatures go back to it.
    if dialect in ("messages", "responses", "interactions"):
        assert Reply().signature in json.dumps(second.body)
    assert "gateway/some/model-1" in notebook.jp("usage")
    assert KEY not in notebook.jp("request --full")
    assert "blue" in notebook.jp("request --full")


def test_two_servers_are_used_side_by_side(notebook: Notebook) -> None:
    with LoopbackServer(["One."]) as one, LoopbackServer(["Two."]) as two:
        set_server(notebook, "vllm-a", one, "profile=vllm")
        set_server(notebook, "vllm-b", two, "profile=vllm")
        assert notebook.ask("Hi.", model="vllm-a/m") == "One."
        assert notebook.ask("Hi.", model="vllm-b/m") == "Two."
    assert one.requests[0].path == "/v1/chat/completions"


def test_name_of_a_server_works_like_the_name_of_a_provider(notebook: Notebook) -> None:
    paths = {"/v1/models": {"data": [{"id": "large"}]}, "/v1/chat/completions": "Hello."}
    with LoopbackServer(paths=paths) as server:
        set_server(notebook, "corp", server)
        notebook.jp("config providers.llm.aliases.fast=corp/small")
        assert notebook.ask("Hi.", model="fast") == "Hello."
        assert "corp/" in [
            text for _, text in IPythonShell.complete("%%jp -m co|", notebook.session)
        ]
        assert "corp" in [
            text for _, text in IPythonShell.complete("%jp models co|", notebook.session)
        ]
        assert "corp/small" in notebook.jp("doctor")
        assert server.url in notebook.jp("config --explain providers.llm.servers.corp.base_url")
        assert "large" in notebook.jp("models corp")
        with pytest.raises(jp.UsageError, match=r"corpus.*corp"):
            notebook.jp("models corpus")
        notebook.jp("config providers.llm.servers.corp.api_key_env=NOT_SET_KEY")
        with pytest.raises(jp.ProviderError, match=r"NOT_SET_KEY.*providers\.llm\.servers\.corp\."):
            notebook.ask("Hi.")


def test_another_kernel_reads_the_model_of_a_record(bare_folder: Path, tmp_path: Path) -> None:
    """The file of the user is read before a conversation that names its server."""
    file = tmp_path / "home" / "config.toml"
    write(file, '[providers.llm.servers.later-read]\nbase_url = "http://127.0.0.1:9"\n')
    first = Notebook(bare_folder, host=FakeHost())
    first.session.configure(model="later-read/m")
    stored = first.session.document.to_json()
    first.session.close()

    notebook = Notebook(bare_folder, host=FakeHost(home=FakeHome(stored=stored)))
    assert notebook.value("assistant.model.id") == {"provider": "later-read", "name": "m"}
    assert notebook.session.config.providers.llm.list_names()[-1] == "later-read"
    notebook.session.close()


def test_removed_server_is_an_error_with_the_setting(notebook: Notebook) -> None:
    with LoopbackServer(["Hello."]) as server:
        set_server(notebook, "gone", server)
        notebook.ask("Hi.", model="gone/m")
        with pytest.raises(jp.ConfigError, match="the server 'gone' is not in the configuration"):
            notebook.jp("config providers.llm.servers.gone:=null")


def test_bad_settings_are_refused(notebook: Notebook, subtests: pytest.Subtests) -> None:
    rows = [
        ("openai.base_url=http://a", "'openai' is the name of a built-in provider"),
        ("mistral.profile=mistral", "'mistral' is the name of a built-in provider"),
        ("scripted.base_url=http://a", "'scripted' is the name of a built-in provider"),
        ("aliases.base_url=http://a", "'aliases' cannot be the name of a server"),
        ("Mine.base_url=http://a", "'Mine' cannot be the name of a server"),
        ("9a.base_url=http://a", "'9a' cannot be the name of a server"),
        (f"{'a' * 41}.base_url=http://a", "cannot be the name of a server"),
        ("a.base_url=http://user:pw@host", "cannot contain a user name"),
        ("a.api_key_env=sk-123456", "expected the name of an environment variable"),
        ("a.dialect=soap", "dialect"),
        ("a.profile=nonesuch", "profile"),
        ("a.profile.path=../x", "a path such as"),
        ("a.headers.Authorization=x", "is not a header that can be set here"),
        ("a.headers.X-Api-Key=x", "is not a header that can be set here"),
        ("a.headers.Cookie=x", "is not a header that can be set here"),
        (f"a.headers.X-Team={KEY}", "may hold a key"),
        ("a.headers.X-Auth-Token=abc", "key"),
        ("a.headers.X-Text=é", "ASCII"),
    ]
    for setting, message in rows:
        with subtests.test(setting=setting):
            with pytest.raises((jp.ConfigError, jp.UsageError)) as caught:
                notebook.jp(f"config providers.llm.servers.{setting}")
            assert message in str(caught.value)
            assert KEY not in str(caught.value)

    headers = {"X-A": "b\nX-B: c"}
    server = {"providers": {"llm": {"servers": {"a": {"headers": headers}}}}}
    with pytest.raises(jp.ConfigError, match="one line"):
        notebook.session.configure(directive("cfg", json.dumps(server)))


def test_server_without_an_address_is_an_error_before_a_request(notebook: Notebook) -> None:
    notebook.jp("config providers.llm.servers.empty.profile=vllm")
    with pytest.raises(jp.ConfigError, match="the address of the server is missing") as caught:
        notebook.ask("Hi.", model="empty/m")
    assert caught.value.path == "providers.llm.servers.empty.base_url"


CORP = """
assistant.model.id = "corp/m"
[providers.llm.servers.corp]
base_url = "http://evil.example"
headers.X-A = "b"
profile = "vllm"
"""


@pytest.mark.parametrize("source", ["record", "folder"])
def test_strangers_set_no_server_and_choose_none(bare_folder: Path, source: str) -> None:
    stored: Any = None
    if source == "folder":
        configure(bare_folder, CORP)
    else:
        stored = {
            "version": 1,
            "conversation": {"id": "jp-c17000000000", "made": "live"},
            "base_config": tomllib.loads(CORP),
            "events": [],
        }
    notebook = AskedNotebook(bare_folder, stored=stored)
    assert notebook.value("assistant.model.id") != {"provider": "corp", "name": "m"}
    assert notebook.value("providers.llm.servers") == {}
    [notice] = [each for each in notebook.notices if "assistant.model.id" in each]
    assert "providers.llm.servers.corp" in notice
    notebook.session.close()


def test_profile_says_how_a_server_differs(notebook: Notebook) -> None:
    call = ToolCall("describe_tools", {"tools": ["ask_user"]}, id="call_with_a_long_id")
    with LoopbackServer([Reply(tool_calls=(call,)), "Done."]) as server:
        set_server(
            notebook,
            "own",
            server,
            "profile.base=vllm",
            "profile.path=/openai/v1/chat/completions",
            "profile.max_tokens=max_completion_tokens",
            "profile.stream_options=false",
            "profile.any_tool=any",
            "profile.call_ids=nine",
        )
        cfg = directive("cfg", "assistant.model.parameters.max_tokens=99")
        notebook.ask("Hi.", cfg, model="own/m", tool_choice="required")
    first, second = (request.body for request in server.requests)
    assert server.requests[0].path == "/openai/v1/chat/completions"
    assert first["max_completion_tokens"] == 99
    assert "stream_options" not in first
    assert first["tool_choice"] == "any"
    assert second["tool_choice"] == "auto"
    [made] = second["messages"][-2]["tool_calls"]
    assert len(made["id"]) == 9
    assert made["id"].isalnum()
    assert second["messages"][-1]["tool_call_id"] == made["id"]


def test_mistral_and_groq_have_their_own_requests(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    calls = tuple(ToolCall("describe_tools", {"tools": ["ask_user"]}, id="same") for _ in "ab")
    with LoopbackServer([Reply(tool_calls=calls), "Done."]) as server:
        notebook.jp(f"config providers.llm.mistral.base_url={server.url}")
        seed = directive("cfg", "assistant.model.parameters.seed:=7")
        notebook.ask("Hi.", seed, model="mistral/mistral-large-latest", tool_choice="required")
    first, second = (request.body for request in server.requests)
    assert "stream_options" not in first
    assert first["tool_choice"] == "any"
    assert first["random_seed"] == 7
    ids = [call["id"] for call in second["messages"][-3]["tool_calls"]]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert len(set(ids)) == 2
    assert [message["tool_call_id"] for message in second["messages"][-2:]] == ids

    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "Hi."}}]},
        {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "x_groq": {"id": "req", "usage": {"prompt_tokens": 41, "completion_tokens": 2}},
        },
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    with LoopbackServer([Reply(raw=(body.encode(),))]) as server:
        notebook.jp(f"config providers.llm.groq.base_url={server.url}/openai/v1")
        notebook.ask("Hi.", model="groq/llama-4")
    assert server.requests[0].path == "/openai/v1/chat/completions"
    assert notebook.session.last_turn is not None
    assert notebook.session.last_turn.usage.input_tokens == 41


def test_unknown_model_suggests_the_provider_that_serves_it(
    notebook: Notebook, subtests: pytest.Subtests
) -> None:
    rows = {
        "mistral-large": "mistral",
        "mistral-large-latest": "mistral",
        "open-mistral-nemo": "mistral",
        "codestral-latest": "mistral",
        "mistral": "ollama",
        "mistral:7b": "ollama",
        "llama3.2": "ollama",
        "gpt-5": "openai",
        "grok-4": "xai",
        "gemini-3-pro": "google",
        "claude-opus-5": "anthropic",
    }
    for model, provider in rows.items():
        hint = f"did you mean '{provider}/{model}'"
        with subtests.test(model=model), pytest.raises(jp.ConfigError, match=hint):
            notebook.ask("Hi.", model=model)


DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_documents_list_each_provider(notebook: Notebook) -> None:
    providers = (DOCS / "providers.md").read_text("utf-8")
    guide = (DOCS / "guide.md").read_text("utf-8")
    names = {*notebook.value("providers.llm")} - {"servers", "aliases"}
    assert "groq" in names
    for name in names:
        assert f"`{name}" in providers, name
        assert f"-m {name}/" in guide, name


def test_documents_list_each_profile(notebook: Notebook, subtests: pytest.Subtests) -> None:
    providers = (DOCS / "providers.md").read_text("utf-8")
    section = providers.partition("## OpenAI Chat Completions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(/\S+)` \| `(\w+)` \|", section, re.MULTILINE)
    listed = ", ".join(name for name, *_ in rows)
    with pytest.raises(jp.ConfigError, match=f"expected one of {listed}, found"):
        notebook.jp("config providers.llm.servers.own.profile=nonesuch")

    limit = directive("cfg", "assistant.model.parameters.max_tokens=99")
    for name, path, max_tokens in rows:
        with subtests.test(profile=name), LoopbackServer(["Hi."], strict=False) as server:
            set_server(notebook, f"own-{name}", server, f"profile={name}")
            notebook.ask("Hi.", limit, model=f"own-{name}/m", new=True)
            [request] = server.requests
            assert request.path == path
            assert request.body[max_tokens] == 99

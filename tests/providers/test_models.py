"""Lists of models from servers of each protocol."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.providers import new_provider, substitute
from tests.providers.listed_models import (
    CLAUDE,
    GPT,
    OLD_CLAUDE,
    OLD_GPT,
    ROUTED,
    anthropic_page,
)
from tests.support.loopback import LoopbackServer, Received, Reply

MAX_MODELS = 5_000
MAX_MODEL_PAGES = 20
MAX_OLLAMA_DETAILS = 30


TIERS = "pip install -e '.[tiers]'"
KEY = "sk-test-0123456789abcdefghij"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


async def listed(name: str, url: str, *, seconds: float = 20) -> Any:
    provider = new_provider(name, {"base_url": url, "api_key_env": "TEST_KEY"})
    try:
        return await provider.models(seconds=seconds)
    finally:
        await provider.aclose()


# --- each protocol -----------------------------------------------------------------------------


def paged(request: Received) -> Any:
    return (
        anthropic_page(OLD_CLAUDE)
        if "after_id" in request.query
        else anthropic_page(CLAUDE, more=True)
    )


async def test_anthropic_lists_limits_abilities_and_retirement_page_by_page() -> None:
    with LoopbackServer(paths={"/v1/models": paged}) as server:
        found = await listed("anthropic", server.url)
    new, old = found.models
    assert new == make("model_info", 
        "claude-opus-4-5", "Claude Opus 4.5", context_window=200_000, max_output=64_000,
        inputs=("image", "pdf"), reasoning=True, created=new.created,
    )  # fmt: skip
    assert (old.state, old.ends) == ("deprecated", "2027-01-05")
    second = server.requests[1]
    assert (second.path, second.query["after_id"]) == ("/v1/models", "claude-opus-4-5")
    assert second.headers["x-api-key"] == KEY
    assert second.headers["anthropic-version"]


async def test_anthropic_lists_the_same_as_the_official_client() -> None:
    anthropic = pytest.importorskip("anthropic", reason=TIERS)
    with LoopbackServer(paths={"/v1/models": paged}) as server:
        found = await listed("anthropic", server.url)
        official = list(anthropic.Anthropic(base_url=server.url, api_key=KEY).models.list())
    assert [model.id for model in found.models] == [model.id for model in official]
    assert found.models[0].created == official[0].created_at.timestamp()
    assert found.models[1].ends == official[1].retires_at.date().isoformat()
    assert (official[0].max_input_tokens, official[0].max_tokens) == (200_000, 64_000)


async def test_openai_lists_names_and_the_day_of_the_end() -> None:
    with LoopbackServer(paths={"/v1/models": {"object": "list", "data": [GPT, OLD_GPT]}}) as server:
        for base in ("", "/v1"):
            found = await listed("openai", server.url + base)
            assert [model.id for model in found.models] == [GPT["id"], OLD_GPT["id"]]
            assert [model.created for model in found.models] == [GPT["created"], OLD_GPT["created"]]
            assert [model.ends for model in found.models] == ["", "2027-02-01"]
            assert [model.state for model in found.models] == ["", "deprecated"]
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_openai_lists_the_same_as_the_official_client() -> None:
    openai = pytest.importorskip("openai", reason=TIERS)
    with LoopbackServer(paths={"/v1/models": {"object": "list", "data": [GPT, OLD_GPT]}}) as server:
        found = await listed("openai", server.url)
        official = list(openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY).models.list())
    assert [(m.id, m.created) for m in found.models] == [(m.id, m.created) for m in official]


async def test_openrouter_lists_prices_and_abilities() -> None:
    ends = {**ROUTED, "id": "x/old", "expiration_date": "2026-12-24"}
    with LoopbackServer(paths={"/api/v1/models": {"data": [ROUTED, ends]}}) as server:
        found = await listed("openrouter", server.url)
    assert found.models[0] == make("model_info", 
        "anthropic/claude-opus-4.5", "Anthropic: Claude Opus 4.5", context_window=200_000,
        max_output=32_000, inputs=("image", "file"), tools=True, reasoning=True,
        input_price=5.0, output_price=25.0, created=1_764_010_580.0,
    )  # fmt: skip
    assert (found.models[1].state, found.models[1].ends) == ("deprecated", "2026-12-24")


async def test_openrouter_is_read_page_by_page() -> None:
    def page(request: Received) -> Any:
        start = int(request.query.get("offset", 0))
        more = {"next": f"/api/v1/models?offset={start + 2}"} if start < 4 else {}
        return {"data": [{"id": f"m/{start}"}, {"id": f"m/{start + 1}"}], "links": more}

    with LoopbackServer(paths={"/api/v1/models": page}) as server:
        found = await listed("openrouter", server.url)
    assert [model.id for model in found.models] == [f"m/{n}" for n in range(6)]


async def test_llamacpp_lists_the_context_it_runs_with() -> None:
    meta = {"n_ctx_train": 131_072, "n_params": 8_030_261_248, "size": 4_912_898_048}
    paths = {
        "/v1/models": {"object": "list", "data": [{"id": "qwen.gguf", "meta": meta}]},
        "/props": {
            "default_generation_settings": {"n_ctx": 8192},
            "modalities": {"vision": True, "audio": False},
            "chat_template_caps": {"supports_tools": True},
        },
    }
    with LoopbackServer(paths=paths) as server:
        found = await listed("llamacpp", server.url)
    [model] = found.models
    assert model == make(
        "model_info",
        "qwen.gguf",
        context_window=8192,
        inputs=("image",),
        tools=True,
        parameters="8.0B",
        size_bytes=4_912_898_048,
    )
    del paths["/props"]
    with LoopbackServer(paths=paths) as server:
        found = await listed("llamacpp", f"{server.url}/v1")
    assert found.models[0].context_window == 131_072


def tags(*names: str) -> Any:
    details = {"parameter_size": "8.0B", "quantization_level": "Q4_K_M"}
    return {"models": [{"name": n, "model": n, "size": 5 * 10**9, "details": details}
                       for n in names]}  # fmt: skip


def show(request: Received) -> Any:
    if request.body["model"] == "broken":
        return 500
    info = {"llama.context_length": 40_960, "llama.embedding_length": 4096}
    return {"capabilities": ["completion", "tools", "thinking", "vision"], "model_info": info}


async def test_ollama_lists_sizes_and_abilities() -> None:
    with LoopbackServer(
        paths={"/api/tags": tags("qwen3:8b", "broken"), "/api/show": show}
    ) as server:
        found = await listed("ollama", f"{server.url}/v1")
    whole, broken = found.models
    assert whole == make("model_info", 
        "qwen3:8b", context_window=40_960, inputs=("image",), tools=True, reasoning=True,
        parameters="8.0B", quantization="Q4_K_M", size_bytes=5 * 10**9,
    )  # fmt: skip
    assert (broken.id, broken.quantization, broken.tools) == ("broken", "Q4_K_M", None)


async def test_older_ollama_lists_names_alone() -> None:
    with LoopbackServer(paths={"/api/tags": {"models": [{"name": "llama2"}]}}) as server:
        assert (await listed("ollama", server.url)).models == (make("model_info", "llama2"),)


async def test_ollama_is_asked_for_details_of_a_limited_number_of_models() -> None:
    many = tags(*(f"m{n}" for n in range(100)))
    with LoopbackServer(paths={"/api/tags": many, "/api/show": show}) as server:
        found = await listed("ollama", server.url)
        details = [each for each in server.requests if each.path == "/api/show"]
    assert len(found.models) == 100
    assert len(details) == MAX_OLLAMA_DETAILS


async def test_deepseek_and_cerebras_list_as_openai_does() -> None:
    for name, path in (("deepseek", "/models"), ("cerebras", "/v1/models")):
        with LoopbackServer(paths={path: {"data": [{"id": "m", "max_model_len": 4096}]}}) as server:
            found = await listed(name, server.url)
        assert found.models == (make("model_info", "m", context_window=4096),)


async def test_scripted_provider_lists_scripts(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "far.toml").write_text('[[replies]]\ntext = "x"\n')
    (tmp_path / "near.toml").write_text('[[replies]]\ntext = "x"\n')
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    found = await new_provider("scripted", {"folders": [str(tmp_path)]}).models(seconds=1)
    names = [model.id for model in found.models]
    assert {"far", "near", "welcome"} <= set(names)
    assert "pyproject" not in names


# --- faulty servers -----------------------------------------------------------------------------

LISTS = {"anthropic": "/v1/models", "openai": "/v1/models", "google": "/v1/models",
         "llamacpp": "/v1/models", "ollama": "/api/tags"}  # fmt: skip
"""The path of the list of each server."""


async def list_from(name: str, answer: Any, **others: Any) -> tuple[Any, ...]:
    """Return the models of a server that answers with the JSON value `answer`."""
    paths = {LISTS[name]: answer, **others}
    encoded = {path: json.dumps(value).encode() for path, value in paths.items()}
    with LoopbackServer(paths=encoded) as server:
        models: tuple[Any, ...] = (await listed(name, server.url)).models
    return models


STRANGE: tuple[Any, ...] = (
    [], None, 7, "models", {}, {"data": None}, {"data": {"id": "x"}}, {"data": [None, 7, [], {}]},
    {"data": [{"id": 7}, {"id": ""}, {"id": "m" * 10_000}], "models": [{"model": []}]},
)  # fmt: skip


async def test_malformed_list_has_no_models(subtests: pytest.Subtests) -> None:
    for name in LISTS:
        for answer in STRANGE:
            with subtests.test(name=name, answer=answer):
                assert await list_from(name, answer) == ()


FIELDS = """name display_name context_length context_window max_model_len created created_at
    supported_parameters expiration_date lifecycle shutdown_date retires_at max_input_tokens limits
    max_tokens size modified_at capabilities meta top_provider architecture pricing details
    displayName inputTokenLimit outputTokenLimit"""
INNER = """prompt completion input_modalities n_ctx_train n_params max_completion_tokens image_input
    thinking parameter_size quantization_level"""


def make_odd_model(value: Any) -> dict[str, Any]:
    """Return a model with `value` in all fields."""
    made = dict.fromkeys(FIELDS.split(), value)
    inner = dict.fromkeys(INNER.split(), value)
    nested = ("capabilities", "meta", "top_provider", "architecture", "pricing", "details")
    return {"id": "m", "model": "m", **made, **dict.fromkeys(nested, inner)}


VALUES = [None, True, -1, 0, 1.5, 2**80, "", "x" * 5000, "nan", "inf", "-1", [], [None, 3], {},
          {"supported": "yes"}, "9999-99-99", "0001-01-01T00:00:00+14:00", -(2**52)]  # fmt: skip


async def test_fields_of_any_type_leave_the_model_listed(subtests: pytest.Subtests) -> None:
    for value in VALUES:
        odd = make_odd_model(value)
        details = {"/api/show": odd, "/props": odd}
        for name in LISTS:
            listed_model = odd | {"name": "m"} if name == "google" else odd
            page = {"data": [listed_model], "models": [listed_model], "has_more": value}
            with subtests.test(name=name, value=value):
                (model,) = await list_from(name, page, **details)
                assert model.id == "m"
                assert model.context_window is None or 0 < model.context_window < 2**53
                assert model.input_price is None or model.input_price >= 0
                assert len(model.name) <= 200


def endless(request: Received) -> Any:
    start = int(request.query.get("after_id", "m0")[1:])
    return anthropic_page(*({"id": f"m{start + n}"} for n in range(1, 4)), more=True)


def circle(_: Received) -> Any:
    return anthropic_page({"id": "a"}, {"id": "b"}, more=True)


async def test_endless_pages_are_cut_and_a_circle_ends() -> None:
    with LoopbackServer(paths={"/v1/models": endless}) as server:
        found = await listed("anthropic", server.url)
        assert len(server.requests) == MAX_MODEL_PAGES
    assert (len(found.models), found.is_cut) == (3 * MAX_MODEL_PAGES, True)
    with LoopbackServer(paths={"/v1/models": circle}) as server:
        found = await listed("anthropic", server.url)
        assert len(server.requests) == 2
    assert found == make("model_list", (make("model_info", "a"), make("model_info", "b")))


async def test_long_list_is_cut() -> None:
    many = {"data": [{"id": f"m{n}"} for n in range(MAX_MODELS + 2)]}
    with LoopbackServer(paths={"/v1/models": many}) as server:
        found = await listed("openai", server.url)
    assert (len(found.models), found.is_cut) == (MAX_MODELS, True)


async def test_list_above_the_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute(monkeypatch, "bytes of a JSON body", 2**20)
    with (
        LoopbackServer(paths={"/v1/models": {"data": ["x" * 2**21]}}) as server,
        pytest.raises(jp.ProviderError, match="more than 1 MiB instead of JSON"),
    ):
        await listed("openai", server.url)


async def test_html_page_is_no_list() -> None:
    with (
        LoopbackServer(paths={"/v1/models": b"<html><script>alert(1)</script>"}) as server,
        pytest.raises(jp.ProviderError, match=r"instead of JSON. Check providers.llm.openai"),
    ):
        await listed("openai", server.url)


async def test_silent_server_ends_in_a_timeout_without_frames() -> None:
    with (
        LoopbackServer(paths={"/v1/models": Reply(delay=30)}) as server,
        pytest.raises(jp.ProviderError, match=r"did not list its models within 0.2 s") as found,
    ):
        await listed("openai", server.url, seconds=0.2)
    assert found.value.kind == "timeout"
    assert found.value.__cause__ is not None
    assert found.value.__cause__.__traceback__ is None  # frames of httpx hold the key's header


async def test_server_that_does_not_run_comes_with_the_command_to_start_it() -> None:
    with LoopbackServer(paths={}) as server:
        url = server.url
    with pytest.raises(jp.ProviderError, match=r"no server of ollama runs at .*`ollama serve`"):
        await listed("ollama", url)


# --- keys --------------------------------------------------------------------------------------


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


async def test_key_in_a_list_is_hidden(logged: pytest.LogCaptureFixture) -> None:
    echoed = {"data": [{"id": "m", "name": f"it is {KEY}"}, {"id": KEY}]}
    with LoopbackServer(paths={"/v1/models": echoed}) as server:
        found = await listed("openai", server.url)
    assert KEY not in repr(found)
    with LoopbackServer(paths={}) as server, pytest.raises(jp.ProviderError) as refused:
        await listed("openai", server.url)
    with (
        LoopbackServer(paths={"/v1/models": KEY.encode()}) as server,
        pytest.raises(jp.ProviderError) as make_odd_model,
    ):
        await listed("openai", server.url)
    for error in (refused.value, make_odd_model.value):
        assert KEY not in str(error) + repr(error) + repr(error.__cause__)
    assert KEY not in logged.text


async def test_no_list_is_requested_without_a_required_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KEY")
    with LoopbackServer(paths={"/v1/models": anthropic_page(CLAUDE)}) as server:
        with pytest.raises(jp.ProviderError, match=r"environment variable TEST_KEY is not set"):
            await listed("anthropic", server.url)
        assert server.requests == []

"""`path=value`, the environment, files, aliases."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.config.app_config import ModelId
from jp_nb.config.assign import parse_assignment
from jp_nb.config.layers import Layer, fold, from_environment, from_toml, set_by
from jp_nb.config.models import parse, resolve
from jp_nb.config.partial import Partial, at, merge, settled, validate
from jp_nb.errors import ConfigError

WORDS = "assistant.model.parameters.stop_words"


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("user.name=Ada = me", "user.name", "Ada = me"),
        ("user.name=5", "user.name", "5"),
        ("style.tool_call.show=false", "style.tool_call.show", False),
        ("assistant.request.max_retries=0", "assistant.request.max_retries", 0),
        ("assistant.model.parameters.temperature:=1", "assistant.model.parameters.temperature", 1),
        ("assistant.model.parameters.reasoning=high",
         "assistant.model.parameters.reasoning", "high"),
        ("assistant.model.parameters.keep_alive=5m", "assistant.model.parameters.keep_alive", "5m"),
        ("assistant.model.id=openai/gpt-x", "assistant.model.id", "openai/gpt-x"),
        ("assistant.model.id=fast", "assistant.model.id", "fast"),
        ("prompt.notify=off", "prompt.notify", "off"),
        ("conversation.tools.t.enable=off", "conversation.tools.t.enable", "off"),
        ("conversation.tools.*.run=ask", "conversation.tools.*.run", "ask"),
        ("conversation.tools.value.run=ask", "conversation.tools.value.run", "ask"),
        ("conversation.tools.t.questions.q.answer:=true",
         "conversation.tools.t.questions.q.answer", True),
        ("conversation.tools.t.questions.q.answer=true",
         "conversation.tools.t.questions.q.answer", "true"),
        (f"{WORDS}=a, b,", WORDS, ["a", "b"]),
        (f'{WORDS}:=["a,b"]', WORDS, ["a,b"]),
        (f"{WORDS}+=z", WORDS, ["old", "z"]),
        (f'{WORDS}:+=["y", "z"]', WORDS, ["old", "y", "z"]),
        ("assistant.system_prompt+= More.", "assistant.system_prompt", "Old. More."),
        ('{"user": {"name": "Ada"}}', "user.name", "Ada"),
    ],
)  # fmt: skip
def test_an_assignment_is_read_as_its_target_wants(text: str, path: str, value: Any) -> None:
    current: Partial = {
        "assistant": {
            "system_prompt": "Old.",
            "model": {"parameters": {"stop_words": ["old"]}},
        }
    }
    partial = parse_assignment(text, current)
    assert at(partial, path) == value
    validate(merge(current, partial))


@pytest.mark.parametrize(
    ("text", "path", "kind", "says"),
    [
        ("nonsense", "", "malformed", "expected path=value"),
        ("=x", "", "malformed", "is not an assignment"),
        ("[1]", "", "malformed", "is not an assignment"),
        ("{bad", "", "malformed", "not JSON"),
        ("asistant.name=x", "asistant", "unknown_key", "did you mean 'assistant'"),
        ("user.name.x=y", "user.name.x", "unknown_key", "nothing lies below it"),
        ("user.name:=oops", "user.name", "malformed", "not JSON"),
        ("assistant.request.max_retries=many", "assistant.request.max_retries", "type", "many"),
        ("style.tool_call.show=yes please", "style.tool_call.show", "type", "yes please"),
        ("style.tool_call.show+=true", "style.tool_call.show", "type", "adds to a list"),
    ],
)
def test_a_wrong_assignment_says_where_and_what(text: str, path: str, kind: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignment(text, {})
    assert (caught.value.path, caught.value.kind) == (path, kind)
    assert says in str(caught.value)


def test_layers_win_from_low_to_high_and_lists_say_how_they_meet() -> None:
    low = from_toml('[assistant.model.parameters]\nstop_words = ["file"]\n[user]\nname = "f"', "f")
    env = from_environment(
        {
            "JP_CFG_USER__NAME": "e",
            "JP_CFG_ASSISTANT__MODEL__PARAMETERS__STOP_WORDS": "env",
            "JP_CFG_ASSISTANT__REQUEST__MAX_RETRIES": ":3",
            "HOME": "/",
        }
    )
    folded = settled(fold([low, env]))
    assert at(folded, "user.name") == "e"
    assert at(folded, WORDS) == ["env"]
    assert at(folded, "assistant.request.max_retries") == 3
    assert set_by([low, env, Layer("none", {})], WORDS) == [
        ("f", ["file"]),
        ("environment", ["env"]),
    ]


@pytest.mark.parametrize(
    "environ", [{"JP_CFG_USR__NAME": "x"}, {"JP_CFG_STYLE__TOOL_CALL__SHOW": "x"}]
)
def test_a_wrong_variable_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"environment variable {next(iter(environ))}"):
        from_environment(environ)


@pytest.mark.parametrize("text", ["a = ", "a = 1", "[user]\nname = 5"])
def test_a_wrong_file_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"\(from /x/config.toml\)"):
        from_toml(text, "/x/config.toml")


def test_aliases_lead_to_a_model_and_never_in_circles() -> None:
    model = ModelId(provider="openai", name="gpt")
    assert resolve("a", {"a": "b", "b": model}) == model
    assert resolve(model, {}) == model
    assert parse("openrouter/anthropic/x") == ModelId(provider="openrouter", name="anthropic/x")
    with pytest.raises(ConfigError, match="a -> b -> a"):
        resolve("a", {"a": "b", "b": "a"})
    with pytest.raises(ConfigError, match=r"neither an alias \(known: a\) nor"):
        resolve("c", {"a": model})
    with pytest.raises(ConfigError, match="unknown provider 'x'"):
        parse("x/y")

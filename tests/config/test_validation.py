"""Checks of layers and of the whole configuration, and the part of a layer that is understood."""

from __future__ import annotations

import time
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.settings import Settings, setting, value_at

WORDS = "assistant.model.parameters.stop_words"


def test_wrong_value_in_a_file_names_the_path_and_the_file() -> None:
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read({"asistant": {}}, file="config.toml")
    assert caught.value.path == "asistant"
    text = str(caught.value)
    assert text.startswith("asistant: ")
    assert "did you mean 'assistant'?" in text
    assert text.endswith("(from workspace file: config.toml)")


def test_number_that_json_lacks_is_refused_along_with_the_other_problems() -> None:
    partial: Any = {"template": {"values": {"x": [1, float("inf")]}}, "user": {"nme": 1}}
    with pytest.raises(jp.ConfigError) as caught:
        Settings.read(partial, "registrations")
    assert [each.path for each in caught.value.problems] == ["template.values.x.1", "user.nme"]


# --- the whole -------------------------------------------------------------------------------


def test_default_configuration_is_valid() -> None:
    whole = Settings().whole()
    assert whole == Settings(whole).whole()
    assert {path.split(".")[0] for path in Settings.list_paths()} >= whole.keys()


def test_type_of_a_setting_is_checked_also_after_an_equal_value() -> None:
    path = "values.image_side"
    assert value_at(Settings(setting(path, 1)).whole(), path) == 1
    with pytest.raises(jp.ConfigError, match="image_side"):
        Settings(setting(path, True)).whole()  # in Python, True == 1
    assert value_at(Settings(setting(path, 1)).whole(), path) == 1


def test_settings_that_were_changed_in_place_are_validated_again() -> None:
    settings: Any = {"values": {"image_side": 1}}
    assert value_at(Settings(settings).whole(), "values.image_side") == 1
    settings["values"]["image_side"] = 2
    assert value_at(Settings(settings).whole(), "values.image_side") == 2


def tools(**fields: Any) -> Any:
    """Return a configuration with the tool `t`."""
    return {"conversation": {"tools": {"t": fields}}}


@pytest.mark.parametrize(
    ("config", "path", "message"),
    [
        ({"assistant": {"tool_choice": "t"},
          "conversation": {"tools": {"t": {"enable": {"state": False}},
                                     "*": {"enable": {"allow_toggle": "never"}}}}},
         "assistant.tool_choice",
         "assistant.tool_choice names 't', which conversation.tools.t.enable turns off"),
        (tools(source="builtin", access={}), "conversation.tools.t.access",
         "conversation.tools.t: `access` is only supported on local tools, but 't' is a builtin"),
        (tools(source="mcp.s", access={}), "conversation.tools.t.access", "'t' is a mcp tool"),
        (tools(source="python", access={"fs": [{"path": "."}]}), "conversation.tools.t.access.fs",
         "'t' is a python tool"),
        ({"conversation": {"tools": {"*": {"source": "local"}}}}, "conversation.tools.*.source",
         "'*' holds defaults and has no source"),
    ],
    ids=["tool choice", "builtin", "MCP", "python", "defaults"],
)  # fmt: skip
@pytest.mark.req("R-MCP-21")
def test_fields_that_contradict_each_other_are_refused(
    config: Any, path: str, message: str
) -> None:
    with pytest.raises(jp.ConfigError) as caught:
        Settings(config).whole()
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message


def test_fields_that_fit_together_are_accepted() -> None:
    configs: list[Any] = [
        tools(source="local", access={"fs": [{"path": "."}]}),
        tools(source="python", access={"config": [{"path": "user"}]}),
        tools(access={"fs": [{"path": "."}]}),
        {"assistant": {"tool_choice": "t"}, **tools(enable=False)},
        {"assistant": {"tool_choice": "unknown"}},
        {"conversation": {"tools": {"*": {"questions": {"q": {"answer": 1}}, "run": "skip"}}}},
    ]
    for config in configs:
        Settings(config).whole()


def test_all_contradictions_are_reported_at_once() -> None:
    found = {"a": {"source": "mcp.s", "access": {}}, "b": {"source": "builtin", "access": {}}}
    partial: Any = {"conversation": {"tools": found}}
    assert Settings.read(partial) == partial  # one layer need not be whole
    with pytest.raises(jp.ConfigError) as caught:
        Settings(partial).whole()
    assert [problem.path for problem in caught.value.problems] == [
        "conversation.tools.a.access",
        "conversation.tools.b.access",
    ]


# --- the part that is understood -------------------------------------------------------------


def test_only_the_wrong_values_of_a_record_are_omitted(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any, list[str]]] = [
        ({"future": {"x": 1}, "user": {"name": "A"}}, {"user": {"name": "A"}}, ["future"]),
        ({"user": {"name": 5, "x": 1}, "assistant": {"name": "B"}},
         {"user": {}, "assistant": {"name": "B"}}, ["user.name", "user.x"]),
        ({"assistant": {"model": {"parameters": {"temperature": "hot", "top_k": 3}}}},
         {"assistant": {"model": {"parameters": {"top_k": 3}}}},
         ["assistant.model.parameters.temperature"]),
        ({"conversation": {"tools": {"t": {"run": "never", "enable": "off"}}}},
         {"conversation": {"tools": {"t": {"enable": {"state": False, "allow_toggle": "any"}}}}},
         ["conversation.tools.t.run"]),
        ({"assistant": {"instructions": [{"title": "I"}, {"titel": "J"}, {"title": "K"}]}},
         {"assistant": {"instructions": [{"title": "I"}, {}, {"title": "K"}]}},
         ["assistant.instructions.1.titel"]),
        ({"assistant": 5, "user": {"name": "A"}}, {"user": {"name": "A"}}, ["assistant"]),
        ({"conversation": {"tools": {"a.b": {"x": 1}}}}, {"conversation": {"tools": {"a.b": {}}}},
         ['conversation.tools["a.b"].x']),
        ({"style": {"code": {"color": True}}, "editor": {"cmd": "vi"}}, {}, []),
        # A wrong item does not change the numbers of the others.
        ({"assistant": {"model": {"parameters": {"stop_words": [1, "a", 2, "b", 3]}}}},
         {"assistant": {"model": {"parameters": {"stop_words": ["a", "b"]}}}},
         [f"{WORDS}.0", f"{WORDS}.2", f"{WORDS}.4"]),
        ({"assistant": {"model": {"parameters": {"stop_words": {"value": [1, "a", 2],
         "strategy": "replace"}}}}},
         {"assistant": {"model": {"parameters": {"stop_words": {"value": ["a"],
         "strategy": "replace"}}}}}, [f"{WORDS}.0", f"{WORDS}.2"]),
        # A table without a required field is omitted as a whole.
        ({"assistant": {"name": "N", "system_prompt_sections": [{"tag": "t"}, "right"]}},
         {"assistant": {"name": "N", "system_prompt_sections": [{"content": "right"}]}},
         ["assistant.system_prompt_sections.0.content"]),
        ({"assistant": {"instructions": [{"examples": [{"good": "g"}, "e"], "items": [5, "i"]}]}},
         {"assistant": {"instructions": [{"examples": ["e"], "items": ["i"]}]}},
         ["assistant.instructions.0.examples.0.bad", "assistant.instructions.0.items.0"]),
        # A wrong table beside wrong fields of another one.
        ({"user": 5, "assistant": {"name": 5, "model": 5}}, {},
         ["user", "assistant.name", "assistant.model"]),
        # Pydantic's names for the members of a union are plain keys here.
        ({"~table": 1, "[key]": 1, "user": {"name": "A"}}, {"user": {"name": "A"}},
         ["~table", '["[key]"]']),
        ({"providers": {"llm": {"aliases": {"~table": {"auth": 1}, "a": "b"}}}},
         {"providers": {"llm": {"aliases": {"a": "b"}}}}, ["providers.llm.aliases.~table.auth"]),
        ({"assistant": {"model": {"id": {"~table": 1, "name": "x"}}}},
         {"assistant": {"model": {"id": {"name": "x"}}}}, ["assistant.model.id.~table"]),
        ({"conversation": {"labels": {"[key]": "x", "a": {"[key]": 1}, "b": "c"}}},
         {"conversation": {"labels": {"b": {"value": "c"}}}},
         ['conversation.labels["[key]"]', 'conversation.labels.a["[key]"]']),
        # JSON has no such numbers.
        ({"template": {"values": {"x": float("nan"), "y": [float("inf"), 1]}}},
         {"template": {"values": {"y": [1]}}}, ["template.values.x", "template.values.y.0"]),
    ]  # fmt: skip
    for partial, kept, paths in rows:
        with subtests.test(partial=partial):
            before = repr(partial)
            found, unknown = Settings.read_known(partial)
            assert without_empty_tables(found) == without_empty_tables(kept)
            assert sorted(unknown) == sorted(paths)
            assert repr(partial) == before


def without_empty_tables(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found = {key: without_empty_tables(item) for key, item in value.items()}
    return {key: item for key, item in found.items() if item != {}}


def nested(depth: int) -> Any:
    """Return a parameter of a tool, an array of arrays."""
    value: Any = {"type": "string"}
    for _ in range(depth):
        value = {"items": value}
    return tools(parameters={"p": value}, run="ask")


def test_value_that_is_nested_too_deep_is_omitted_and_its_path_named() -> None:
    found, unknown = Settings.read_known(nested(800))
    place = "conversation.tools.t.parameters.p" + ".items" * 27
    assert unknown == [place]
    assert value_at(found, "conversation.tools.t.run") == "ask"
    assert value_at(found, place) is None
    assert value_at(found, place.removesuffix(".items")) == {}
    assert Settings.read_known(nested(20)) == (nested(20), [])


@pytest.mark.deep
@pytest.mark.parametrize(
    "partial",
    [
        {"assistant": {"instructions": [{"titel": "x"}] * 4000}},
        {"assistant": {"instructions": [5] * 4000}},
        {"assistant": {f"instruction{i}": 1 for i in range(4000)}},
        {f"k{i}": 1 for i in range(4000)},
        {"conversation": {"tools": {f"t{i}": {"run": "no", "x": 1} for i in range(4000)}}},
        {"k" * 200_000: 1, "style": {"code": {f"k{i}": 1 for i in range(4000)}}},
        nested(200),
    ],
    ids=["keys in items", "items", "keys", "keys of the root", "tools", "long", "deep"],
)
def test_record_with_thousands_of_wrong_values_is_read_quickly(partial: Any) -> None:
    Settings.read_known({})
    start = time.process_time()
    Settings.read_known(partial)
    assert time.process_time() - start < 1.5


def test_table_that_is_no_short_form_is_reported_and_omitted() -> None:
    kept, unknown = Settings.read_known(
        {"assistant": {"model": {"parameters": {"reasoning": {"absolute": "many"}}}}}
    )
    assert value_at(kept, "assistant.model.parameters.reasoning.absolute") is None
    assert unknown == ["assistant.model.parameters.reasoning.absolute"]

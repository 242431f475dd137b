"""From the record to the configuration in force, and what a stranger's record may not decide."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jp_nb.config.assignments import parse_assignment
from jp_nb.config.authority import has_authority
from jp_nb.config.layers import Layer
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    build,
    get_path,
    leaves,
    merge,
    strip_strategies,
)
from jp_nb.config.paths import Element, format_path, parse_path
from jp_nb.config.validation import checked
from jp_nb.errors import ConfigError
from jp_nb.record import projection as projecting
from jp_nb.record.draft import Draft
from jp_nb.record.events import ChatRequest, ConfigDelta, decode
from jp_nb.record.fork import fork
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from tests.support.config_strategies import partials
from tests.support.fakes import FakeClock, new_stream
from tests.support.record_strategies import QUICK

T = "2026-03-18 13:19:06.841464"
EVIL = "http://evil.example"
HOST: Partial = {"providers": {"llm": {"openai": {"base_url": EVIL}}}}
NAMED: Partial = {"user": {"name": "Ada"}}


def delta(value: Partial) -> dict[str, Any]:
    return {"type": "config_delta", "timestamp": T, "delta": value}


def projection(stream: ConversationStream, *below: Partial, trusted: bool = True) -> Projection:
    return Projection(
        stream, lambda: [Layer("below", partial) for partial in below], trusted=trusted
    )


def taken_back(*paths: str) -> ConfigDelta:
    return ConfigDelta(unsets=paths, metadata={"uncovers": list(paths)})


def host(found: Projection) -> str | None:
    return found.config().providers.llm.openai.base_url


def stop_words(found: Projection) -> list[str]:
    return found.config().assistant.model.parameters.stop_words


def test_base_and_deltas_count_in_order_over_the_layers_below() -> None:
    stream = new_stream(delta({"user": {"name": "B"}}), base_config={"user": {"name": "A"}})
    found = projection(stream, {"user": {"name": "below"}, "style": {"tool_call": {"show": False}}})
    assert (found.config().user.name, found.config().style.tool_call.show) == ("B", False)
    assert found.config() is found.config()
    stream.append(ConfigDelta(delta={"user": {"name": "C"}}))
    assert found.config().user.name == "C"
    stream.append(ConfigDelta(unsets=("user.name",)))
    assert found.config().user.name is None
    stream.append(taken_back("user.name"))
    assert found.config().user.name == "below"
    stream.append(ConfigDelta(unsets=("user.name",), delta={"user": {"name": "D"}}))
    assert found.config().user.name == "D"
    stream.append(ConfigDelta(op="reset"))
    assert (found.config().user.name, found.config().style.tool_call.show) == (None, True)


@pytest.mark.parametrize("trusted", [True, False])
def test_an_earlier_state_trusts_as_much_as_the_present_one(trusted: bool) -> None:
    stream = new_stream(
        delta(
            {"assistant": {"name": "A"}, "providers": {"llm": {"openai": {"base_url": "http://a"}}}}
        ),
        delta({"assistant": {"name": "B"}}),
    )
    now = projection(stream, trusted=trusted)
    stream.append(decode(delta({"providers": {"llm": {"openai": {"base_url": "http://mine"}}}}), 2))
    assert host(now) == "http://mine"
    names = [now.until(stream.until(count)).config().assistant.name for count in range(4)]
    hosts = [host(now.until(stream.until(count))) for count in range(1, 4)]
    assert names == [None, "A", "B", "B"]
    theirs = "http://a" if trusted else None
    assert [each if each in ("http://a", "http://mine") else None for each in hosts] == [
        *(theirs, theirs, "http://mine")
    ]
    assert host(now) == "http://mine"


def test_layers_below_are_asked_again_when_they_changed() -> None:
    below = [Layer("file", {"user": {"name": "A"}})]
    found = Projection(new_stream(), lambda: below, trusted=True)
    assert found.config().user.name == "A"
    below[:] = [Layer("file", {"user": {"name": "B"}})]
    assert found.config().user.name == "A"
    found.below_changed()
    assert found.config().user.name == "B"


def test_a_list_in_the_base_is_not_added_to_what_lies_below_and_a_delta_adds() -> None:
    words = {"value": ["base"], "strategy": "replace"}
    path: Any = {"assistant": {"model": {"parameters": {"stop_words": words}}}}
    found = projection(
        new_stream(
            delta({"assistant": {"model": {"parameters": {"stop_words": ["more"]}}}}),
            base_config=path,
        ),
        {"assistant": {"model": {"parameters": {"stop_words": ["below"]}}}},
    )
    assert stop_words(found) == ["base", "more"]


def test_an_item_may_be_unset_whoever_put_it_there() -> None:
    words: Partial = {"assistant": {"model": {"parameters": {"stop_words": ["a", "b"]}}}}
    stream = new_stream()
    found = projection(stream, words)
    path = "assistant.model.parameters.stop_words"
    stream.append(ConfigDelta(unsets=(f'{path}["a"]', f"{path}[zz]")))
    assert stop_words(found) == ["b"]
    stream.append(taken_back(f'{path}["a"]'))
    assert stop_words(found) == ["a", "b"]
    stream.append(ConfigDelta(unsets=(path,)))
    assert stop_words(found) == []
    stream.append(taken_back(path))
    assert stop_words(found) == ["a", "b"]
    again = {"value": ["c"], "strategy": "append"}
    stream.append(
        ConfigDelta(
            unsets=(path,), delta={"assistant": {"model": {"parameters": {"stop_words": again}}}}
        )
    )
    assert stop_words(found) == ["c"]  # taken as it is: its strategy does not act


def test_after_a_reset_neither_base_nor_files_count_and_history_stays() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    stream = new_stream(START, ASKED, reset, delta({"user": {"name": "N"}}),
                        base_config={"assistant": {"name": "base"}})  # fmt: skip
    below = [
        Layer("registrations", {"conversation": {"tools": {"t": {"source": "python"}}}}),
        Layer("workspace file", {"style": {"tool_call": {"show": False}}}),
    ]
    found = Projection(stream, lambda: below, trusted=True)
    config = found.config()
    assert (config.user.name, config.assistant.name, config.style.tool_call.show) == (
        "N",
        None,
        True,
    )
    assert "t" in config.conversation.tools  # what exists is no configuration of anybody's
    stream.append(ConfigDelta(unsets=("user.name",)))
    assert found.config().user.name is None


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ({"base": {"user": {"name": "A"}}}, "A"),
        ({"base": {"user": {"name": "A"}}, "init": [{"delta": {"user": {"name": "B"}}}]}, "B"),
        ({"base": {"user": {"name": "A"}}, "init": [{"unsets": ["user.name"]}]}, None),
        ({"base": {"user": {"name": "A"}}, "init": [{"op": "reset"}]}, None),
        ({"base": {"user": {"name": "A"}}, "init": [7, {"delta": None, "unsets": 3}]}, "A"),
    ],
)
def test_a_base_may_come_with_the_changes_it_began_with(base: Any, name: str | None) -> None:
    assert projection(new_stream(base_config=base)).config().user.name == name


def test_a_delta_without_the_newer_fields_and_one_with_claims_alone_are_fine() -> None:
    bare = {"type": "config_delta", "timestamp": T, "delta": {"user": {"name": "A"}}}
    claims = {"type": "config_delta", "timestamp": T, "claims": {"user.name": None}}
    assert projection(new_stream(bare, claims)).config().user.name == "A"


deltas = st.lists(
    st.one_of(
        st.builds(lambda value: delta(value), partials),
        st.builds(
            lambda paths, value: {**delta(value), "unsets": paths},
            st.lists(
                st.sampled_from(
                    ["user.name", "assistant", "conversation.attachments", "assistant.model.id",
                     'conversation.attachments["file:x"]', "conversation.tools.t", "no.such", "a..",
                     'conversation.tools["d.t"]', "assistant.model.parameters.stop_words"]
                ),
                max_size=2,
            ),
            partials,
        ),
        st.just({"type": "config_delta", "timestamp": T, "op": "reset"}),
    ),
    max_size=5,
)  # fmt: skip


@given(partials, partials, deltas, st.booleans())
@settings(max_examples=150, deadline=None)
def test_folding_as_it_grows_is_what_replaying_everything_comes_to(
    below: Any, base: Any, entries: Any, trusted: bool
) -> None:
    layers = [Layer("file", merge({}, below))]
    growing = new_stream(base_config=base)
    found = Projection(growing, lambda: layers, trusted=True)
    for number, entry in enumerate(entries):
        growing.append(decode(entry, number))
        again = Projection(new_stream(*growing.raw, base_config=base), lambda: layers, trusted=True)
        assert checked(found.partial(), layer="") == checked(again.partial(), layer="")
        assert found.config() == again.config()
    stranger = new_stream(*entries, base_config=base)
    assert Projection(stranger, lambda: layers, trusted=trusted).config()


UNSET_PATHS = [
    "user.name",
    "assistant.name",
    "assistant.system_prompt",
    "assistant.system_prompt_sections",
    "assistant.model.id",
    "assistant.model.parameters.temperature",
    "assistant.model.parameters.stop_words",
    'assistant.model.parameters.stop_words["a"]',
    'conversation.attachments["file:x"]',
    "conversation.labels",
    "conversation.labels.p",
    "conversation.tools.t.run",
    'conversation.tools["d.t"].options',
]


def reread(stream: ConversationStream, *below: Partial) -> Projection:
    """As somebody reads it later, over other lower layers."""
    again = new_stream(*json.loads(json.dumps(stream.raw)), base_config=stream.base_config)
    return projection(again, *below)


def found_at(partial: Partial, path: str) -> Any:
    """The value at `path`; of an item of a list the item, if it is there."""
    *above, last = parse_path(path)
    if not isinstance(last, Element) or "tools" in above:
        return get_path(partial, path) or None
    return last if last in (get_path(partial, format_path(above)) or []) else None


@given(partials, partials, partials, deltas, st.sampled_from(UNSET_PATHS))
@QUICK
def test_what_the_record_unsets_is_unset_whatever_lies_below_until_it_is_taken_back(
    lower: Any, other: Any, base: Any, entries: Any, path: str
) -> None:
    lower, other = merge({}, lower), merge({}, other)
    stream = new_stream(*entries, base_config=base)
    before = found_at(projection(stream, lower).partial(), path)
    stream.append(ConfigDelta(unsets=(path,)))
    for below in (lower, other):
        now = reread(stream, below)
        assert found_at(now.partial(), path) is None
        again = now.partial()
        assert checked(apply(again, Change(unsets=(path,))), layer="") == checked(again, layer="")
    is_reset = any(entry.get("op") == "reset" for entry in entries)
    draft = Draft(projection(stream, lower))
    change = Change(unsets=(path,), uncovers=frozenset({path}))
    assert draft.add(change, {path: None}) or (before is None and found_at(lower, path) is None)
    stream.append(*draft.deltas)
    for below in (lower, other):
        shows = {} if is_reset else strip_strategies(below)
        assert found_at(reread(stream, below).partial(), path) == found_at(shows, path)
        forked = fork(stream, keep_turns=None, clock=FakeClock(), made="live", not_ids=())
        assert reread(forked, below).partial() == reread(stream, below).partial()


def test_a_draft_that_is_recorded_after_something_else_leaves_that_in_force() -> None:
    stream = new_stream()
    found = projection(stream, {})
    draft = Draft(found)
    draft.add(Change(build("assistant.name", "Ada")), {})
    stream.append(ConfigDelta(delta=build("user.name", "Bob")))
    draft.record()
    assert (found.config().assistant.name, found.config().user.name) == ("Ada", "Bob")
    assert found.partial() == reread(stream, {}).partial()


def test_an_unset_shows_what_a_tool_brings_along_and_never_what_a_file_says() -> None:
    path = "conversation.tools.t.run"
    below = [
        Layer("registrations", build(path, "ask")),
        Layer("workspace file", build(path, "skip")),
    ]
    stream = new_stream()
    found = Projection(stream, lambda: below, trusted=True)
    stream.append(ConfigDelta(unsets=(path,)))
    assert found.config().conversation.tools["t"].run == "ask"


def test_an_item_that_shows_again_is_where_the_lower_layer_has_it() -> None:
    path = "assistant.model.parameters.stop_words"
    stream = new_stream()
    found = projection(stream, build(path, ["a", "b", "c"]))
    stream.append(ConfigDelta(delta=build(path, ["z"]), unsets=(f'{path}["b"]', f'{path}["a"]')))
    assert stop_words(found) == ["c", "z"]
    stream.append(taken_back(f'{path}["a"]', f'{path}["b"]', f'{path}["z"]'))
    assert stop_words(found) == ["a", "b", "c"]


def test_a_base_that_begins_with_an_unset_leaves_the_path_unset() -> None:
    base: Any = {"base": {"assistant": {"name": "A"}}, "init": [{"unsets": ["user.name"]}]}
    found = projection(new_stream(base_config=base), NAMED)
    assert (found.config().user.name, found.config().assistant.name) == (None, "A")


def test_a_stranger_unsets_nothing_that_could_widen_what_the_user_allows(
    subtests: pytest.Subtests,
) -> None:
    for path in [
        "conversation",
        "conversation.tools",
        "conversation.tools.t",
        "conversation.tools.t.run",
        "conversation.tools.t.enable",
        "conversation.tools.t.enable.state",
        'conversation.tools["t"]',
        "conversation.attachments",
        "assistant",
    ]:
        with subtests.test(path=path):
            tool: Any = {"t": {"run": "ask", "enable": {"state": False}, "command": "x"}}
            mine: Any = {"conversation": {"tools": tool, "attachments": ["file:x"]}}
            entry: Any = {"type": "config_delta", "timestamp": T, "unsets": [path]}
            for stream in (
                new_stream(entry),
                new_stream(base_config={"base": {}, "init": [entry]}),
            ):
                found = projection(stream, mine, trusted=False)
                assert found.partial() == strip_strategies(mine)
                assert found.ignored == {path: None}


def test_a_stranger_may_unset_words() -> None:
    entry = {"type": "config_delta", "timestamp": T, "unsets": ["user.name"]}
    assert projection(new_stream(entry), NAMED, trusted=False).config().user.name is None


@given(st.lists(st.builds(delta, partials), max_size=4), partials)
@QUICK
def test_a_strangers_deltas_change_no_leaf_with_authority(entries: Any, below: Any) -> None:
    mine = strip_strategies(merge({}, below))
    found = Projection(
        new_stream(*entries), lambda: [Layer("file", merge({}, below))], trusted=False
    )
    for path, value in leaves(found.partial()):
        keys = parse_path(path)
        if has_authority(keys):
            assert get_path(mine, path) == value


def test_who_said_something_is_told_from_the_lowest_up_with_file_and_turn() -> None:
    stream = new_stream(
        delta({"user": {"name": "C"}}), START, ASKED, delta({"assistant": {"name": "x"}}),
        START, ASKED, {"type": "config_delta", "timestamp": T, "unsets": ["user"]},
        base_config={"user": {"name": "B"}},
    )  # fmt: skip
    below = [Layer("workspace file", {"user": {"name": "A"}}, "/w/.jp/config.toml")]
    said = Projection(stream, lambda: below, trusted=True).explain(["user.name"])["user.name"]
    assert [(x.source, x.file, x.turn, x.value) for x in said] == [
        ("workspace file", "/w/.jp/config.toml", None, "A"),
        ("conversation's beginning", None, None, "B"),
        ("conversation", None, 0, "C"),
        ("conversation", None, 2, None),
    ]


def test_a_strangers_record_does_not_say_which_host_is_reached() -> None:
    stream = new_stream(delta({**HOST, **NAMED}), base_config=HOST)
    found = projection(stream, trusted=False)
    assert (host(found), found.config().user.name) == ("https://api.openai.com", "Ada")
    assert found.ignored == {"providers.llm.openai.base_url": EVIL}
    assert host(projection(stream, trusted=True)) == EVIL
    stream.append(ConfigDelta(delta={"providers": {"llm": {"openai": {"base_url": "http://my"}}}}))
    assert host(found) == "http://my"


def test_the_base_of_a_strangers_record_without_entries_is_a_strangers() -> None:
    assert host(projection(new_stream(base_config=HOST), trusted=False)) != EVIL


OPEN_CALL = {"type": "tool_call_request", "timestamp": T, "id": "a", "name": "t"}
START = {"type": "turn_start", "timestamp": T}
ASKED = {"type": "chat_request", "timestamp": T, "content": "q"}


def test_a_repair_that_moves_entries_makes_no_strangers_change_ours() -> None:
    stream = new_stream(START, ASKED, OPEN_CALL, delta(HOST))
    found = projection(stream, trusted=False)
    found.config()
    assert stream.repair()  # answers the call: what comes after it moves
    stream.start_turn(ChatRequest(content="q"))
    assert host(found) != EVIL


def test_a_change_of_ours_counts_once_although_a_repair_removes_entries() -> None:
    stream = new_stream(START, ASKED, START)
    found = projection(stream, trusted=False)
    found.config()
    stream.append(ConfigDelta(delta=NAMED))
    assert stream.repair()  # takes the empty turn away
    assert found.config().user.name == "Ada"


@pytest.mark.parametrize("trusted", [True, False])
def test_a_list_that_was_set_replaces_what_lies_below_also_after_a_restart(trusted: bool) -> None:
    below = {"assistant": {"model": {"parameters": {"stop_words": ["below"]}}}}
    stream = new_stream(base_config=below)  # type: ignore[arg-type]  # JSON all the same
    found = projection(stream, below)  # type: ignore[arg-type]
    for text, expected in [
        ("stop_words:=[]", []),
        ("stop_words=a, b", ["a", "b"]),
        ("stop_words+=c", ["a", "b", "c"]),
    ]:
        path = "assistant.model.parameters."
        stream.append(ConfigDelta(delta=parse_assignment(path + text, found.partial()).delta))
        assert stop_words(found) == expected
        again = new_stream(*stream.raw, base_config=stream.base_config)
        assert stop_words(projection(again, below, trusted=trusted)) == expected  # type: ignore[arg-type]


def test_what_a_record_sets_and_we_do_not_know_is_named_and_the_rest_counts() -> None:
    stream = new_stream(
        delta({"user": {"name": 5}, "assistant": {"name": "N"}, "future": {"x": 1}})
    )
    found = projection(stream, trusted=False)
    assert found.config().assistant.name == "N"
    assert sorted(found.not_understood) == ["future", "user.name"]


@pytest.mark.parametrize("name", ["a.b", "value", "strategy"])
def test_any_name_of_a_tool_is_just_a_name(name: str) -> None:
    tools: Partial = {"conversation": {"tools": {name: {"enable": False, "run": "unattended"}}}}
    found = projection(new_stream(base_config=tools), trusted=False)
    tool = found.config().conversation.tools[name]
    assert tool.run is None
    assert tool.enable is not None
    assert tool.enable.state is False
    assert list(found.ignored.values()) == ["any", "unattended"]  # of its lock, and of run


@pytest.mark.parametrize(
    "partial",
    [
        {"providers": {"llm": {"anthropic": {"api_key_env": "AWS_SECRET"}}}},
        {"interpolation": {"max_chars": 5}},
        {"conversation": {"tools": {"t": {"source": "builtin"}}}},
        {"conversation": {"tools": {"t": {"run": "unattended"}}}},
        {"conversation": {"tools": {"*": {"run": "unattended"}}}},
        {"conversation": {"tools": {"t": {"result": "unattended"}}}},
        {"conversation": {"tools": {"t": {"questions": {"q": {"answer": True}}}}}},
    ],
)
def test_leaves_with_authority_are_not_a_strangers_to_set(partial: Partial) -> None:
    found = projection(new_stream(delta(partial)), trusted=False)
    assert found.config() == projection(new_stream()).config().model_copy(
        update={"conversation": found.config().conversation}
    )
    assert len(found.ignored) == 1
    for tool in found.config().conversation.tools.values():
        assert (tool.source, tool.run, tool.result) == (None, None, None)
        assert all(question.answer is None for question in tool.questions.values())


def test_a_strangers_reset_does_not_drop_what_the_users_own_files_say() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    found = projection(
        new_stream(reset),
        {"conversation": {"tools": {"*": {"run": "ask"}}}},
        trusted=False,
    )
    assert found.config().conversation.tools["*"].run == "ask"
    assert "(reset)" in found.ignored


@pytest.mark.parametrize("enable", [True, "on", "always", {"state": True}])
def test_a_stranger_cannot_switch_on_a_tool_that_the_user_switched_off(enable: Any) -> None:
    value = {"enable": enable, "style": {"hidden": True}}
    found = projection(
        new_stream(delta({"conversation": {"tools": {"rm": value}}})),
        {"conversation": {"tools": {"rm": {"source": "python", "enable": {"state": False}}}}},
        trusted=False,
    )
    tool = found.config().conversation.tools["rm"]
    assert tool.enable is not None
    assert tool.enable.state is False
    assert tool.style.hidden is None
    assert found.ignored


def test_a_stranger_may_switch_a_tool_off() -> None:
    off = delta({"conversation": {"tools": {"rm": {"enable": False}}}})
    found = projection(
        new_stream(off), {"conversation": {"tools": {"rm": {"source": "python"}}}}, trusted=False
    )
    tool = found.config().conversation.tools["rm"]
    assert tool.enable is not None
    assert tool.enable.state is False


# --- what a stranger may not take away -------------------------------------------------------

RULED: Partial = {
    "conversation": {
        "attachments": ["file:mine"],
        "tools": {
            "rm": {
                "source": "local",
                "command": {"program": "rm", "args": ["-i", "x"]},
                "access": {"fs": [{"path": "."}, {"path": "secret", "read": False}]},
            }
        },
    },
    "providers": {"llm": {"anthropic": {"beta_headers": ["mine"]}}},
}


def test_a_stranger_takes_nothing_out_of_what_the_user_configured(
    subtests: pytest.Subtests,
) -> None:
    for path in [
        "conversation.tools.rm.access.fs.1",
        'conversation.tools.rm.access.fs["secret"]',
        "conversation.tools.rm.access.fs[secret].read",
        "conversation.tools.rm.command.args.0",
        "conversation.tools.rm.command",
        "conversation.attachments.0",
        'conversation.attachments["file:mine"]',
        "providers.llm.anthropic.beta_headers.0",
    ]:
        with subtests.test(path=path):
            unsets = {"type": "config_delta", "timestamp": T, "unsets": [path]}
            found = projection(new_stream(unsets), RULED, trusted=False)
            assert found.config() == projection(new_stream(), RULED).config()
            assert path in found.ignored


@pytest.mark.parametrize(
    "path", ["a..b", "[" * 3000, "template.values" + "[" * 3000, "x" * 100_000]
)
def test_what_is_no_path_unsets_nothing_and_is_named(path: str) -> None:
    unsets = {"type": "config_delta", "timestamp": T, "unsets": [path, "user.name"]}
    base: Any = {"base": {"user": {"name": "A"}}, "init": [{"unsets": [path]}]}
    began = projection(new_stream(base_config=base), trusted=False)
    assert began.config().user.name == "A"
    assert path in began.not_understood or len(path) > 10_000
    found = projection(new_stream(unsets, base_config=base), trusted=False)
    assert found.config().user.name is None
    assert path in found.not_understood or len(path) > 10_000


def test_a_stranger_is_not_followed_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projecting, "MAX_FOREIGN_WORK", 10_000)
    words = [
        delta({"assistant": {"model": {"parameters": {"stop_words": [str(i)]}}}})
        for i in range(200)
    ]
    stream = new_stream(START, *words)
    found = projection(stream, trusted=False)
    followed = len(stop_words(found))
    assert 50 < followed < 200
    said = f"not followed from events[{followed + 1}] on"
    assert [said in path for path in found.ignored] == [True]
    assert stop_words(found) == [str(i) for i in range(followed)]
    assert len(stop_words(projection(stream, trusted=True))) == 200
    stream.append(ConfigDelta(delta={"user": {"name": "A"}}))  # of one's own
    assert found.config().user.name == "A"
    assert [_provider_steps(found) for _ in range(2)] == [_provider_steps(found)] * 2


def _provider_steps(found: Projection) -> tuple[int, int, list[str]]:
    """What reading it all once more comes to."""
    return len(found.steps()), len(found.providers()), list(found.ignored)


def test_what_is_wrong_together_names_who_set_it() -> None:
    below = [Layer("workspace file", {"assistant": {"tool_choice": "t"}}, "/w/config.toml")]
    off = delta({"conversation": {"tools": {"t": {"source": "python", "enable": "off"}}}})
    locked = delta({"conversation": {"tools": {"t": {"enable": {"allow_toggle": "never"}}}}})
    found = Projection(new_stream(off, START, ASKED, locked), lambda: below, trusted=True)
    with pytest.raises(ConfigError) as caught:
        found.config()
    assert caught.value.path == "assistant.tool_choice"
    assert "(from workspace file: /w/config.toml)" in str(caught.value)


def test_a_reset_is_told_and_hides_the_files_below() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    below = [Layer("workspace file", {"user": {"name": "A"}}, "/w/config.toml")]
    stream = new_stream(START, ASKED, reset, delta({"user": {"name": "B"}}))
    said = Projection(stream, lambda: below, trusted=True).explain(["user.name"])["user.name"]
    assert [(x.source, x.turn, x.value) for x in said] == [
        ("conversation begins again", 1, None),
        ("conversation", 1, "B"),
    ]


@pytest.mark.parametrize(
    "path",
    ["conversation.tools.t.enable", "conversation.tools.t.enable.state", "conversation.tools.t",
     "conversation.tools.t.run", "conversation", "assistant"],
)  # fmt: skip
def test_what_a_stranger_may_not_take_away_is_listed_and_stays(path: str) -> None:
    stream = new_stream({"type": "config_delta", "timestamp": T, "unsets": [path]})
    locked: Any = {"enable": {"state": False, "allow_toggle": "never"}, "run": "ask"}
    found = projection(stream, {"conversation": {"tools": {"t": locked}}}, trusted=False)
    tool = found.config().conversation.tools["t"]
    assert tool.enable is not None
    assert (tool.enable.state, tool.enable.allow_toggle, tool.run) == (False, "never", "ask")
    assert found.ignored == {path: None}

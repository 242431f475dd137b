"""Projection of an untrusted record: settings with authority are not applied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.config_strategies import partials
from tests.kit.recorded_settings import RecordedSettings
from tests.kit.records import new_event
from tests.record.projections import NAMED, delta, host, stop_words, with_words
from tests.support.entries import ASKED, START, T, new_stream

EVIL = "http://evil.example"
HOST: dict[str, Any] = {"providers": {"llm": {"openai": {"base_url": EVIL}}}}


MINE: Any = {
    "conversation": {
        "attachments": ["file:mine"],
        "tools": {
            "rm": {
                "source": "local",
                "run": "ask",
                "enable": {"state": False, "allow_toggle": "never"},
                "command": {"program": "rm", "args": ["-i", "x"]},
                "access": {"fs": [{"path": "."}, {"path": "secret", "read": False}]},
            }
        },
    },
    "providers": {"llm": {"anthropic": {"beta_headers": ["mine"]}}},
}


def test_untrusted_record_unsets_nothing_that_widens_access(subtests: pytest.Subtests) -> None:
    for path in [
        "assistant",
        "conversation",
        "conversation.tools",
        "conversation.tools.rm",
        'conversation.tools["rm"]',
        "conversation.tools.rm.run",
        "conversation.tools.rm.enable",
        "conversation.tools.rm.enable.state",
        "conversation.tools.rm.access.fs.1",
        'conversation.tools.rm.access.fs["secret"]',
        "conversation.tools.rm.access.fs[secret].read",
        "conversation.tools.rm.command.args.0",
        "conversation.attachments",
        'conversation.attachments["file:mine"]',
        "providers.llm.anthropic.beta_headers.0",
    ]:
        with subtests.test(path=path):
            entry: Any = {"type": "config_delta", "timestamp": T, "unsets": [path]}
            begun = new_stream(base_config={"base": {}, "init": [entry]})
            for stream in (new_stream(entry), begun):
                found = RecordedSettings(stream, MINE, trusted=False)
                mine = RecordedSettings(new_stream(), MINE)
                assert (found.table(), found.config()) == (mine.table(), mine.config())
                assert found.ignored == {path: None}


def test_untrusted_record_unsets_harmless_paths() -> None:
    entry = {"type": "config_delta", "timestamp": T, "unsets": ["user.name"]}
    assert RecordedSettings(new_stream(entry), NAMED, trusted=False).config().user.name is None


@given(st.lists(st.builds(delta, partials), max_size=4), partials)
def test_untrusted_deltas_change_no_leaf_with_authority(entries: Any, below: Any) -> None:
    mine = RecordedSettings(new_stream(), below)
    found = RecordedSettings(new_stream(*entries), below, trusted=False)
    assert found.with_authority() == mine.with_authority()


def test_untrusted_record_does_not_set_the_host() -> None:
    stream = new_stream(delta({**HOST, **NAMED}), base_config=HOST)
    found = RecordedSettings(stream, trusted=False)
    assert (host(found), found.config().user.name) == ("https://api.openai.com", "Ada")
    assert found.ignored == {"providers.llm.openai.base_url": EVIL}
    assert host(RecordedSettings(stream, trusted=True)) == EVIL
    assert host(RecordedSettings(new_stream(base_config=HOST), trusted=False)) != EVIL


def test_changes_of_this_process_apply_to_an_untrusted_record() -> None:
    stream = new_stream(delta(NAMED))
    mine: dict[str, Any] = {"conversation": {"tools": {"t": {"source": "python", "run": "ask"}}}}
    found = RecordedSettings(stream, mine, trusted=False)
    stream.append(new_event("config_delta", unsets=("conversation.tools.t.run",)))
    assert found.config().conversation.tools["t"].run is None
    stream.append(
        new_event(
            "config_delta", delta={"providers": {"llm": {"openai": {"base_url": "http://my"}}}}
        )
    )
    assert host(found) == "http://my"
    assert found.ignored == {}


OPEN_CALL = {"type": "tool_call_request", "timestamp": T, "id": "a", "name": "t"}


def test_repair_that_moves_entries_keeps_untrusted_changes_untrusted() -> None:
    stream = new_stream(START, ASKED, OPEN_CALL, delta(HOST))
    found = RecordedSettings(stream, trusted=False)
    found.config()
    assert stream.repair()  # the response moves the entries after it
    stream.start_turn(new_event("chat_request", content="q"))
    assert host(found) != EVIL


def test_own_change_applies_after_a_repair_that_removes_entries() -> None:
    stream = new_stream(START, ASKED, START)
    found = RecordedSettings(stream, trusted=False)
    found.config()
    stream.append(new_event("config_delta", delta=NAMED))
    assert stream.repair()  # takes the empty turn away
    assert found.config().user.name == "Ada"


def test_untrusted_record_sets_no_leaf_with_authority(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {"providers": {"llm": {"anthropic": {"api_key_env": "AWS_SECRET"}}}},
        {"interpolation": {"max_chars": 5}},
        {"conversation": {"tools": {"t": {"source": "builtin"}}}},
        {"conversation": {"tools": {"*": {"run": "unattended"}}}},
        {"conversation": {"tools": {"t": {"result": "unattended"}}}},
        {"conversation": {"tools": {"t": {"questions": {"q": {"answer": True}}}}}},
    ]
    for partial in rows:
        with subtests.test(partial=partial):
            found = RecordedSettings(new_stream(delta(partial)), trusted=False)
            assert found.config() == RecordedSettings(new_stream()).config().model_copy(
                update={"conversation": found.config().conversation}
            )
            assert len(found.ignored) == 1
            for tool in found.config().conversation.tools.values():
                assert (tool.source, tool.run, tool.result) == (None, None, None)
                assert all(question.answer is None for question in tool.questions.values())


def test_untrusted_reset_does_not_drop_the_files_of_the_user() -> None:
    reset = {"type": "config_delta", "timestamp": T, "op": "reset"}
    found = RecordedSettings(
        new_stream(reset), {"conversation": {"tools": {"*": {"run": "ask"}}}}, trusted=False
    )
    assert found.config().conversation.tools["*"].run == "ask"
    assert "(reset)" in found.ignored


def test_untrusted_record_switches_tools_off_and_not_on(subtests: pytest.Subtests) -> None:
    mine: Any = {"source": "python", "enable": {"state": False}}
    for enable in (True, "on", "always", {"state": True}):
        with subtests.test(enable=enable):
            value: Any = {"enable": enable, "style": {"hidden": True}}
            found = RecordedSettings(
                new_stream(delta({"conversation": {"tools": {"rm": value}}})),
                {"conversation": {"tools": {"rm": mine}}},
                trusted=False,
            )
            tool = found.config().conversation.tools["rm"]
            assert tool.enable is not None
            assert (tool.enable.state, tool.style.hidden) == (False, None)
            assert found.ignored
    off = delta({"conversation": {"tools": {"rm": {"enable": False}}}})
    known: dict[str, Any] = {"conversation": {"tools": {"rm": {"source": "python"}}}}
    tool = RecordedSettings(new_stream(off), known, trusted=False).config().conversation.tools["rm"]
    assert tool.enable is not None
    assert tool.enable.state is False


def test_invalid_path_unsets_nothing_and_is_reported(subtests: pytest.Subtests) -> None:
    for path in ("a..b", "[" * 3000, "template.values" + "[" * 3000, "x" * 100_000):
        with subtests.test(path=path[:20]):
            unsets = {"type": "config_delta", "timestamp": T, "unsets": [path, "user.name"]}
            base: Any = {"base": {"user": {"name": "A"}}, "init": [{"unsets": [path]}]}
            began = RecordedSettings(new_stream(base_config=base), trusted=False)
            assert began.config().user.name == "A"
            assert path in began.problems or len(path) > 10_000
            found = RecordedSettings(new_stream(unsets, base_config=base), trusted=False)
            assert found.config().user.name is None
            assert path in found.problems or len(path) > 10_000


def test_work_for_an_untrusted_record_is_bounded() -> None:
    words = [delta(with_words([str(i)])) for i in range(700)]
    stream = new_stream(START, *words)
    found = RecordedSettings(stream, trusted=False)
    followed = len(stop_words(found))
    assert 300 < followed < 700
    said = f"ignored from events[{followed + 1}] on"
    assert [said in path for path in found.ignored] == [True]
    assert stop_words(found) == [str(i) for i in range(followed)]
    assert len(stop_words(RecordedSettings(stream, trusted=True))) == 700
    stream.append(new_event("config_delta", delta={"user": {"name": "A"}}))  # by this process
    assert found.config().user.name == "A"
    assert [_read_again(found) for _ in range(2)] == [_read_again(found)] * 2


def _read_again(found: RecordedSettings) -> tuple[int, int, list[str]]:
    """Return the numbers of steps and providers, and the ignored paths."""
    return found.count_steps(), len(found.providers()), list(found.ignored)


def test_work_for_the_initial_changes_of_a_record_is_bounded() -> None:
    names = [{"delta": {"user": {"name": str(i)}}} for i in range(15_000)]
    base: Any = {"base": {}, "init": names}
    found = RecordedSettings(new_stream(base_config=base), trusted=False)
    name = found.config().user.name
    assert name is not None
    assert 5_000 < int(name) < 14_999
    assert list(found.problems) == [f"base_config.init[{int(name) + 1}]"]

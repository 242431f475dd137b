from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, kind_of, make
from tests.kit.models import model_event
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.providers.helpers import (
    answer,
    ask,
    called,
    collect,
    collect_failure,
    make_context,
    result,
    text_of,
    thought,
    user,
)

INQUIRY_KEY = "inquiry"
POSITION_KEY = "scripted_reply"


TOML = """
[[replies]]
text = "Let me look."
tool_calls = [{ name = "weather", arguments = { city = "Delft" } }, { name = "today" }]

[[replies]]
expect = "sunny"
reasoning = "Good."
text = "It will be sunny."

[[replies]]
expect = ["sunny", "rain"]
data = { rain = false }
usage = { input_tokens = 3 }

[inquiries]
"rename.confirm" = true
"""


ProviderOf = Callable[[str | Sequence[Mapping[str, Any] | str]], Any]


@pytest.fixture
def provider_of(tmp_path: Path) -> ProviderOf:
    """A function that returns the provider of a script, in TOML or as its replies."""

    def open_script(script: str | Sequence[Mapping[str, Any] | str]) -> Any:
        if not isinstance(script, str):
            replies = [{"text": reply} if isinstance(reply, str) else reply for reply in script]
            script = f"replies = {to_toml(replies)}"
        (tmp_path / "test-model.toml").write_text(script, encoding="utf-8")
        return new_provider("scripted", {"folders": [str(tmp_path)]})

    return open_script


def to_toml(value: Any) -> str:
    """Return `value` in TOML, in one line."""
    if isinstance(value, Mapping):
        items = [f"{key} = {to_toml(item)}" for key, item in value.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    return json.dumps(value)


def add(context: Any, events: list[Any]) -> None:
    """Store the response `events` as the turn loop does: one entry for each completed item."""
    metadata = {event.index: event.metadata for event in events if is_kind(event, "flush")}
    for event in events:
        if is_kind(event, "call_start"):
            entry = called(event.id, event.name)
        elif is_kind(event, "text"):
            entry = answer(event.text)
        else:
            continue
        entry = entry.model_copy(update={"metadata": dict(metadata.get(event.index, {}))})
        context.add(entry, "scripted")


async def test_replies_come_in_order_and_are_the_same_every_time(provider_of: ProviderOf) -> None:
    for _ in range(2):
        provider = provider_of(TOML)
        first = await collect(provider, ask())
        mark = {POSITION_KEY: "test-model:1"}
        assert first == [
            model_event("text", 0, "message", "Let "),
            model_event("text", 0, "message", "me l"),
            model_event("text", 0, "message", "ook."),
            model_event("flush", 0, mark),
            model_event("call_start", 1, "call_1_1", "weather"),
            model_event("call_arguments", 1, '{"city": "Delft"}'),
            model_event("flush", 1, mark),
            model_event("call_start", 2, "call_1_2", "today"),
            model_event("call_arguments", 2, "{}"),
            model_event("flush", 2, mark),
            model_event("finished"),
        ]
        request = ask(user("a"), called("c1"), result("c1", "sunny, no rain"))
        second = await collect(provider, request)
        assert (text_of(second, "reasoning"), text_of(second)) == ("Good.", "It will be sunny.")
        third = await collect(provider, request)
        assert text_of(third, "structured") == '{"rain": false}'
        assert third[-2:] == [model_event("usage", input_tokens=3), model_event("finished")]


async def test_failed_expectation_shows_text_and_request(provider_of: ProviderOf) -> None:
    provider = provider_of([{"expect": "sunny", "text": "x"}])
    _, error = await collect_failure(
        provider, ask(user("a"), called("c1"), result("c1", "It rains."))
    )
    assert "'sunny'" in str(error)
    assert "It rains." in str(error)
    assert not error.retryable


async def test_expectations_are_searched_in_system_text_and_thread(provider_of: ProviderOf) -> None:
    reply = {"expect": ["Be brief", "first question", '"city": "Delft"', "Hm."], "text": "ok"}
    provider = provider_of([reply])
    request = ask(
        user("first question"), thought("Hm."), called("c1", city="Delft"), result("c1", "x"),
        system=("Be brief.",),
    )  # fmt: skip
    assert text_of(await collect(provider, request)) == "ok"


async def test_expectations_are_searched_in_attachments_but_not_in_binaries(
    provider_of: ProviderOf,
) -> None:
    attachments = (
        make("attachment", "notes.md", "text/plain", "Bring an umbrella."),
        make("attachment", "pic.png", "image/png", b"PNG bytes"),
    )
    reply = {"expect": ["notes.md", "an umbrella", "pic.png"], "text": "ok"}
    provider = provider_of([reply, {"expect": "PNG bytes", "text": "x"}])
    assert text_of(await collect(provider, ask(attachments=attachments))) == "ok"
    _, error = await collect_failure(provider, ask(attachments=attachments))
    assert "expects 'PNG bytes' in the request" in str(error)


async def test_script_without_further_reply_is_an_error(provider_of: ProviderOf) -> None:
    provider = provider_of(["only"])
    await collect(provider, ask())
    _, error = await collect_failure(provider, ask(user("And now?")))
    assert "no reply left (of 1)" in str(error)
    assert "And now?" in str(error)


async def test_conversation_continues_in_another_kernel(provider_of: ProviderOf) -> None:
    script = (
        '[[replies]]\ntext="one"\n[[replies]]\nerror={status=529}\n[[replies]]\ntext="two"\n'
        '[[replies]]\ntool_calls=[{name="f"}]\n[[replies]]\ntext="five"'
    )
    context = make_context(user("a"), provider="scripted")
    said_so_far = []
    for _ in range(4):
        provider = provider_of(script)  # as if the kernel had just started
        request = make("model_request", "test-model", context)
        try:
            events = await collect(provider, request)
        except jp.ProviderError:
            events = await collect(provider, request)  # the same kernel tries again
        add(context, events)
        context.add(result("call_4_1", "r"), "scripted")
        said_so_far.append([e.text for e in events if is_kind(e, "text")])
    assert ["".join(pieces) for pieces in said_so_far] == ["one", "two", "", "five"]


async def test_position_in_a_thread(provider_of: ProviderOf) -> None:
    context = make_context(user("a"), provider="scripted")
    replies = [str(number) for number in range(10)]

    async def count_used_replies() -> int:
        provider = provider_of(replies)  # as if the kernel had just started
        request = make("model_request", "test-model", context)
        return int(text_of(await collect(provider, request)))

    assert await count_used_replies() == 0
    context.add(answer("interrupted"), "scripted")
    assert await count_used_replies() == 1
    context.add(user("b"), "scripted")
    context.add(answer("by another provider"), "anthropic")
    assert await count_used_replies() == 1
    context.add(user("c"), "scripted")
    context.add(answer("x", **{POSITION_KEY: "test-model:5"}), "scripted")
    context.add(user("d"), "scripted")
    context.add(answer("x", **{POSITION_KEY: "other:9"}), "scripted")
    assert await count_used_replies() == 5


async def test_conversations_have_positions_of_their_own(provider_of: ProviderOf) -> None:
    provider = provider_of(["one", "two"])
    for conversation in ("a", "b"):
        request = ask(conversation_id=conversation)
        assert text_of(await collect(provider, request)) == "one"


async def test_errors_are_classified_as_those_of_a_server(provider_of: ProviderOf) -> None:
    provider = provider_of(
        [
            {"error": {"status": 529, "retry_after": 1}},
            {"error": {"status": 429, "message": "insufficient_quota"}},
            {"text": "Half an", "error": {"status": 503}},
            "Whole.",
        ]
    )
    _, error = await collect_failure(provider, ask())
    assert (error.kind, error.status, error.retry_after) == ("transient", 529, 1.0)
    _, error = await collect_failure(provider, ask())
    assert (error.kind, error.retryable) == ("quota", False)
    seen, error = await collect_failure(provider, ask())
    assert (text_of(seen), error.kind) == ("Half an", "transient")
    assert not any(is_kind(event, "flush") for event in seen)
    assert text_of(await collect(provider, ask())) == "Whole."


async def test_text_comes_word_by_word_with_pauses(
    provider_of: ProviderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    text = "  Every word,\n  in turn. "
    provider = provider_of([{"text": text, "chunk_ms": 10}])
    seen = await collect(provider, ask())
    assert pauses == [0.01] * 5
    assert text_of(seen) == text
    assert sum(is_kind(event, "text") for event in seen) == 5


def test_malformed_script_is_refused_with_file_and_place(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    rows: list[tuple[str, str]] = [
        ("[[replies]]\ntext = 3", r"replies\[0\]\.text"),
        ('[[replies]]\ntxt = "a"', r"replies\[0\]\.txt: unknown key; did you mean `text`"),
        ("[[replies]]\nchunk_ms = 3", r"replies\[0\]: needs one of `text`"),
        ('[[replies]]\ntool_calls = [{nam = "x"}]', r"replies\[0\]\.tool_calls\[0\]"),
        ("[[replies]]\nerror = {status = 200}", r"replies\[0\]\.error\.status"),
        (
            "[[replies]]\nerror = {status = 500, retry_aftr = 1}",
            r"error\.retry_aftr: unknown key; did you mean `retry_after`",
        ),
        ("[[replies", "not TOML"),
    ]
    for toml, message in rows:
        with subtests.test(toml=toml, message=message):
            file = tmp_path / "broken.toml"
            file.write_text(toml)
            provider = new_provider("scripted", {"folders": [str(tmp_path)]})
            with pytest.raises(jp.ConfigError, match=message) as caught:
                provider.check_ready("broken", "Hello!")
            assert str(file) in str(caught.value)


async def test_scripts_are_searched_in_order(tmp_path: Path) -> None:
    beside = tmp_path / "notebooks"
    (beside / "scripts").mkdir(parents=True)
    provider = new_provider("scripted", {"folders": [str(beside)]})

    async def reply(conversation: str) -> str:
        request = ask(
            user("Hello! Who answers here?"), model="welcome", conversation_id=conversation
        )
        return text_of(await collect(provider, request))

    assert "I am a **script**" in await reply("of the package")
    for file in (beside / "scripts" / "welcome.toml", beside / "welcome.toml"):
        file.write_text(f'[[replies]]\ntext = "{file}"\n')
        assert await reply(str(file)) == str(file)

    missing = r"script b\.toml not found in .*; available: .*welcome"
    with pytest.raises(jp.ConfigError, match=missing):
        provider.check_ready("b", "Hello!")


async def test_file_that_cannot_be_read_does_not_end_the_search(tmp_path: Path) -> None:
    first = tmp_path / "first"
    second = tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "mine.toml").write_text('[[replies]]\ntext = "Hello."\n')
    os.truncate(first / "mine.toml", 20_000_000)

    provider = new_provider("scripted", {"folders": [str(first), str(second)]})
    assert text_of(await collect(provider, ask(model="mine"))) == "Hello."

    (second / "mine.toml").unlink()
    with pytest.raises(jp.ConfigError, match=r"cannot read the script: .*first/mine\.toml"):
        await collect(provider, ask(model="mine"))


async def test_place_that_cannot_be_searched_does_not_hide_the_others(tmp_path: Path) -> None:
    no_folder = tmp_path / "notes.txt"
    no_folder.write_text("")
    provider = new_provider("scripted", {"folders": [str(no_folder), str(tmp_path / ("x" * 300))]})
    assert "welcome" in [model.id for model in (await provider.models(seconds=1)).models]
    provider.check_ready("welcome", "Hello! Who answers here?")

    with pytest.raises(jp.ConfigError, match=r"cannot read the script: .*too long"):
        provider.check_ready("x" * 300, "Hello!")


def test_script_name_is_no_path(subtests: pytest.Subtests) -> None:
    provider = new_provider("scripted")
    for name in ["", "../a", "a/b", "a\\b", "/etc/passwd", ".hidden"]:
        with subtests.test(name=name), pytest.raises(jp.ConfigError, match="not a script name"):
            provider.check_ready(name, "Hello!")


async def test_script_is_named_by_the_model_and_read_again_after_edits(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[replies]]\ntext = "old"\n[inquiries]\n"a.b" = "c"')
    provider = new_provider("scripted", {"folders": [str(tmp_path)]})
    assert text_of(await collect(provider, ask(model="mine"))) == "old"
    asked = make_question_request("a.b", model="mine")
    assert json.loads(text_of(await collect(provider, asked), "structured"))["answer"] == "c"
    file.write_text('[[replies]]\ntext = "old"\n[[replies]]\ntext = "new"')
    assert text_of(await collect(provider, ask(model="mine"))) == "new"


async def test_script_that_breaks_between_two_requests_is_named_in_the_error(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    provider = new_provider("scripted", {"folders": [str(tmp_path)]})
    file = tmp_path / "mine.toml"

    for content, message in ((b"[[replies", "not TOML"), (b"\xff", "utf-8"), (None, "not found")):
        with subtests.test(message=message):
            file.unlink(missing_ok=True)
            if content is not None:
                file.write_bytes(content)

            with pytest.raises(jp.ConfigError, match=message) as caught:
                await collect(provider, ask(model="mine"))
            assert "mine.toml" in str(caught.value)


async def test_requests_are_not_kept(provider_of: ProviderOf) -> None:
    provider = provider_of(["Hello."])
    last = user("Hi.")
    await collect(provider, ask(last))

    seen = weakref.ref(last)
    del last
    gc.collect()
    assert seen() is None


def test_scripted_provider_does_not_import_httpx() -> None:
    code = (
        "import sys; from jp_nb.providers import create_provider\n"
        "from jp_nb.providers.scripts import scripted\n"
        "create_provider('scripted'); sys.exit('httpx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_reply_is_skipped_unless_the_latest_entries_hold_its_when(
    provider_of: ProviderOf,
) -> None:
    for choice, text in [("red", "Red."), ("blue", "Blue."), ("no", "None.")]:
        provider = provider_of(
            [
                {"text": "Which colour?"},
                {"when": "red", "text": "Red."},
                {"when": ["blue"], "text": "Blue."},
                {"text": "None."},
            ]
        )
        await collect(provider, ask(user("red, blue?")))
        request = ask(user("red, blue?"), answer("Which colour?"), user(choice))
        assert text_of(await collect(provider, request)) == text


# --- questions of tools ------------------------------------------------------------------------


def make_question_request(key: str = "rename.confirm", model: str = "test-model") -> Any:
    """Return a request that ends with a tool's question."""
    question = new_event("chat_request", content="Sure?", metadata={INQUIRY_KEY: key})
    schema = {"properties": {"inquiry_id": {"type": "string", "const": "id-1"}}}
    entries = (user("a"), called("c1"), result("c1", "Tool paused"), question)
    return ask(*entries, schema=schema, model=model)


async def test_question_of_a_tool_is_answered_and_uses_no_reply(provider_of: ProviderOf) -> None:
    provider = provider_of(TOML)
    await collect(provider, ask())
    for _ in range(2):
        seen = await collect(provider, make_question_request())
        assert json.loads(text_of(seen, "structured")) == {"inquiry_id": "id-1", "answer": True}
        assert [kind_of(each) for each in seen] == ["text", "flush", "finished"]
    request = ask(user("a"), called("c1"), result("c1", "sunny"))
    assert text_of(await collect(provider, request)) == "It will be sunny."


async def test_unknown_question_is_an_error_that_lists_the_known_ones(
    provider_of: ProviderOf,
) -> None:
    _, error = await collect_failure(provider_of(TOML), make_question_request("rename.other"))
    for part in ("'test-model'", "'rename.other'", "'rename.confirm'"):
        assert part in str(error)
    assert not error.retryable
    _, error = await collect_failure(provider_of(["x"]), make_question_request())
    assert "have none" in str(error)


async def test_only_a_thread_that_ends_in_the_question_asks_it(provider_of: ProviderOf) -> None:
    provider = provider_of(["One.", "Provenance."])
    context = make_question_request().context
    context.add(answer("x"), "scripted")
    assert (
        text_of(await collect(provider, make("model_request", "test-model", context)))
        == "Provenance."
    )

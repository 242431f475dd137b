"""Requests that are reconstructed from the record equal the bytes that the server received."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import directive, find_request
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.sessions import Notebook

PLACEHOLDER = "(your next request)"


KEY = "k-0123456789abcdef0123"
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    + (640).to_bytes(4, "big")
    + (480).to_bytes(4, "big")
    + b"\x08\2"
)
CALL = Reply(text="Looking.", tool_calls=(ToolCall("weather", {"city": "Delft"}),))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def tools() -> Iterator[None]:
    @jp.tool
    def weather(city: str) -> jp.Success:
        """The weather of a city."""
        return jp.Success(f"sun in {city}", images=(jp.Image("image/png", PNG, "the sky"),))

    yield
    jp.remove_tool("weather")


def notebook_at(
    server: LoopbackServer, folder: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> Notebook:
    monkeypatch.setenv("PAST_KEY", KEY)
    (folder / ".jp" / "config.toml").write_text(
        f'[assistant.model]\nid = "{provider}/model-a"\n'
        f'[providers.llm.{provider}]\nbase_url = "{server.url}"\napi_key_env = "PAST_KEY"\n'
    )
    return Notebook(folder)


def request_body(notebook: Notebook, name: str | None = None) -> bytes:
    body: bytes = find_request(notebook.session, name)["body"]
    return body


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_past_requests_equal_the_received_bytes(
    provider: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tools: None
) -> None:
    (folder / "notes.md").write_text("Notes < of & a trip")
    replies: list[Reply | str] = [
        "One.",
        CALL,
        CALL,
        "Sun.",
        CALL,
        "Sun again.",
        "No tool.",
        '{"n": 1}',
        "Last.",
    ]
    with LoopbackServer(replies) as server:
        notebook = notebook_at(server, folder, monkeypatch, provider)
        notebook.ask("First.")
        notebook.ask("With tools.", directive("attach", "notes.md"))
        notebook.ask("Forced.", tool_choice="tool:weather")
        notebook.ask("Forbidden.", directive("cfg", "assistant.name=Bo"), tool_choice="none")
        notebook.ask("Data.", schema=SCHEMA)
        notebook.ask("Last.", model=f"{provider}/model-b")
        names = ["1.1", "2.1", "2.2", "2.3", "3.1", "3.2", "4.1", "5.1", "6.1"]
        arrived = [received.raw for received in server.requests]
        assert [request_body(notebook, name) for name in names] == arrived
        assert [find_request(notebook.session, name)["remarks"][0] for name in names] == [
            *["reconstructed request"] * 8,
            "exact request",
        ]
        assert request_body(notebook) == request_body(notebook, "6") == arrived[-1]
        assert request_body(notebook, "2") == arrived[3]
        notebook.jp("undo")  # the entries are copies, without links to sent requests
        assert [request_body(notebook, name) for name in names[:-1]] == arrived[:-1]
        assert find_request(notebook.session)["remarks"][0] == "reconstructed request"
        notebook.session.close()


def test_next_request_has_a_placeholder_for_the_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer(["One.", "Two."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "llamacpp")
        first = json.loads(request_body(notebook))
        arrived = server.requests
        assert first["messages"][-1] == {"role": "user", "content": PLACEHOLDER}
        assert find_request(notebook.session)["name"] == "next"
        assert not arrived
        notebook.ask(PLACEHOLDER)
        assert json.loads(arrived[0].raw) == first
        following = request_body(notebook, "next")
        notebook.ask(PLACEHOLDER)
        assert arrived[1].raw == following
        notebook.session.close()


def test_failed_request_is_shown_and_omitted_from_later_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Reply(status=400, message="no")
    with LoopbackServer(["One.", refused, "Three.", "Four."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "llamacpp")
        notebook.ask("First.")
        with pytest.raises(jp.ProviderError):
            notebook.ask("Wrong.", directive("cfg", "assistant.name=Bo"))
        assert request_body(notebook) == server.requests[1].raw
        notebook.ask("Third.")
        assert request_body(notebook, "2") == server.requests[1].raw
        assert find_request(notebook.session, "2")["remarks"][0] == "reconstructed request"
        assert request_body(notebook, "3") == server.requests[2].raw
        assert b"Wrong." not in request_body(notebook, "3")
        notebook.session.close()


def test_failed_request_after_tools_is_known_in_the_same_kernel(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tools: None
) -> None:
    with LoopbackServer([CALL, Reply(status=400, message="no"), "Then."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "openai")
        with pytest.raises(jp.ProviderError):
            notebook.ask("First.")
        found = find_request(notebook.session)
        assert (found["name"], found["body"]) == ("1.2", server.requests[1].raw)
        notebook.session.close()


def test_continued_answer_has_two_requests(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tools: None
) -> None:
    cut = Reply(text="The first half of it,", finish="max_tokens")
    with LoopbackServer([cut, " and the second.", "Next."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "anthropic")
        notebook.ask("First.", tool_choice="none")
        notebook.ask("Second.")
        arrived = [received.raw for received in server.requests]
        choices = [received.body["tool_choice"]["type"] for received in server.requests]
        assert choices == ["none", "none", "auto"]
        assert [request_body(notebook, name) for name in ("1.1", "1.2", "2.1")] == arrived
        notebook.session.close()


def test_reasoning_is_sent_back_to_its_provider(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tools: None
) -> None:
    thinks = Reply(reasoning="Hm.", text="One.")
    with LoopbackServer([thinks, "Two.", "Three."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "anthropic")
        openai = directive("cfg", f"providers.llm.openai.base_url={server.url}")
        notebook.ask("First.")
        notebook.ask("Second.")
        notebook.ask("Third.", openai, model="openai/x")
        notebook.jp("undo")
        assert b'"signature"' in request_body(notebook, "2")
        arrived = [received.raw for received in server.requests]
        assert [request_body(notebook, name) for name in ("1", "2")] == arrived[:2]
        notebook.session.close()


def test_configuration_change_by_a_tool_affects_the_next_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ("assistant.system_prompt", "assistant.tool_choice")

    @jp.tool(access=[jp.ConfigRule(path, write=True, apply="unattended") for path in paths])
    def switch() -> jp.Success:
        """Switch."""
        changed = {"system_prompt": "Be Bo.", "tool_choice": "none"}
        return jp.Success("Done.", config={"assistant": changed})

    calls = Reply(tool_calls=(ToolCall("switch", {}),))
    try:
        with LoopbackServer([calls, "One.", "Two."]) as server:
            notebook = notebook_at(server, folder, monkeypatch, "openai")
            notebook.ask("First.", directive("cfg", "assistant.tool_choice=required"))
            notebook.ask("Second.")
            choices = [received.body["tool_choice"] for received in server.requests]
            assert choices == ["required", "none", "none"]
            arrived = [received.raw for received in server.requests]
            assert b"Be Bo." not in arrived[0]
            assert b"Be Bo." in arrived[1]
            assert [request_body(notebook, name) for name in ("1.1", "1.2", "2.1")] == arrived
            notebook.session.close()
    finally:
        jp.remove_tool("switch")


def test_missing_attachment_of_a_past_request_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "notes.md").write_text("Notes")
    with LoopbackServer(["One.", "Two."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "openai")
        notebook.ask("First.", directive("attach", "notes.md"))
        notebook.ask("Second.")
        (folder / "notes.md").unlink()
        shown = notebook.jp("request 1")
        assert "without attachments" in shown
        assert "First." in shown
        assert b"Notes" not in request_body(notebook, "1")
        assert request_body(notebook, "2") == server.requests[1].raw  # known from the send
        notebook.session.close()


def test_unknown_request_is_an_error(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[str] = ["0", "0.1", "2", "1.2", "x", "-1", "1.0", "1.1.1", "9" * 50]
    for name in rows:
        with subtests.test(name=name):
            notebook = Notebook(folder)
            notebook.ask("First.")
            with pytest.raises(jp.UsageError, match=r"no request .*and its last request is 1\.1"):
                find_request(notebook.session, name)


HOSTILE = "$(touch pwned) `touch pwned` 'q' \"d\" \\ \u202e\nEND_OF_BODY\n!! \x1b[2J é ☀ %0a"


def test_curl_command_sends_the_same_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackServer(["One.", "Again."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "anthropic")
        notebook.ask(HOSTILE)
        capsys.readouterr()
        notebook.jp("request --curl")
        command = capsys.readouterr().out
        assert KEY not in command
        assert '$PAST_KEY"' in command
        assert not {"\x1b", "\u202e"} & set(command)
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, cwd=folder, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "Again." in done.stdout
        first, second = server.requests
        assert (second.path, second.body) == (first.path, first.body)
        for header in ("authorization", "x-api-key", "anthropic-version", "accept", "user-agent"):
            assert second.headers.get(header) == first.headers.get(header)
        assert not (folder / "pwned").exists()
        notebook.session.close()


def test_scripted_model_has_no_curl_command(folder: Path) -> None:
    with pytest.raises(jp.UsageError, match="is sent to the script talk, not over HTTP"):
        Notebook(folder).jp("request --curl")


def test_invalid_variable_name_is_not_used_in_a_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook(folder)
    notebook.jp("config assistant.model.id=openai/x")
    refused = "api_key_env: expected the name of an environment variable"
    for name in ('A"; touch pwned; "', "$(touch pwned)", "A-B", "1A", ""):
        with pytest.raises(jp.ConfigError, match=refused):
            notebook.session.configure(directive("cfg", f"providers.llm.openai.api_key_env={name}"))

    openai = notebook.session.config.providers.llm.openai
    monkeypatch.setitem(openai.__dict__, "api_key_env", 'A"; touch pwned; "')  # without a check
    with pytest.raises(jp.ConfigError, match=refused):
        notebook.jp("request --curl")


def test_json_and_dict_equal_the_sent_body(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackServer(["One."]) as server:
        notebook = notebook_at(server, folder, monkeypatch, "openai")
        notebook.ask(f"My key is {KEY}, {HOSTILE}")
        capsys.readouterr()
        notebook.jp("request --json")
        printed = capsys.readouterr().out
        sent: Any = server.requests[0].body
        sent["messages"][-1]["content"] = f"My key is [key], {HOSTILE}"
        assert json.loads(printed) == sent
        notebook.jp("request -o found")
        found = notebook.session.host.namespace["found"]
        assert found["body"] == sent
        assert found["url"] == f"{server.url}/v1/chat/completions"
        assert found["how"] == "exact request"
        assert KEY not in repr(found)
        shown = notebook.jp("request") + notebook.jp("request --full")
        assert KEY not in shown
        assert "[key]" in shown
        assert "authorization: Bearer (the variable PAST_KEY)" in shown
        notebook.session.close()


def test_conflicting_options_are_refused(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "--curl --json", "--diff --curl", "0 1", "--diff 0 1 2", "-o 'a b'", "-o if", "--json -o x",
    ]  # fmt: skip
    for line in rows:
        with subtests.test(line=line), pytest.raises(jp.UsageError):
            Notebook(folder).jp(f"request {line}")


def test_very_long_body_is_not_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = Notebook(folder)
    notebook.ask("x" * 300_000)
    with pytest.raises(
        jp.UsageError, match=r"too long to print here .* `%jp request 1\.1 -o NAME`"
    ):
        notebook.jp("request --json")
    capsys.readouterr()
    notebook.jp("request --json --full")
    assert len(capsys.readouterr().out) > 300_000
    assert len(notebook.jp("request")) < 20_000


def test_secret_in_an_address_is_not_in_a_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAST_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/[a]?token=s3cr3t&b='$(id)'")
    notebook = Notebook(folder)
    notebook.session.configure(
        directive("cfg", "providers.llm.openai.api_key_env=PAST_KEY"), model="openai/x"
    )
    capsys.readouterr()
    notebook.jp("request --curl")
    printed = capsys.readouterr().out
    comment, *lines = printed.splitlines()
    assert "s3cr3t" not in printed
    assert comment.startswith("# Secrets were replaced by placeholders")
    words = shlex.split(" ".join(line.removesuffix("\\") for line in lines[:-2]))
    address = "http://h/[a]?token=(set, not shown)&b='$(id)'"
    assert words[:5] == ["curl", "-gsSN", "-X", "POST", address + "/v1/chat/completions"]

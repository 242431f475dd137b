"""Tests of command tools and formatters with real processes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.toolkit.command_tools import processes
from tests.kit.kinds import is_kind, make
from tests.kit.tools import configured, new_tool, offer_now
from tests.support.fakes import InlineCell, for_tool, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sh, signals and process groups")


@pytest.fixture(scope="module", autouse=True)
def guard_runs_and_garbage_is_collected() -> None:
    """Start what the first command of a kernel starts, and collect the garbage of earlier tests.

    The guard lives as long as its kernel, and ends the commands that a killed kernel leaves behind.
    The rest of the garbage is frozen, so that a collection for each test is quick.
    """
    asyncio.run(text_of("true"))
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_process_or_pipe_remains(guard_runs_and_garbage_is_collected: None) -> Iterator[None]:
    """Check that a test leaves no child process, zombie, or open pipe."""
    gc.collect()
    children = child_processes()
    files = len(os.listdir("/dev/fd"))
    yield
    gc.collect()
    left = {pid: command for pid, command in child_processes().items() if pid not in children}
    assert left == {}
    assert len(os.listdir("/dev/fd")) <= files


def child_processes() -> dict[int, str]:
    """Return state and command of the children of this process, also of zombies, by their ids."""
    columns = ["ps", "-A", "-o", "pid=,ppid=,stat=,args="]
    found = {}

    with subprocess.Popen(columns, stdout=subprocess.PIPE, text=True) as ps:
        assert ps.stdout is not None
        for row in ps.stdout:
            pid, parent, command = row.split(maxsplit=2)
            if int(parent) == os.getpid() and int(pid) != ps.pid:
                found[int(pid)] = command.strip()

    return found


def tool_of(command: Any, *, source: str = "local") -> Any:
    settings = {"source": source} | ({} if command is None else {"command": command})
    return new_tool(settings)


def python(code: str, *args: str, folder: Path) -> dict[str, Any]:
    """Return a command that runs `code`."""
    script = folder / "tool.py"
    script.write_text(code, encoding="utf-8")
    return {"program": sys.executable, "args": [str(script), *args]}


def shell(code: str) -> dict[str, Any]:
    return {"program": code, "shell": True}


async def run(
    command: Any,
    arguments: dict[str, JsonValue] | None = None,
    *,
    source: str = "local",
    **context: Any,
) -> jp.Outcome:
    async with asyncio.timeout(60):
        tool = tool_of(command, source=source)
        told = jp.ToolContext(name="t", **context)
        outcome: jp.Outcome = await tool.run(arguments or {}, told, InlineCell())
        return outcome


async def text_of(command: Any, arguments: Any = None, **context: Any) -> str:
    outcome = await run(command, arguments, **context)
    assert isinstance(outcome, jp.Success), outcome
    return outcome.content


async def failure_of(command: Any, arguments: Any = None, **context: Any) -> Any:
    """Return the message of a failure that has nothing else."""
    outcome = await run(command, arguments, **context)
    assert is_kind(outcome, "failure"), outcome
    assert outcome == make("failure", outcome.message)
    return outcome.message


def is_gone(pid: int) -> bool:
    """Return True if the process ended. It may be a zombie."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return not done.stdout.strip() or done.stdout.strip().startswith("Z")


# --- input ------------------------------------------------------------------


async def test_first_run_gets_the_document_on_stdin(tmp_path: Path) -> None:
    root = str(tmp_path)
    text = await text_of(
        "cat", {"b": "é", "a": [1, None]}, root=root, conversation_id="jp-c1", call_id="call_1"
    )
    about = (
        f'"root":{json.dumps(root)},"action":"run","access":null,"workspace_id":"",'
        '"conversation_id":"jp-c1"'
    )
    tool = '"name":"t","arguments":{"b":"é","a":[1,null]},"answers":{},"options":{}'
    assert text == f'{{"tool":{{{tool}}},"context":{{{about}}}}}\n'


async def test_later_run_gets_answers_access_configuration_and_rejection() -> None:
    access: dict[str, JsonValue] = {"fs": [], "net": [], "env": [], "config": [{"path": "a"}]}
    document = json.loads(
        await text_of(
            "cat",
            answers={"sure": True, "who": "Bo"},
            options={"limit": 3},
            access=access,
            config={"assistant": {"name": "JP"}},
            delta_rejection=make(
                "delta_rejection", "user_rejected", ("assistant.name",), "declined"
            ),
        )
    )
    assert document["tool"]["answers"] == {"sure": True, "who": "Bo"}
    assert document["tool"]["options"] == {"limit": 3}
    about = document["context"]
    assert list(about)[-4:] == ["workspace_id", "conversation_id", "config", "delta_rejection"]
    assert (about["access"], about["workspace_id"]) == (access, "")
    assert about["config"] == {"assistant": {"name": "JP"}}
    assert about["delta_rejection"] == {
        "reason": "user_rejected",
        "fields": ["assistant.name"],
        "detail": "declined",
    }


async def test_empty_readable_configuration_is_in_the_document() -> None:
    assert json.loads(await text_of("cat", config={}))["context"]["config"] == {}


async def test_process_gets_the_name_in_the_source(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [("local", "t"), ("local.other", "other")]
    for source, name in rows:
        with subtests.test(source=source):
            command = {"program": "sh", "args": ["-c", "cat; printf %s $0", "{{tool.name}}"]}
            text = await text_of(command, source=source)
            document, rendered = text.splitlines()
            assert (json.loads(document)["tool"]["name"], rendered) == (name, name)


async def test_each_word_of_a_command_is_a_template_and_stays_one_word() -> None:
    command = {
        "program": "{{ tool.options.with }}",
        "args": ["%s|", "{{tool.arguments.text}}", "{{ tool.arguments }}", "{{ nothing }}", "a b"],
    }
    text = await text_of(command, {"text": 'two "words"'}, options={"with": "printf"})
    assert text == 'two "words"|{"text":"two \\"words\\""}|null|a b|'


async def test_command_text_is_split_before_templates_are_rendered() -> None:
    text = await text_of("printf '%s|' {{tool.arguments.text}} 'a b'", {"text": "x y"})
    assert text == "x y|a b|"


async def test_shell_command_gets_quoted_arguments() -> None:
    command = {
        "program": "X=1; printf '%s|' \"$X\"",
        "args": ["{{tool.arguments.text}}", "$X", "a b"],
        "shell": True,
    }
    text = await text_of(command, {"text": "'; echo $(echo hacked) `id` #"})
    assert text == "1|'; echo $(echo hacked) `id` #|$X|a b|"


async def test_command_runs_in_the_workspace_in_its_own_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_TEST", "inherited")
    root = tmp_path / "work space"
    root.mkdir()
    code = (
        "import os\nprint(os.getcwd(), os.environ['JP_NB_TEST'], os.getpgrp() == os.getpid(), "
        "sep='\\n')"
    )
    text = await text_of(python(code, folder=tmp_path), root=str(root))
    assert text.splitlines() == [str(root.resolve()), "inherited", "True"]


async def test_relative_program_is_found_in_the_workspace(tmp_path: Path) -> None:
    script = tmp_path / "tool.sh"
    script.write_text("#!/bin/sh\necho found\n", encoding="utf-8")
    script.chmod(0o755)
    assert await text_of("./tool.sh", root=str(tmp_path)) == "found\n"


async def test_lone_surrogate_in_an_argument_is_replaced() -> None:
    document = json.loads(await text_of("cat", {"a": "x\ud83dy"}))
    assert document["tool"]["arguments"] == {"a": "x?y"}


# --- outcomes -------------------------------------------------------------------------


async def test_exit_status_decides_for_text_and_not_for_an_outcome(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, int, jp.Outcome]] = [
        ("sunny\n", 0, jp.Success("sunny\n")),
        ("", 0, jp.Success("")),
        ('{"sky": "blue"}', 0, jp.Success('{"sky": "blue"}')),
        ('{"type":"success","content":"done"}\n', 0, jp.Success("done")),
        ('{"type":"success","content":"done"}', 3, jp.Success("done")),
        ('{"type":"success","content":"x","unset":["user.name"]}', 0,
         jp.Success("x", unset=("user.name",))),
        ('{"type":"error","message":"m","trace":["t"],"transient":true}', 0,
         make("failure", '{"message":"m","trace":["t"]}')),
        ('{"type":"error","message":"m", "trace":["t"]}\n', 1,
         make("failure", '{"type":"error","message":"m", "trace":["t"]}\n')),
        ('{"type":"error","message":"m"}', 0, make("failure", '{"type":"error","message":"m"}')),
        ("broken\n", 2,
         make("failure", "Tool 't' failed with exit status 2: no é\n\nstdout:\nbroken")),
        ('{"type":"needs_input","question":{"id":"q","text":"Why?","answer_type":"Text"}}', 1,
         jp.NeedsInput(jp.Question.text("q", "Why?"))),
    ]  # fmt: skip
    for printed, code, outcome in rows:
        with subtests.test(printed=printed):
            (tmp_path / "printed").write_text(printed, encoding="utf-8")
            assert await run(
                shell(f"cat printed; echo 'no é' >&2; exit {code}"), root=str(tmp_path)
            ) == (outcome)


async def test_process_ended_by_a_signal_has_failed() -> None:
    text = await failure_of(shell("echo so far; kill -9 $$"))
    assert text == "Tool 't' was ended by signal 9, SIGKILL.\n\nstdout:\nso far"


async def test_failure_reports_the_exit_status_and_the_last_line(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, str]] = [
        ("false", "Tool 't' failed with exit status 1."),
        ("echo a >&2; echo b >&2; exit 3", "t' failed with exit status 3: b\n\nstderr:\na\nb"),
        ("jp-nb-no-such-command; exit $?", "status 127 (the command was not found): "),
        ("touch x; ./x", "status 126 (it is not executable): "),
        ("sh -c 'kill -15 $$'; exit $?", "exit status 143 (as if by signal 15, SIGTERM)"),
        ("kill -35 $$", "Tool 't' was ended by signal 35"),
        ("exit 255", "Tool 't' failed with exit status 255."),
    ]  # fmt: skip
    for code, told in rows:
        with subtests.test(code=code):
            assert told in await failure_of(shell(code), root=str(tmp_path))


async def test_failure_shows_the_end_of_long_output() -> None:
    code = "seq 1 5000 >&2; echo the reason >&2; seq 1 5000; exit 1"
    text = await failure_of(shell(code))
    assert text.startswith("Tool 't' failed with exit status 1: the reason\n\nstderr (without its ")
    stderr, stdout = text.split("\n\n")[1:]
    assert stderr.endswith("\n5000\nthe reason")
    assert stdout.endswith("\n4999\n5000")
    lines = [int(line) for line in stdout.splitlines()[1:]]
    assert lines == list(range(lines[0], 5001)), "whole lines"
    assert len(text) < 21_000


async def test_number_of_concurrent_processes_is_limited(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    release = tmp_path / "release"
    begun.mkdir()
    code = 'touch "begun/$$"; until [ -e release ]; do sleep 0.02; done'
    runs = [asyncio.create_task(run(shell(code), root=str(tmp_path))) for _ in range(40)]
    await until(lambda: len(list(begun.iterdir())) == 16)
    cancelled = runs.pop()  # the last in line: it never begins
    cancelled.cancel()
    assert len(list(begun.iterdir())) == 16
    release.touch()
    assert await asyncio.gather(*runs) == [jp.Success("")] * 39
    assert len(list(begun.iterdir())) == 39
    assert cancelled.cancelled()


async def test_invalid_bytes_are_replaced() -> None:
    assert await text_of(shell(r"printf 'a\377b'")) == "a\ufffdb"


async def test_missing_program_is_named(subtests: pytest.Subtests) -> None:
    rows: list[JsonValue] = [
        "jp-nb-no-such-program --now",
        {"program": "jp-nb-no-such-program", "args": ["--now"]},
    ]
    for command in rows:
        with subtests.test(command=command):
            text = await failure_of(command)
            assert text == (
                "Failed to spawn command: jp-nb-no-such-program --now: there is no such program"
            )


async def test_missing_permission_and_missing_interpreter_are_different_errors(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    text = await failure_of("./script", root=str(tmp_path))
    assert text == "Failed to spawn command: ./script: it is not executable"
    script.chmod(0o755)
    text = await failure_of("./script", root=str(tmp_path))
    assert text.endswith("./script: the interpreter in its first line does not exist")


async def test_missing_folder_and_nul_character_are_failures(tmp_path: Path) -> None:
    text = await failure_of("true", root=str(tmp_path / "nowhere"))
    assert text == "Failed to spawn command: true: its working directory does not exist"
    text = await failure_of("echo {{tool.arguments.a}}", {"a": "x\0y"})
    assert text == "Failed to spawn command: echo {{tool.arguments.a}}"


async def test_failure_to_start_shows_no_answer_of_the_user() -> None:
    line = "no-such-program {{tool.answers.pass}}"
    text = await failure_of(line, answers={"pass": "hunter2"})
    assert text == f"Failed to spawn command: {line}: there is no such program"
    text = await failure_of("true {{tool.answers.pass}}", answers={"pass": "x" * 2**22})
    assert text == "Failed to spawn command: true {{tool.answers.pass}}: Argument list too long"


async def test_tool_without_a_command_fails() -> None:
    assert await failure_of(None) == "Command missing for local tool"


async def test_invalid_template_fails_before_the_run(tmp_path: Path) -> None:
    command = {"program": "touch", "args": ["made", "{{ tool.name"]}
    assert (await failure_of(command, root=str(tmp_path))).startswith("Template error")
    assert not (tmp_path / "made").exists()


async def test_input_and_output_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    await failure_of(shell("cat; cat >&2; exit 1"), {"a": "hunter2"})
    await failure_of("no-such-program {{tool.arguments.a}}", {"a": "hunter2"})
    assert "hunter2" not in caplog.text


# --- pipes -----------------------------------------------------------------------------------


async def test_large_input_and_output_do_not_deadlock(tmp_path: Path) -> None:
    code = """
import sys
half = 'x' * 700_000
print(half, end=''); print(half, end='', file=sys.stderr)
sys.stdout.flush(); sys.stderr.flush()
read = sys.stdin.read()
print(half, end=''); print(half, end='', file=sys.stderr)
print(len(read), end='')
"""
    text = await text_of(python(code, folder=tmp_path), {"a": "y" * 900_000})
    assert len(text.rstrip("0123456789")) == 1_400_000
    assert int(text.lstrip("x")) > 900_000


async def test_command_may_ignore_its_input(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["echo done", "exec 0<&-; echo done"]
    for code in rows:
        with subtests.test(code=code):
            assert await text_of(shell(code), {"a": "y" * 900_000}) == "done\n"


@pytest.mark.parametrize("redirect", ["", ">&2"])
async def test_endless_output_is_stopped(
    redirect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MAX_OUTPUT_BYTES", 2 * 2**20)
    text = await failure_of(shell(f"echo $$ > pid; yes {redirect}"), root=str(tmp_path))
    assert text == "Tool 't' was stopped because it printed more than 2 MiB."
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: is_gone(pid))


async def test_grandchild_with_open_pipes_is_ended(
    tmp_path: Path,
) -> None:
    text = await text_of(shell("sleep 600 & echo $! > pid; echo done"), {"a": "y" * 900_000},
                         root=str(tmp_path))  # fmt: skip
    assert text == "done\n"
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: is_gone(pid))


async def test_process_outside_of_the_group_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PIPE_GRACE", 0.1)
    monkeypatch.setattr(processes, "SIGTERM_GRACE", 0.1)
    code = """
import os, subprocess, sys
left = subprocess.Popen(['sleep', '600'], start_new_session=True)
print(left.pid)
"""
    pid = int(await text_of(python(code, folder=tmp_path), {"a": "y" * 900_000}))
    assert not is_gone(pid)
    os.kill(pid, signal.SIGKILL)


async def test_background_process_survives_its_command() -> None:
    pid = int(await text_of(shell("sleep 600 </dev/null >/dev/null 2>&1 & echo $!")))
    assert not is_gone(pid)
    os.kill(pid, signal.SIGKILL)


# --- cancellation ----------------------------------------------------------------------------

STUBBORN = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; sleep 600' & wait; sleep 600"
POLITE = "trap 'echo bye > said; exit' TERM; sh -c 'echo $$ > child; exec sleep 600' & wait"


@pytest.mark.parametrize("code", [STUBBORN, POLITE], ids=["stubborn", "polite"])
async def test_cancellation_ends_the_process_and_its_children(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code == POLITE:
        monkeypatch.setattr(processes, "SIGTERM_GRACE", 60.0)  # it takes its time on a busy machine
    running = asyncio.create_task(run(shell(f"echo $$ > pid; {code}"), root=str(tmp_path)))
    await until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_gone(int((tmp_path / "pid").read_text()))
    child = int((tmp_path / "child").read_text())
    await until(lambda: is_gone(child))
    assert (tmp_path / "said").exists() == (code == POLITE)


async def test_second_cancellation_does_not_stop_the_cleanup(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    running = asyncio.create_task(run(shell(f"echo $$ > pid; {STUBBORN}"), root=str(tmp_path)))
    await until((tmp_path / "child").exists)
    pid = int((tmp_path / "pid").read_text())
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: asyncio.all_tasks() <= before)  # the cleanup continues in a task
    assert is_gone(pid)


async def test_cancellation_during_the_start_leaves_nothing(subtests: pytest.Subtests) -> None:
    for steps in range(6):
        with subtests.test(steps=steps):
            running = asyncio.create_task(run(shell("sleep 600"), {"a": "y" * 900_000}))
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running


def test_command_runs_and_is_cancelled_on_another_thread(tmp_path: Path) -> None:
    async def cancelled() -> bool:
        running = asyncio.create_task(run(shell("echo > made; sleep 600"), root=str(tmp_path)))
        await until((tmp_path / "made").exists)
        running.cancel()
        await asyncio.wait([running])
        return running.cancelled()

    with ThreadPoolExecutor(1) as thread:  # no main thread, like that of the agent
        assert thread.submit(asyncio.run, text_of("cat", {"a": 1})).result(timeout=60)
        assert thread.submit(asyncio.run, cancelled()).result(timeout=60)


# --- arguments -------------------------------------------------------------------------------


def test_arguments_are_completed_and_checked_before_a_run() -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a", "b"],
    }
    tool = tool_of("true")
    assert tool.prepare("t", {"a": 1}, schema) == {"a": 1, "b": 2}
    refused = tool.prepare("t", {"c": 1}, schema)
    assert is_kind(refused, "failure")
    first, _, last = refused.message.split("\n")
    assert first == ('Invalid arguments: Invalid arguments (missing: ["a"], unknown: ["c"])')
    assert last.startswith('You can call `describe_tools(tools: ["t"])`')


# --- formatters ------------------------------------------------------------------------------


async def formatted(command: Any, **context: Any) -> str:
    async with asyncio.timeout(60):
        told = jp.ToolContext(name="t", action="format_arguments", **context)
        config = configured(for_tool("t", source="local", style={"parameters": command}))
        formatter = offer_now(config).tools["t"].formatter
        return str(await formatter.format({"a": 1}, told))


async def test_formatter_gets_the_arguments_and_no_configuration_or_answers() -> None:
    text = await formatted(
        "cat",
        answers={"pass": "hunter2"},
        options={"o": 1},
        access={"fs": []},
        config={"user": {}},
        delta_rejection=make("delta_rejection", "user_rejected"),
        conversation_id="jp-c1",
    )
    assert json.loads(text) == {
        "tool": {"name": "t", "arguments": {"a": 1}, "options": {"o": 1}},
        "context": {
            "root": "",
            "action": "format_arguments",
            "workspace_id": "",
            "conversation_id": "jp-c1",
        },
    }


async def test_formatter_may_print_text_or_a_success(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("printf '\n  a = {{tool.arguments.a}}\n\n'", "a = 1"),
        ("true", ""),
        ("""printf '{"type":"success","content":" x ","config":{"a":1},"unset":["b"]}'""", "x"),
    ]
    for code, text in rows:
        with subtests.test(code=code):
            assert await formatted(shell(code)) == text


async def test_formatter_that_fails_or_asks_is_an_error(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("echo so; exit 1", "^its command failed with exit status 1\\."),
        ("""printf '{"type":"error","message":"no way"}'""", "no way"),
        (
            """printf '{"type":"needs_input","question":
            {"id":"q","text":"?","answer_type":"Text"}}'""",
            "asked",
        ),
        ("""printf '{"type":"needs_input"}'""", "question"),
        ("{{ tool.name", "Template error"),
    ]
    for code, error in rows:
        with subtests.test(code=code), pytest.raises(jp.ToolError, match=error):
            await formatted(shell(code))


async def test_formatter_that_cannot_start_is_an_error() -> None:
    with pytest.raises(jp.ToolError, match=r"^Failed to spawn command: jp-nb-no-such-program: "):
        await formatted("jp-nb-no-such-program")


X = "{{ tool.arguments.x }}"


def test_command_that_runs_its_arguments_needs_permission_for_each_call(
    subtests: pytest.Subtests,
) -> None:
    for command, covers in [
        ({"program": "sh", "args": ["-c", X]}, "arguments"),
        ({"program": "/bin/bash", "args": ["-lc", X]}, "arguments"),
        ({"program": f"ls {X}", "shell": True}, "arguments"),
        ({"program": X}, "arguments"),
        ({"program": "python3.11", "args": ["-c", "{{ tool['arguments'].x }}"]}, "arguments"),
        ({"program": "python", "args": ["-u", X]}, "arguments"),
        ({"program": "uv", "args": ["run", X]}, "arguments"),
        ({"program": "deno", "args": ["run", "-A", X]}, "arguments"),
        ({"program": "uv", "args": ["tool", "run", X]}, "arguments"),
        ({"program": "uvx", "args": [X]}, "arguments"),
        ({"program": "sqlite3", "args": ["data.db", X]}, "arguments"),
        ({"program": "psql", "args": ["-f", "-", X]}, "arguments"),
        ({"program": "ssh", "args": ["host", X]}, "arguments"),
        ({"program": "sudo", "args": ["-n", X]}, "arguments"),
        ({"program": "env", "args": ["A=1", X]}, "arguments"),
        ({"program": "sh", "args": ["-c", "{{ tool | tojson }}"]}, "arguments"),
        ({"program": "python", "args": ["tool.py", X]}, "tool"),
        ({"program": "uv", "args": ["run", "tool.py", X]}, "tool"),
        ({"program": "grep", "args": ["-n", X, "a.txt"]}, "tool"),
        ({"program": "python", "args": ["{{ context.root }}/tool.py"]}, "tool"),
        ({"program": "sh", "args": ["-c", "cat {{ tool.options.file }}"]}, "tool"),
        ({"program": "python", "args": ["-c", "print(1)"]}, "tool"),
        ({"program": "deploy"}, "tool"),
    ]:
        with subtests.test(command=command):
            assert new_tool({"command": command}).covers == covers

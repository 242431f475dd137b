"""Reading of regular files without waiting (`jp_nb/file_reading.py`)."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Final

import pytest

import jp_nb
from jp_nb import file_reading


def test_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert file_reading.read_regular(tmp_path / "link", max_bytes=4) == b"text"


def test_pipe_and_device_are_errors_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="pipe, a socket, or a device"):
            file_reading.read_regular(path, max_bytes=10)
    with pytest.raises(IsADirectoryError):
        file_reading.read_regular(tmp_path, max_bytes=10)


def test_no_more_than_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with pytest.raises(OSError, match="more than 4 bytes"):
        file_reading.read_regular(path, max_bytes=4)

    open_regular = file_reading.open_regular

    def grow(opened: Path, *options: int) -> int:
        descriptor = open_regular(opened, *options)
        path.write_bytes(b"123")
        return descriptor

    # It grows after its size was read.
    monkeypatch.setattr(file_reading, "open_regular", grow)
    real = os.fstat

    def grow_later(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        path.write_bytes(b"1" * 100)
        return status

    monkeypatch.setattr(os, "fstat", grow_later)
    with pytest.raises(OSError, match="more than 4 bytes"):
        file_reading.read_regular(path, max_bytes=4)


def test_pipe_that_replaces_the_file_after_the_check_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    opens = os.open

    def replace(opened: Path, flags: int) -> int:
        path.unlink()
        os.mkfifo(path)
        return opens(opened, flags)

    monkeypatch.setattr(os, "open", replace)
    with pytest.raises(OSError, match="pipe, a socket, or a device"):
        file_reading.open_regular(path)


PACKAGE: Final = Path(jp_nb.__file__).parent
OPENING: Final = {"open", "read_text", "read_bytes", "fdopen"}
OTHER_OPENS: Final = {
    "file_reading.py": "the helper",
    "file_writing.py": "writes; a device is named by the user",
    "cli.py": "`/dev/null`",
    "storage/run_events.py": "appends to the file of the runner",
    "storage/file_locks.py": "a lock file",
    "storage/files.py": "a folder by its descriptor",
    "storage/journals/journal_file.py": "creates a journal; opens others with the helper",
    "storage/key_file.py": "creates the key; reads it with the helper",
    "storage/cassettes/cassette_file.py": "reads with the helpers",
    "storage/cassettes/cassette_writer.py": "writes; reads with the helpers",
    "storage/attachments.py": "reads with the helper",
    "interop/directories.py": "reads with the helper",
    "mcp/transports/launch_resolution.py": "reads with the helper",
    "headless/commands/run.py": "writes the template",
    "headless/commands/demo.py": "notebooks of the package",
    "notebook/prompt/form_bridge.py": "a file of the package",
    "notebook/prompt/answer_widgets.py": "a file of the package",
    "headless/tool_server/stdio_service.py": "the null device, for the input of tools",
    "providers/scripts/script_files.py": "a file of the package; reads others with the helper",
    "session/rows/completion_cache.py": "its own file, by its descriptor",
    "session/rows/prompt_images.py": "reads with the helper",
    "batch/results/report_page.py": "a file of the package",
    "batch/plans/recording_merge.py": "the draft of its own recording",
    "headless/kernels/run_cells.py": "the events of its own run",
    "headless/kernels/fork_server.py": "the pipe of its own process",
    "headless/kernels/kernel_processes.py": "files of the kernel of the operating system",
    "storage/shared_pace.py": "creates the lock of a slot in the folder of its batch",
    "batch/plans/parameter_files.py": "reads with the helper",
    "batch/results/out_folder.py": "reads with the helper",
    "batch/results/run_log.py": "reads with the helper",
    "batch/workers/worker_count.py": "files of the kernel of the operating system",
}
"""Modules that open files, and the reason why they wait for no other program."""
NOT_FILES: Final = {
    "agent/call_steps/questions.py",
    "mcp/tool_calls/mcp_tool.py",
    "notebook/page/live_store.py",
    "notebook/prompt/running_cell/pump.py",
    "notebook/prompt/prompt_view.py",
    "notebook/prompt/prompter.py",
    "notebook/display/running_tools.py",
    "notebook/display/turn_display.py",
    "record/documents/document.py",
    "providers/anthropic/anthropic_model_list.py",
    "providers/request_parts/own_metadata.py",
    "providers/anthropic/anthropic_rendering.py",
    "providers/google/google_generate_rendering.py",
    "providers/google/google_recorded_steps.py",
    "providers/openai/openai_responses_rendering.py",
    "session/resolution/background_models.py",
    "session/model_access/cassettes.py",
    "session/conversation.py",
    "session/resolution/resolver.py",
    "session/rows/completion_models.py",
    "session/rows/session_models.py",
    "session/rows/completion_runner.py",
}
"""Modules that call other functions with these names."""


def test_modules_open_files_only_with_the_helper() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in OPENING:
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found - NOT_FILES == OTHER_OPENS.keys(), (
        "open files that may come with a folder with `open_regular` or `read_regular`"
    )

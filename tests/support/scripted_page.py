"""A page without a browser: a raw `jupyter_client` that speaks protocol 1 and can misbehave."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from time import monotonic, sleep
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[2]
KERNEL_PYTHON = os.environ.get("JP_NB_KERNEL_PYTHON", sys.executable)
SETUP = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.support import page_in_cell as in_cell
from tests.support.page_in_cell import *
begin()"""
PATIENCE = 60.0


@dataclass
class View:
    """What one page holds and how it behaves."""

    jp: Any = None
    page: str = "page-1"
    path: str = "talk.ipynb"
    read_only: bool = False
    protocol: int = 1
    awake: bool = True
    adopts: bool = False
    forget: int = 0
    slow: float = 0.0
    save_error: str | None = None
    tells: list[str] = field(default_factory=list)
    cells: list[dict[str, Any]] = field(default_factory=list)
    saves: int = 0
    received: list[dict[str, Any]] = field(default_factory=list)
    pieces: dict[int, str] = field(default_factory=dict)

    def contents(self) -> list[str]:
        return [e["content"] for e in self.jp["events"] if e["type"] == "chat_request"]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in self.received if m["type"] == kind]

    def hello(self) -> dict[str, Any]:
        message = {"type": "hello", "path": self.path, "readOnly": self.read_only}
        message |= {"tells": self.tells} if self.tells else {}
        return message if self.jp is None else {**message, "doc": self.jp}

    def answer(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a message of the kernel."""
        self.received.append(data)
        if self.forget:
            self.forget -= 1
            return None
        match data["type"]:
            case "pull":
                return self.hello()
            case "save" if data["to"] not in ("", self.page):
                return None
            case "save" if self.save_error:
                return {"type": "save_failed", "seq": data["seq"], "why": self.save_error}
            case "save":
                self.saves += 1
                return {"type": "saved", "seq": data["seq"]}
            case "append":
                return self._append(data)
            case "switch" | "exchange":
                return self._switch(data)
            case "chunk":
                return self._chunk(data)
            case "cells" | "show":
                return self._cells(data)
        raise AssertionError(f"unknown message {data['type']}")

    def _cells(self, data: dict[str, Any]) -> dict[str, Any] | None:
        if data["type"] == "show" or not self.cells or data["to"] != self.page:
            return None
        return {"type": "cells", "seq": data["seq"], **self.cells.pop(0)}

    def _switch(self, data: dict[str, Any]) -> dict[str, Any] | None:
        if data["type"] == "exchange" and "exchange" not in self.tells:
            return None  # as every script of before
        self.jp = data["doc"] if data["type"] == "switch" else self._exchanged(data)
        return self._reply("ack", data)

    def _exchanged(self, data: dict[str, Any]) -> dict[str, Any]:
        keys = ("conversation", "base_config", "events", "signature")
        active = {key: self.jp[key] for key in keys if key in self.jp}
        there = {c["conversation"]["id"]: c for c in [active, *self.jp.get("others", [])]}
        others = list(data["doc"]["others"])
        for place, name, length in data["kept"]:
            assert len(there[name]["events"]) == length
            others.insert(place, there[name])
        return {**data["doc"], "others": others}

    def _chunk(self, data: dict[str, Any]) -> dict[str, Any]:
        self.pieces[data["i"]] = data["text"]
        if len(self.pieces) == data["of"]:
            self.jp = json.loads("".join(self.pieces[i] for i in range(data["of"])))
            self.pieces = {}
        return self._reply("ack", data)

    def _append(self, data: dict[str, Any]) -> dict[str, Any]:
        have = len(self.jp["events"]) if self.jp else 0
        if self.jp is None or self._stream() != data["stream"] or data["base"] > have:
            return self._reply("nack", data)
        self.jp["events"] += data["events"][have - data["base"] :]
        for key, value in data.get("head", {}).items():
            if value is None:
                self.jp.pop(key, None)
            else:
                self.jp[key] = value
        return self._reply("ack", data)

    def _reply(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        events = self.jp["events"] if self.jp else []
        return {"type": kind, "seq": data["seq"], "stream": self._stream(), "n": len(events)}

    def _stream(self) -> str:
        return str(self.jp["conversation"]["id"]) if self.jp else ""


class FrontEnd:
    """Runs cells in a kernel; its `views` answer while it waits, on the control channel.

    Everything that came on iopub is in `messages`.
    """

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.views = [View()]
        self.comm = ""
        self.messages: list[dict[str, Any]] = []

    @property
    def view(self) -> View:
        return self.views[0]

    def run(self, code: str, **options: Any) -> str:
        """Run a cell to its end and return what it printed."""
        return self.finish(self.client.execute(code, **options))

    def run_in_notebook(self, code: str, cell_id: str = "cell-1") -> str:
        """Run a cell as notebooks do, which name it, and return what it printed."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True}
        metadata = {"cellId": cell_id}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return self.finish(str(message["header"]["msg_id"]))

    def finish(self, request: str) -> str:
        """Wait until the kernel is done with `request` and return what it printed."""
        printed: list[str] = []

        def idle(message: dict[str, Any]) -> bool:
            if message["parent_header"].get("msg_id") != request:
                return False
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            if message["msg_type"] == "error":
                printed.append("\n".join(content["traceback"]))
            return bool(content.get("execution_state") == "idle")

        self.wait(idle)
        return "".join(printed)

    def wait(self, found: Callable[[dict[str, Any]], bool], patience: float = PATIENCE) -> None:
        """Handle messages until `found` says so."""
        until = monotonic() + patience
        while monotonic() < until:
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except Empty:
                message = {"msg_type": "", "parent_header": {}, "content": {}}
            else:
                self.messages.append(message)
            self._handle(message)
            if found(message):
                return
        raise AssertionError("the kernel did not do it in time")

    def until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> None:
        self.wait(lambda _: condition(), patience)

    def pause(self, seconds: float) -> None:
        """Handle messages for a while."""
        ends = monotonic() + seconds
        self.wait(lambda _: monotonic() > ends)

    def _handle(self, message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open" and content["target_name"] == "jp_nb.document":
            self.comm = content["comm_id"]
            for view in self.views:
                if view.awake and not view.adopts:
                    self.send(view, view.hello())
        elif message["msg_type"] == "comm_msg" and content["comm_id"] == self.comm:
            data = content["data"]
            for view in self.views:
                is_for_it = view.awake and data["path"] == view.path
                if is_for_it and (reply := view.answer(data)):
                    sleep(view.slow)
                    self.send(view, reply)

    def send(self, view: View, data: dict[str, Any]) -> None:
        content = {"comm_id": self.comm, "data": {"v": view.protocol, "page": view.page, **data}}
        self.client.control_channel.send(self.client.session.msg("comm_msg", content))


@contextmanager
def kernel(folder: Path) -> Iterator[FrontEnd]:
    """A kernel of its own, in `folder`."""
    manager = KernelManager(transport="ipc", ip=str(folder / "k"))
    command = [KERNEL_PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=command, display_name="k", language="python")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JP_NB_")}
    manager.start_kernel(cwd=str(folder), env=environment)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield FrontEnd(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()

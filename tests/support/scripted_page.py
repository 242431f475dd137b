"""A page without a browser, which speaks protocol 1 and can misbehave."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.support.kernel_client import PATIENCE, FrontEnd, Message, is_error, started_kernel

ROOT = Path(__file__).parents[2]
SETUP = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.kit import page_in_cell as in_cell
from tests.kit.page_in_cell import *
begin()"""


@dataclass
class View:
    """The content and the behavior of one page."""

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
    client: str = ""
    inputs: list[str] = field(default_factory=list)  # requests that can show an input box
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
        message |= {"client": self.client} if self.client else {}
        return message if self.jp is None else {**message, "doc": self.jp}

    def answer(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply to a message of the kernel."""
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
            case "cells" | "show" | "input" | "ended" | "document" | "edit":
                return self._report(data)
        raise AssertionError(f"unknown message {data['type']}")

    def _report(self, data: dict[str, Any]) -> dict[str, Any] | None:
        if data["type"] == "input":
            return {"type": "input", "seq": data["seq"], "can": data["request"] in self.inputs}
        if data["type"] in ("show", "ended") or not self.cells or data["to"] != self.page:
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


class PageFrontEnd(FrontEnd):
    """Runs cells in a kernel; its `views` answer while it waits, on the control channel."""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager) -> None:
        super().__init__(client, manager)
        self.views = [View()]
        self.document = ""

    @property
    def view(self) -> View:
        return self.views[0]

    def run(self, code: str, *, cell_id: str | None = None, **options: Any) -> str:
        """Run a cell to its end; return the printed text and the traceback."""
        return super().run(code, cell_id=cell_id, **options)

    def run_in_notebook(self, code: str, cell_id: str = "cell-1") -> str:
        """Run a cell with a cell id, as notebooks do, and return the printed text."""
        return self.run(code, cell_id=cell_id)

    def printed(self, request: str) -> str:
        errors = [m["content"] for m in self.messages if is_error(m, request)]
        return super().printed(request) + "".join("\n".join(e["traceback"]) for e in errors)

    def until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Handle messages until `condition` is true."""
        ends = monotonic() + patience
        while not condition():
            assert monotonic() < ends, "the kernel did not do it in time"
            self.receive(0.05)

    def pause(self, seconds: float) -> None:
        """Handle messages for a while."""
        ends = monotonic() + seconds
        self.until(lambda: monotonic() > ends)

    def receive(self, timeout: float) -> list[Message]:
        came = super().receive(timeout)
        for message in came:
            self._handle(message)
        return came

    def _handle(self, message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open" and content["target_name"] == "jp_nb.document":
            self.document = content["comm_id"]
            for view in self.views:
                if view.awake and not view.adopts:
                    self.answer(view, view.hello())
        elif message["msg_type"] == "comm_msg" and content["comm_id"] == self.document:
            data = content["data"]
            for view in self.views:
                is_for_it = view.awake and data["path"] == view.path
                if is_for_it and (reply := view.answer(data)):
                    sleep(view.slow)
                    self.answer(view, reply)

    def answer(self, view: View, data: dict[str, Any]) -> None:
        """Send a message of a view to the kernel."""
        data = {"v": view.protocol, "page": view.page, **data}
        content = {"comm_id": self.document, "data": data}
        self.client.control_channel.send(self.client.session.msg("comm_msg", content))


@contextmanager
def kernel(folder: Path) -> Iterator[PageFrontEnd]:
    """Start a kernel in `folder`, and a page of it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JP_NB_")}
    with started_kernel(folder, environment) as started:
        yield PageFrontEnd(*started)

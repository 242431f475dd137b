"""A page without a browser, which speaks protocol 2 and can misbehave."""

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


WIDGET_STATE = "application/vnd.jupyter.widget-state+json"


@dataclass
class View:
    """The content and the behavior of one page.

    `jp` is the value of its key, `segments` has the keys `jp.N`, and `carriers` the widgets. A test
    may change them, as another page or a loaded file does.
    """

    jp: Any = None
    segments: dict[str, Any] = field(default_factory=dict)
    carriers: dict[str, Any] = field(default_factory=dict)
    collaborative: bool = False
    page: str = "page-1"
    path: str = "talk.ipynb"
    read_only: bool = False
    protocol: int = 2
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
    has_null: bool = False  # `jp` is null, and not absent
    named: tuple[str, str] = ("", "")  # the state, and the content that it names
    states: int = 0

    def contents(self) -> list[str]:
        return [e["content"] for e in self.jp["events"] if e["type"] == "chat_request"]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in self.received if m["type"] == kind]

    def writes(self, part: str = "") -> list[dict[str, Any]]:
        """Return the writes that were received in one message, or those that have a `part`."""
        return [m for m in self.of_type("write") if not part or part in m]

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the notebook."""
        jp = {} if self.jp is None and not self.has_null else {"jp": self.jp}
        widgets = {WIDGET_STATE: {"state": self.carriers}}
        return {**jp, **self.segments, **({"widgets": widgets} if self.carriers else {})}

    @property
    def state(self) -> str:
        """The name of the present content, a new one if a test has changed it."""
        content = json.dumps(self.metadata())
        if self.named[1] != content:
            self.states += 1
            self.named = (f"{self.page}.{self.states}", content)
        return self.named[0]

    def hello(self) -> dict[str, Any]:
        message = {"type": "hello", "path": self.path, "readOnly": self.read_only}
        message |= {"collaborative": True, "session": self.page} if self.collaborative else {}
        message |= {"tells": self.tells} if self.tells else {}
        message |= {"client": self.client} if self.client else {}
        if self.protocol == 1:
            return message if self.jp is None else {**message, "doc": self.jp}
        keys = {key: value for key, value in self.metadata().items() if key != "widgets"}
        return {**message, "state": self.state, "keys": keys, "carriers": self.carriers}

    def answer(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply to a message of the kernel."""
        self.received.append(data)
        if self.forget:
            self.forget -= 1
            return None
        if self.protocol != data["v"]:
            return {"type": "nack", "seq": data["seq"], "why": "protocol"}
        match data["type"]:
            case "pull" | "write" | "chunk" if data.get("to", self.page) != self.page:
                return None
            case "pull":
                return self.hello()
            case "save":
                return self._save(data)
            case "write":
                return self._write(data, data["seq"])
            case "chunk":
                return self._chunk(data)
            case "cells" | "show" | "input" | "ended" | "document" | "edit":
                return self._report(data)
        raise AssertionError(f"unknown message {data['type']}")

    def _save(self, data: dict[str, Any]) -> dict[str, Any] | None:
        if data["to"] not in ("", self.page):
            return None
        if self.save_error:
            return {"type": "save_failed", "seq": data["seq"], "why": self.save_error}
        self.saves += 1
        return {"type": "saved", "seq": data["seq"]}

    def _report(self, data: dict[str, Any]) -> dict[str, Any] | None:
        if data["type"] == "input":
            return {"type": "input", "seq": data["seq"], "can": data["request"] in self.inputs}
        if data["type"] in ("show", "ended") or not self.cells or data["to"] != self.page:
            return None
        return {"type": "cells", "seq": data["seq"], **self.cells.pop(0)}

    def _chunk(self, data: dict[str, Any]) -> dict[str, Any]:
        self.pieces[data["i"]] = data["text"]
        if len(self.pieces) < data["of"]:
            return {"type": "ack", "seq": data["seq"], "state": self.state}
        whole = json.loads("".join(self.pieces[i] for i in range(data["of"])))
        self.pieces = {}
        return self._write(whole, data["seq"])

    def _write(self, data: dict[str, Any], seq: int) -> dict[str, Any]:
        if self.read_only:
            return {"type": "nack", "seq": seq, "why": "read-only"}
        if self.state != data["state"]:
            if self.state != data["expect"]:
                return self.hello()  # and a `nack`, which tells nothing more
            self._apply(data)
            self.named = (data["state"], json.dumps(self.metadata()))
        return {"type": "ack", "seq": seq, "state": self.state}

    def _apply(self, data: dict[str, Any]) -> None:
        put = json.loads(json.dumps(data.get("put", {})))
        for key in data.get("drop", ()):
            del self.segments[key]
        for key in data.get("carriers", ()):
            del self.carriers[key]
        self.segments |= {key: value for key, value in put.items() if key != "jp"}
        if "jp" in put:
            self._copy(put["jp"], data.get("copies", ()))
            self.jp = put["jp"]
        if "extend" in data:
            self._extend(**data["extend"])

    def _copy(self, jp: dict[str, Any], copies: Any) -> None:
        for position, place, *names in copies:
            if place == -1:
                found = {key: self.jp[key] for key in names[0]}
            else:
                found = self.jp["others"][place]
            jp["others"].insert(position, found)

    def _extend(
        self, at: int, events: list[Any], head: dict[str, Any] | None = None, removed: Any = ()
    ) -> None:
        assert len(self.jp["events"]) == at
        self.jp["events"] += json.loads(json.dumps(events))
        self.jp |= head or {}
        for key in removed:
            self.jp.pop(key, None)


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

"""A front end without a page: it talks to a kernel as a notebook does, also to widgets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

KERNEL_PYTHON = os.environ.get("JP_NB_KERNEL_PYTHON", sys.executable)
IN_CELL = Path(__file__).parents[1] / "kit" / "prompt_in_cell.py"
PATIENCE = 60.0

Message = dict[str, Any]


NEW = "(a new cell)"


def label_pattern(label: str) -> re.Pattern[str]:
    """Return the pattern of a button's whole label; `*` in `label` stands for a tool name."""
    return re.compile(rf"^{re.escape(label).replace(re.escape('*'), '.+')}$")


class FrontEnd:
    """Runs cells and answers as a user. `messages` contains all messages of iopub."""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager) -> None:
        self.client = client
        self.manager = manager
        self.messages: list[Message] = []
        self.models: dict[str, Message] = {}
        self.replied: dict[str, Message] = {}
        self._cells = count(1)

    # --- cells -------------------------------------------------------------------------------

    def start(self, code: str, *, allow_stdin: bool = True, cell_id: str | None = NEW) -> str:
        """Send a cell and return the id of its request.

        Without `cell_id` it is a new cell; with None the front end does not name its cells.
        """
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": True,
        }
        name = f"c{next(self._cells)}" if cell_id == NEW else cell_id
        metadata = {"cellId": name} if name else {}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(self, code: str, **options: Any) -> str:
        """Run a cell to its end and return the printed text."""
        return self.finish(self.start(code, **options))

    def finish(self, request: str) -> str:
        """Wait until the kernel is done with `request` and return what it printed.

        Also for its reply: ipykernel 7.0 to 7.3 may never read a request that arrives while it
        sends a reply (fixed in 7.4), so nothing is sent before that.
        """
        self.wait(lambda m: _is_status(m, "idle") and _parent(m) == request)
        until = monotonic() + PATIENCE
        while request not in self.replied and monotonic() < until:
            reply = self.client.get_shell_msg(timeout=PATIENCE)
            self.replied[_parent(reply)] = reply
        return self.printed(request)

    def interrupt(self, request: str) -> None:
        """Interrupt until `request` ends: pyzmq ignores an interrupt while it frees a frame.

        A second interrupt too early would stop the handling of the first one, and its reply.
        """
        for _ in range(5):
            self.manager.interrupt_kernel()
            try:
                self.wait(lambda m: _is_status(m, "idle") and _parent(m) == request, patience=6.0)
            except TimeoutError:
                continue
            break
        self.finish(request)

    def printed(self, request: str) -> str:
        """Return what `request` wrote to stdout and stderr."""
        return "".join(
            m["content"]["text"]
            for m in self.messages
            if m["header"]["msg_type"] == "stream" and _parent(m) == request
        )

    def displays(self, request: str) -> list[Message]:
        """Return the data of the displays of `request`, with their updates applied."""
        shown: dict[str, Message] = {}
        for number, message in enumerate(self.messages):
            if _parent(message) == request and "display_data" in message["header"]["msg_type"]:
                content = message["content"]
                shown[content["transient"].get("display_id", str(number))] = content["data"]
        return list(shown.values())

    def outputs(self, request: str) -> list[Message]:
        """Return the outputs of `request` in order, with updates applied, as on a page."""
        outputs: list[Message] = []
        shown: dict[str, Message] = {}
        for message in self.messages:
            kind = message["header"]["msg_type"]
            content = message["content"]
            if _parent(message) != request:
                continue
            if kind == "stream":
                if not outputs or outputs[-1].get("name") != content["name"]:
                    outputs.append({"name": content["name"], "text": ""})
                outputs[-1]["text"] += content["text"]
            elif kind in ("display_data", "execute_result"):
                outputs.append({"data": content["data"], "metadata": content["metadata"]})
                if display_id := (content.get("transient") or {}).get("display_id"):
                    shown[display_id] = outputs[-1]
            elif kind == "update_display_data":
                known = shown.get(content["transient"]["display_id"])
                # A page ignores an update of a display that it does not show (yet).
                if known is not None:
                    known.update(data=content["data"], metadata=content["metadata"])
            elif kind == "clear_output":
                outputs.clear()
        return outputs

    def wait(self, found: Callable[[Message], Any], patience: float = PATIENCE) -> Message:
        """Return the first message for which `found` is true; wait for it if necessary."""
        for message in self.messages:
            if found(message):
                return message
        until = monotonic() + patience
        while monotonic() < until:
            for message in self.receive(0.1):
                if found(message):
                    return message
        raise TimeoutError(f"not seen in {patience} s; last: {self.messages[-5:]}")

    def forget(self, *, widgets: bool = True) -> None:
        """Forget the messages and input requests so far, and the widgets."""
        self.receive(0.0)
        self.messages.clear()
        self.forget_input_requests()
        if widgets:
            self.models.clear()

    def receive(self, timeout: float) -> list[Message]:
        """Return the messages of iopub; wait for one if there is none."""
        came: list[Message] = []
        try:
            came.append(self.client.get_iopub_msg(timeout=timeout))
            while True:
                came.append(self.client.get_iopub_msg(timeout=0))
        except Empty:
            pass
        for message in came:
            if message["header"]["msg_type"] == "comm_open":
                state = message["content"]["data"].get("state", {})
                self.models[message["content"]["comm_id"]] = state
        self.messages += came
        return came

    # --- forms -------------------------------------------------------------------------------

    def form(self, text: str) -> str:
        """Wait for a form that shows `text`, report that it is rendered; return the beacon's id."""

        def shown(message: Message) -> bool:
            data = message["content"].get("data", {})
            return "display_data" in message["header"]["msg_type"] and text in data.get(
                "text/plain", ""
            )

        self.wait(shown)
        beacon = self.model("FormBridge")
        self.send(beacon, {"type": "rendered"})
        return beacon

    def model(self, kind: str, **state: object) -> str:
        """Return the id of the newest widget of `kind` with that `state`."""
        for model_id, known in reversed(self.models.items()):
            names = (str(known.get("_anywidget_id", "")), str(known.get("_model_name", "")))
            if any(kind in name for name in names) and state.items() <= known.items():
                return model_id
        raise LookupError(f"no {kind} with {state}")

    def send(self, model_id: str, content: Message) -> str:
        """Send a custom message of a widget, such as a click."""
        return self.comm(model_id, {"method": "custom", "content": content})

    def click(self, label: str) -> str:
        """Click the newest button with this `label`."""
        pattern = label_pattern(label)
        for model_id, known in reversed(self.models.items()):
            if known.get("_model_name") == "ButtonModel" and pattern.search(known["description"]):
                return self.send(model_id, {"event": "click"})
        raise LookupError(f"no button {label!r}")

    def set(self, model_id: str, **state: object) -> str:
        """Change the state of a widget in the page."""
        return self.comm(model_id, {"method": "update", "state": state, "buffer_paths": []})

    def comm(self, model_id: str, data: Message) -> str:
        message = self.client.session.msg("comm_msg", {"comm_id": model_id, "data": data})
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    # --- stdin -------------------------------------------------------------------------------

    def forget_input_requests(self) -> None:
        """Drop the open input requests, such as those of an interrupted menu."""
        while True:
            try:
                self.client.get_stdin_msg(timeout=0)
            except Empty:
                return

    def input_request(self) -> Message:
        """Return the next input request of the kernel."""
        request: Message = self.client.get_stdin_msg(timeout=PATIENCE)
        return dict(request["content"])

    def wants_input(self, within: float = 0.3) -> bool:
        """Return True if the kernel requests input within `within` seconds."""
        try:
            self.client.get_stdin_msg(timeout=within)
        except Empty:
            return False
        return True

    def type(self, line: str) -> None:
        """Answer the input request."""
        self.client.input(line)


def _parent(message: Message) -> str:
    return str(message["parent_header"].get("msg_id", ""))


def _is_status(message: Message, state: str) -> bool:
    content = message["content"]
    return bool(message["header"]["msg_type"] == "status" and content["execution_state"] == state)


def is_error(message: Message, request: str) -> bool:
    """Return True if `message` is the error of `request`."""
    return bool(message["header"]["msg_type"] == "error" and _parent(message) == request)


def statuses(front_end: FrontEnd, request: str) -> list[str]:
    """Return the states that the kernel published for `request`."""
    return [
        m["content"]["execution_state"]
        for m in front_end.messages
        if m["header"]["msg_type"] == "status" and _parent(m) == request
    ]


@contextmanager
def started_kernel(
    directory: Path, environment: Mapping[str, str]
) -> Iterator[tuple[BlockingKernelClient, KernelManager]]:
    """Start a kernel of `KERNEL_PYTHON` in `directory`, and a client of it."""
    address: dict[str, str] = {}
    if os.name == "posix" and len(str(directory)) < 80:  # ports may be taken before they are used
        address = {"transport": "ipc", "ip": str(directory / "k")}
    manager = KernelManager(connection_file=str(directory / "kernel.json"), **address)
    argv = [KERNEL_PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=argv, display_name="", language="python")
    manager.start_kernel(cwd=str(directory), env=dict(environment))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield client, manager
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


@contextmanager
def front_end(directory: Path) -> Iterator[FrontEnd]:
    """Start a kernel with `prompt_in_cell.py` loaded, and a front end of it."""
    environment = {**os.environ, "IPYTHONDIR": str(directory / "ipython")}
    with started_kernel(directory, environment) as kernel:
        user = FrontEnd(*kernel)
        assert user.run(IN_CELL.read_text(encoding="utf-8")) == ""
        yield user

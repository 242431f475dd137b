"""The comm between a kernel and the pages of its notebook, and the state that its threads share.

Three threads use it: the cell's thread, the sending thread (`page_sender.py`), and ipykernel's
control thread, which receives (`page_receiver.py`). `lock` is their one lock. Send messages outside
of it, because a thread that holds the lock of a cell's outputs may wait for `lock`.

A page tells its state in the message `hello`: when the comm opens, after a change, and when the
kernel asks for it with `pull`. The kernel keeps the record in one page, the *followed* one
(`followed_page.py`).

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from threading import Condition
from typing import Any

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.cell_context import CellContext
from jp_nb.notebook.page.control_channel import (
    receive_on_control,
    stop_receiving,
)
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.known_pages import Pages
from jp_nb.notebook.page.protocol import TARGET, MessageNumbering


class PageLink:
    """The comm of a notebook, and the pages that use it.

    Args:
        kernel: The kernel that opens the comm.
        patience: Seconds that a page has to answer.

    Attributes:
        comm_id: The id of the comm, made of the name of its target and a random number.
        lock: Lock of everything below. It wakes up threads that wait for a change.
        pages: The known pages.
        numbering: Builds the messages.
        urgent: Messages that the sending thread sends before all others.
        is_closed: True after `close`.
    """

    def __init__(self, kernel: Any, *, patience: float) -> None:
        self._kernel = kernel
        self._comm: Any = None  # until `connect`
        self._cell = CellContext()  # messages have the cell that runs now as parent
        self.comm_id = f"{TARGET}.{uuid.uuid4().hex}"
        self.lock = Condition()
        self.pages = Pages(patience=patience)
        self.numbering = MessageNumbering()
        self.urgent: deque[JsonObject] = deque()
        self.is_closed = False

    @property
    def is_open(self) -> bool:
        """True from `connect` to `close`."""
        return self._comm is not None and not self.is_closed

    @property
    def followed_hello(self) -> Hello | None:
        """The last `hello` of the followed page; None if the comm is not open or no page answered.

        Hold `lock` to read it.
        """
        return self.pages.followed.hello if self.is_open else None

    def connect(self, receive: Callable[[Any], None]) -> None:
        """Open the comm. `receive` is called with the data of each message of a page.

        Call it in the cell's thread.
        """
        from comm import create_comm

        receive_on_control(self._kernel, self.comm_id, receive)
        with self.lock:
            opening = self.numbering.make_message("open")

        self._cell = CellContext()  # and from now on, the cell that calls `connect`
        self._comm = create_comm(target_name=TARGET, comm_id=self.comm_id, data=opening)
        # A page without a control channel answers on the shell channel, after the cell.
        self._comm.on_msg(lambda message: receive(message["content"].get("data")))

    def send(self, message: JsonObject) -> None:
        """Send `message` at once. Thread-safe; do not hold `lock`."""
        self._cell.run(self._comm.send, message)

    def ask_for_hello(self, page: str = "") -> None:
        """Let the sending thread ask `page` (all pages if "") for another `hello`.

        Hold `lock`, and call its `notify_all` afterwards, which wakes up the sending thread.
        """
        fields: JsonObject = {"to": page} if page else {}
        self.urgent.append(self.numbering.make_message("pull", **fields))

    def close(self) -> bool:
        """Close the comm; return False if it was closed before."""
        with self.lock:
            if self.is_closed:
                return False
            self.is_closed = True
            self.lock.notify_all()

        if self._comm is not None:
            stop_receiving(self._kernel, self.comm_id)
            self._cell.run(self._comm.close)

        return True

"""The order in which batches and other messages of a cell leave a kernel whose thread is late."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session

from jp_nb.notebook.display.outbox import Outbox
from tests.support.iopub import IOPubThreadWithoutTask

PATIENCE_MS = 30_000
REQUEST = {"header": {"msg_id": "request-1", "msg_type": "execute_request"}}
WIDGET = {"application/vnd.jupyter.widget-view+json": {"model_id": "form"}}


class Kernel:
    """The part of a kernel that publishes, with a front end that hears it."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self.session = Session(key=b"")
        socket, self._heard = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        socket.bind("inproc://published")
        self._heard.connect("inproc://published")
        self.thread = IOPubThreadWithoutTask(socket)
        self.thread.start()
        self._held = Event()
        kernel = SimpleNamespace(
            session=self.session,
            iopub_thread=self.thread,
            iopub_socket=self.thread.background_socket,
        )
        outbox = Outbox.of(kernel, "request-1", 0.1)
        assert outbox is not None
        self.outbox = outbox

    def hold(self) -> None:
        """Keep the thread that publishes from doing anything, as a busy machine does."""
        started = Event()

        def wait() -> None:
            started.set()
            self._held.wait()

        self.thread.schedule(wait)
        started.wait()

    def publish(self, kind: str, content: dict[str, Any], parent: Any = REQUEST) -> None:
        self.outbox.send(self.thread.background_socket, kind, content, parent=parent)

    def show(self, name: str, data: dict[str, Any], *, update: bool = False) -> None:
        kind = "update_display_data" if update else "display_data"
        self.publish(kind, {"data": data, "metadata": {}, "transient": {"display_id": name}})

    def heard(self, count: int) -> list[str]:
        """The next `count` messages: the kind of each, or what it shows."""
        self.outbox.release()
        self._held.set()
        found: list[str] = []
        for _ in range(count):
            assert self._heard.poll(PATIENCE_MS), found
            _, frames = self.session.feed_identities(self._heard.recv_multipart())
            message = self.session.deserialize(frames)
            data = message["content"].get("data", {})
            shown = [str(data[kind]) for kind in data if kind == "text/plain"]
            found += shown or ["form" if data == WIDGET else message["msg_type"]]
        return found

    def close(self) -> None:
        self._held.set()
        self.thread.stop()
        self._heard.close()
        self.thread.close()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with zmq.Context() as context:
        made = Kernel(context)
        yield made
        made.close()


def test_widgets_of_a_form_are_opened_before_it_is_displayed(kernel: Kernel) -> None:
    kernel.hold()
    kernel.show("turn", {"text/plain": "words"})
    kernel.outbox.release()
    kernel.publish("comm_open", {"comm_id": "form"})
    kernel.show("turn", WIDGET, update=True)
    kernel.outbox.release()
    assert kernel.heard(3) == ["words", "comm_open", "form"]


def test_output_between_two_forms_is_shown(kernel: Kernel) -> None:
    kernel.hold()
    kernel.show("turn", {"text/plain": "answered"}, update=True)
    kernel.outbox.release()
    kernel.publish("comm_close", {"comm_id": "first form"})
    kernel.publish("comm_open", {"comm_id": "form"})
    kernel.show("turn", WIDGET, update=True)
    kernel.outbox.release()
    assert kernel.heard(4) == ["answered", "comm_close", "comm_open", "form"]


def test_newest_of_several_updates_is_sent(kernel: Kernel) -> None:
    kernel.hold()
    for number in range(3):
        kernel.show("turn", {"text/plain": f"words {number}"}, update=True)
    kernel.publish("comm_open", {"comm_id": "form"})
    assert kernel.heard(2) == ["words 2", "comm_open"]

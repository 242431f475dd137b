"""Printed text is sent before other output; without printed text, nothing waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from threading import Event, Thread
from typing import Any

import pytest
import zmq
from ipykernel import iostream
from jupyter_client.session import Session

from jp_nb.notebook.display.pending_output import flush_streams
from tests.support.iopub import IOPubThreadWithoutTask

kernels: Any = iostream  # it has no types


class Publishing(IOPubThreadWithoutTask):
    """The thread that sends what is printed; its messages are kept, and it waits to be let `on`.

    Attributes:
        asked: How often it was asked to do something.
        texts: The sent texts.
    """

    def __init__(self) -> None:
        super().__init__(zmq.Context.instance().socket(zmq.PUB))
        self.asked = 0
        self.texts: list[str] = []
        self.sends, self.on = Event(), Event()
        self.on.set()
        self.session = Session()
        vars(self.session)["send"] = self._sent

    def _sent(self, stream: object, message: dict[str, Any], **_: object) -> None:
        self.sends.set()
        assert self.on.wait(10)
        self.texts.append(message["content"]["text"])

    def schedule(self, job: object) -> None:
        self.asked += 1
        super().schedule(job)

    def catch_up(self) -> None:
        done = Event()
        super().schedule(done.set)
        assert done.wait(10)


@contextmanager
def kernel_streams() -> Iterator[Publishing]:
    """Print as in a kernel."""
    thread = Publishing()
    thread.start()
    out, err = (
        kernels.OutStream(thread.session, thread, name, watchfd=False)
        for name in ("stdout", "stderr")
    )
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield thread
    finally:
        thread.on.set()
        out.close()
        err.close()
        thread.stop()
        thread.close()


def test_flush_without_prints_does_not_ask_the_sending_thread() -> None:
    with kernel_streams() as thread:
        print("first")
        flush_streams()
        assert thread.texts == ["first\n"]
        thread.catch_up()
        asked = thread.asked
        flush_streams()
        flush_streams()
        assert thread.asked == asked

        print("second", file=sys.stderr)
        flush_streams()
        assert thread.texts == ["first\n", "second\n"]


def test_flush_waits_for_text_that_is_being_sent() -> None:
    with kernel_streams() as thread:
        flush_streams()
        thread.catch_up()
        thread.on.clear()
        stream: Any = sys.stdout
        print("slow")
        thread.schedule(stream._flush)  # as after a while
        assert thread.sends.wait(10)
        assert not stream._buffers  # it was taken
        waiting = Thread(target=flush_streams)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        thread.on.set()
        waiting.join(10)
        assert thread.texts == ["slow\n"]


def test_custom_stream_is_flushed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    own = Own()
    monkeypatch.setattr(sys, "stdout", own)
    flush_streams()
    flush_streams()
    assert own.flushed == 2

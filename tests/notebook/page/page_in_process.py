"""A kernel and its pages in this process: a `View` answers each message of the live store at once.

Only the part of ipykernel that the store uses is imitated. The wiring to a real kernel is shown in
the tests of the tier `kernel`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread, Timer
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import comm
import pytest

from jp_nb.notebook.page import notebook_storage
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.notebook_storage import PageStorage
from jp_nb.record.clock import utc_now
from jp_nb.record.document import Document
from jp_nb.record.stream import ConversationStream
from jp_nb.session.host import OpenedConversation
from tests.kit.records import new_event
from tests.support.scripted_page import View

PATIENCE = 20.0
RESEND_S = 0.1


class FakeKernel:
    """The part of ipykernel's that the store uses."""

    _allow_stdin = True

    def __init__(self) -> None:
        self.control_handlers: dict[str, Any] = {}
        self.control_thread = object()

    def get_parent(self, channel: str) -> dict[str, Any]:
        return {"header": {"msg_id": "r"}, "metadata": {"cellId": "c"}, "content": {"code": "1"}}


class FakeComm:
    """A comm whose messages go to `hear`."""

    def __init__(
        self, hear: Callable[[dict[str, Any]], None], *, comm_id: str, data: dict[str, Any]
    ) -> None:
        self.comm_id = comm_id
        self._hear = hear
        self.opening = data

    def send(self, data: dict[str, Any]) -> None:
        self._hear(json.loads(json.dumps(data)))

    def on_msg(self, receive: Callable[[Any], None]) -> None: ...

    def close(self) -> None: ...


class Pages:
    """A kernel whose pages are `views`, and the record that it keeps.

    Attributes:
        views: The pages; each answers while it is awake.
        opened: The document and its store, once `begin` was called.
    """

    opened: OpenedConversation

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.views = [View()]
        self.kernel = FakeKernel()
        self.home: PageStorage | None = None
        self._comm: FakeComm | None = None
        patch.setattr(comm, "create_comm", self._create)
        patch.setattr(notebook_storage, "LiveStore", partial(LiveStore, resend=RESEND_S))

    @property
    def view(self) -> View:
        return self.views[0]

    @property
    def store(self) -> LiveStore:
        store = self.opened.store
        assert isinstance(store, LiveStore)
        return store

    @property
    def document(self) -> Document:
        return self.opened.document

    def begin(self, timeout: float = PATIENCE) -> str:
        """Open the notebook as `%load_ext` does; return where its record is kept."""
        found = notebook_storage.find_storage(
            SimpleNamespace(kernel=self.kernel, user_ns={}), timeout=timeout
        )
        assert isinstance(found, PageStorage)
        self.home = found
        self.opened = found.open()
        self.document.conversation.on_change = self.store.changed
        return self.store.location

    def reopen(self) -> str:
        """Load the extension again in the same kernel."""
        self.store.close()
        return self.begin()

    def say(self, text: str, answer: str = "Yes.") -> None:
        """Append a turn from another thread, as the agent does."""

        def turn() -> None:
            stream = self.document.conversation
            stream.start_turn(new_event("chat_request", content=text))
            stream.append(new_event("chat_response", message=answer))

        in_thread(turn)

    def new(self) -> None:
        """Begin another conversation, as `%jp new` does."""
        document = self.document
        taken = document.ids()
        document.archive_active()
        document.conversation = ConversationStream.new(clock=utc_now, made="live", taken_ids=taken)
        document.conversation.on_change = self.store.changed
        self.store.replaced()

    def flush(self, timeout: float = PATIENCE) -> bool:
        return self.store.flush(timeout)

    def tell(self, *texts: str) -> None:
        """Append a turn for each text, and wait until the page has them."""
        for text in texts:
            self.say(text)
        assert self.flush()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds: the store's thread needs a moment."""
        ends = monotonic() + PATIENCE
        while not condition():
            assert monotonic() < ends, "the pages did not get there in time"
            sleep(0.005)

    def stays_silent(self) -> bool:
        """Return True if the page gets nothing for a while."""
        sleep(3 * RESEND_S)
        return not self.view.received

    def send(self, view: View, data: dict[str, Any]) -> None:
        """Have `view` send a message, on the control channel."""
        assert self._comm is not None
        told = {"v": view.protocol, "page": view.page, **json.loads(json.dumps(data))}
        content = {"comm_id": self._comm.comm_id, "data": told}
        self.kernel.control_handlers["comm_msg"](None, None, {"content": content})

    # --- what the store uses -----------------------------------------------------------------

    def _create(self, *, target_name: str, comm_id: str, data: dict[str, Any]) -> FakeComm:
        assert target_name == "jp_nb.document"
        self._comm = FakeComm(self._hear, comm_id=comm_id, data=data)
        for view in self.views:
            if view.awake and not view.adopts:
                self.send(view, view.hello())
        return self._comm

    def _hear(self, data: dict[str, Any]) -> None:
        for view in self.views:
            is_for_it = view.awake and data["path"] == view.path
            if is_for_it and (reply := view.answer(data)):
                if view.slow:
                    Timer(view.slow, self.send, (view, reply)).start()
                else:
                    self.send(view, reply)


def in_thread(work: Callable[[], None]) -> None:
    """Run `work` in a thread, to its end."""
    thread = Thread(target=work)
    thread.start()
    thread.join()


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    """A kernel with one page that shows an empty notebook."""
    monkeypatch.chdir(tmp_path)
    for name in ("JPY_SESSION_NAME", "VSCODE_PID"):
        monkeypatch.delenv(name, raising=False)
    made = Pages(monkeypatch)
    yield made
    if hasattr(made, "opened"):
        made.store.close()

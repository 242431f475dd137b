"""A kernel and its pages in this process: a `View` answers each message of the kernel at once.

Only the part of ipykernel that the store uses is imitated. The wiring to a real kernel is shown in
the tests of the tier `kernel`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from threading import Thread, Timer
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import comm
import pytest

from jp_nb.notebook.cell_watch import CellWatch
from jp_nb.notebook.kernel_notebook import KernelNotebook
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.page import notebook_storage, page_storage
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.notebook.page.page_storage import PageStorage
from jp_nb.notebook.page.protocol import read_page_message
from jp_nb.record.documents.conversation_list import drop_conversation, switch_conversation
from jp_nb.record.documents.record_trust import Trust
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.turn_counts import TurnCounts
from jp_nb.storage.key_file import KeyFile
from tests.kit.records import new_event
from tests.support.scripted_page import View

PATIENCE = 20.0
RESEND_S = 0.1


class _FakeKernel:
    """The part of ipykernel's that the store uses."""

    _allow_stdin = True

    def _publish_status(self, *args: Any) -> None: ...

    def __init__(self) -> None:
        self.control_handlers: dict[str, Any] = {}
        self.control_thread = object()

    def get_parent(self, channel: str) -> dict[str, Any]:
        return {"header": {"msg_id": "r"}, "metadata": {"cellId": "c"}, "content": {"code": "1"}}


class _FakeComm:
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


class PagesInProcess:
    """A kernel whose pages are `views`, and the record that it keeps.

    Attributes:
        views: The pages; each answers while it is awake.
        opened: The document and its store, once `begin` was called.
        key: The file of the key that signs the record; None without a signature.
        trust: The trust in the record, with a `key`.
        resend_s: Seconds after which a page that does not answer counts as silent; set it before
            `begin`.
    """

    opened: Any

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.views = [View()]
        self.kernel = _FakeKernel()
        self.home: Any = None
        self.key: Any = None
        self.trust: Any = None
        self.resend_s = RESEND_S
        self._comm: _FakeComm | None = None
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        patch.setattr(comm, "create_comm", self._create)
        patch.setattr(page_storage, "LiveStore", self._make_store)

    def _make_store(self, kernel: Any, **options: Any) -> LiveStore:
        return LiveStore(kernel, resend=self.resend_s, **options)

    @property
    def view(self) -> View:
        """The first page."""
        return self.views[0]

    @property
    def store(self) -> Any:
        """The store that keeps the record in the pages."""
        store = self.opened.store
        assert isinstance(store, LiveStore)
        return store

    @property
    def document(self) -> Any:
        """The record of the kernel."""
        return self.opened.document

    def begin(self, timeout: float = PATIENCE) -> str:
        """Open the notebook as `%load_ext` does; return where its record is kept."""
        found = notebook_storage.find_storage(
            SimpleNamespace(kernel=self.kernel, user_ns={}), timeout=timeout
        )
        assert isinstance(found, PageStorage)
        self.home = found
        self.opened = found.open()
        if self.key is not None:
            is_local = not self.opened.restored
            self.trust = Trust(self.document, KeyFile(self.key), is_trusted=is_local)
        self._connect()
        return str(self.store.location)

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

        _run_in_thread(turn)

    def new(self) -> None:
        """Begin another conversation, as `%jp new` does."""
        document = self.document
        taken = document.ids()
        document.archive_active()
        document.conversation = ConversationStream.new(clock=utc_now, made="live", taken_ids=taken)
        self._follow(is_local=True)

    def switch(self, name: str) -> None:
        """Activate the conversation `name`, and wait until the page has it."""
        assert switch_conversation(self.document, name, clock=utc_now)
        self._follow()
        assert self.flush()

    def drop(self, name: str) -> None:
        """Remove the conversation `name`, and wait until the page has removed it."""
        drop_conversation(self.document, name)
        self.store.replaced()
        assert self.flush()

    def configure(self, delta: Mapping[str, Any]) -> None:
        """Append a change of the configuration, from another thread."""
        event = new_event("config_delta", delta=dict(delta))
        _run_in_thread(lambda: self.document.conversation.append(event))

    def _follow(self, *, is_local: bool = False) -> None:
        if self.trust is not None:
            self.trust.follow(is_trusted=is_local)
        self._connect()
        self.store.replaced()

    def _connect(self) -> None:
        self.document.conversation.on_change = self._note_change

    def _note_change(self) -> None:
        if self.trust is not None:
            self.trust.sign()
        self.store.changed()

    def flush(self, timeout: float = PATIENCE) -> bool:
        """Wait until the page has every entry; return False if it does not get them in time."""
        return bool(self.store.flush(timeout))

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
        self.post({"v": view.protocol, "page": view.page, **json.loads(json.dumps(data))})

    def post(self, data: Any) -> None:
        """Send `data`, of any type, to the kernel, as a script in a page can."""
        assert self._comm is not None
        content = {"comm_id": self._comm.comm_id, "data": data}
        self.kernel.control_handlers["comm_msg"](None, None, {"content": content})

    @staticmethod
    def read(data: Any) -> dict[str, Any] | None:
        """Return the fields of a message of a page; None if the kernel ignores it."""
        return read_page_message(data)

    def listen(self, hear: Callable[[dict[str, Any]], None]) -> None:
        """Call `hear` with each message of the kernel, before the pages get it."""
        self._listeners.append(hear)

    # --- cells and turns ---------------------------------------------------------------------

    def run_cell(self, request: Mapping[str, Any], name: str, data: Mapping[str, str]) -> None:
        """Start the cell of `request`, which displays `data` with the display id `name`."""
        self.start_cell(request)
        self._watch.cells.set_output(request, name, data, {})

    def start_cell(self, request: Mapping[str, Any]) -> None:
        """Start the cell of `request`."""
        self._watch("busy", "shell", request)

    def end_cell(self, request: Mapping[str, Any]) -> None:
        """End the cell of `request`."""
        self._watch("idle", "shell", request)

    def list_unseen(self) -> list[str]:
        """Return the ids of the requests whose outputs no page has shown."""
        found: list[str] = []
        self._watch.cells.for_each_unseen(
            lambda cell: found.append(cell.request["header"]["msg_id"])
        )
        return found

    def find_input(self, request: Mapping[str, Any]) -> bool | None:
        """Ask the pages for an input box of the cell of `request`; None if none can tell."""
        return KernelPages.of(self.kernel).can_show_input(request)

    def answer_form(self, session: str) -> None:
        """Let the page of this session send the answer of a form."""
        KernelPages.of(self.kernel).note_answer({"header": {"session": session}})

    def add_user(self, session: str, user: Any) -> None:
        """Receive the name of the user of a page, as the page sends it."""
        KernelPages.of(self.kernel).add_page(session, Hello.read({"user": user}).user)

    def sender_of(self, message: Mapping[str, Any]) -> str | None:
        """Return the name of the user whose page sent `message`, if it is known."""
        return KernelPages.of(self.kernel).find_sender(message)

    def show_end(self, request: Mapping[str, Any], **counts: int) -> None:
        """Show the end of a turn in the cell of `request`, with these `counts`."""
        KernelPages.of(self.kernel).show_turn_end(request, TurnCounts(**counts))

    def look(self, *executed: Any) -> Any:
        """Return the cells that a tool gets. The kernel itself knows those in `executed`."""
        shell = SimpleNamespace(user_ns={})
        return asyncio.run(KernelNotebook(shell, self.store, executed).cells())

    @property
    def _watch(self) -> Any:
        watch = CellWatch.of(self.kernel)
        assert watch is not None
        return watch

    # --- what the store uses -----------------------------------------------------------------

    def _create(self, *, target_name: str, comm_id: str, data: dict[str, Any]) -> _FakeComm:
        assert target_name == "jp_nb.document"
        self._comm = _FakeComm(self._hear, comm_id=comm_id, data=data)
        for view in self.views:
            if view.awake and not view.adopts:
                self.send(view, view.hello())
        return self._comm

    def _hear(self, data: dict[str, Any]) -> None:
        for hear in self._listeners:
            hear(data)

        for view in self.views:
            is_for_it = view.awake and data["path"] == view.path
            if is_for_it and (reply := view.answer(data)):
                if view.slow:
                    Timer(view.slow, self.send, (view, reply)).start()
                else:
                    self.send(view, reply)


def _run_in_thread(work: Callable[[], None]) -> None:
    """Run `work` in a thread, to its end."""
    thread = Thread(target=work)
    thread.start()
    thread.join()

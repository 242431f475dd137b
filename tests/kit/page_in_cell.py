"""Code that tests load into a kernel: a conversation and its store, without magics."""

from __future__ import annotations

import threading
import time
from typing import Any

from IPython import get_ipython

from jp_nb.notebook.page import notebook_storage
from jp_nb.record.entries.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.stream import ConversationStream
from jp_nb.session.host import NotebookStorage, OpenedConversation

home: NotebookStorage
opened: OpenedConversation
handshake = 0.0


def begin(*, timeout: float = 30.0, **options: Any) -> None:
    """Load the extension as `%load_ext` does, with longer timeouts for a busy machine."""
    global home, opened, handshake
    started = time.perf_counter()
    home = notebook_storage.find_storage(get_ipython(), timeout=timeout)
    handshake = time.perf_counter() - started
    opened = home.open(**options)
    opened.document.conversation.on_change = opened.store.changed
    turns = opened.document.conversation.turn_count
    print(f"{opened.store.location}; {f'restored, {turns} turns' if opened.restored else 'new'}")
    for notice in opened.notices:
        print("notice:", notice)


def say(text: str, answer: str = "Yes.") -> None:
    """Append one turn from another thread, as the agent does."""

    def turn() -> None:
        stream = opened.document.conversation
        stream.start_turn(ChatRequest(content=text))
        stream.append(ChatResponse(message=answer))

    in_thread(turn)


def use_tool(arguments: dict[str, Any]) -> None:
    """Append a turn with a tool call that has these arguments."""
    stream = opened.document.conversation
    stream.start_turn(ChatRequest(content="Use the tool."))
    stream.append(ToolCallRequest(id="call_1", name="tool", arguments=arguments))
    stream.append(ToolCallResponse(id="call_1", content="done", is_error=False))


def in_thread(work: Any) -> None:
    """Run `work` in another thread, as the agent does."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def new() -> None:
    """Start a conversation, as `%jp new` does."""
    document = opened.document
    taken = document.ids()
    made = document.conversation.properties["made"]
    document.archive_active()
    document.conversation = ConversationStream.new(
        clock=utc_now,
        made=made,  # type: ignore[arg-type]  # it was made with one of these
        taken_ids=taken,
    )
    document.conversation.on_change = opened.store.changed
    opened.store.replaced()


def flushed(timeout: float = 10.0) -> None:
    """Wait until the storage backend has all entries, and print the result."""
    print("flushed" if opened.store.flush(timeout) else f"not flushed: {opened.store.location}")

"""The delivery of a record to a page, and the pages that a kernel knows, without threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jp_nb.notebook.page.delivery import PageDelivery
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.hello_reader import HelloReader
from jp_nb.notebook.page.known_pages import Pages
from jp_nb.notebook.page.protocol import MessageNumbering
from jp_nb.record.documents.document import Document
from tests.kit.records import new_event


class RecordDelivery:
    """The delivery of a document that has one conversation, `jp-c1`, to a page with no record.

    Each time is given as a number of seconds. A message that is not answered is repeated after 1 s.
    """

    def __init__(self, new_stream: Any) -> None:
        self._new_stream = new_stream
        self._document = Document(new_stream())
        self._delivery = PageDelivery(MessageNumbering(), resend=1.0, page="page-1")
        self._delivery.set_document(self._document)
        self._delivery.set_other_record("")  # an empty notebook

    # --- the record ------------------------------------------------------------------------------

    def say(self, *texts: str) -> None:
        """Start a turn for each text. `send_changes` delivers them."""
        for text in texts:
            self._document.conversation.start_turn(new_event("chat_request", content=text))

    def begin(self, name: str) -> None:
        """Begin the conversation `name`. `send_all` delivers it."""
        self._document.archive_active()
        self._document.conversation = self._new_stream()
        self._document.conversation.properties["id"] = name

    def take_record(self, other: RecordDelivery) -> None:
        """Continue with the record of `other`."""
        self._document = other._document
        self.keep()

    def retitle(self, title: str) -> None:
        """Set the title of the active conversation."""
        self._document.conversation.properties["title"] = title

    def sign(self, signature: str) -> None:
        """Set the signature of the record."""
        self._document.extra["signature"] = signature

    def repair(self) -> None:
        """Repair the active conversation, and deliver the whole record."""
        self._document.conversation.repair()
        self.send_all()

    @property
    def record(self) -> Any:
        """The stored form of the record."""
        return self._document.to_json()

    @property
    def entries(self) -> list[Any]:
        """The stored entries of the active conversation."""
        return self._document.conversation.raw

    # --- the kernel's side -----------------------------------------------------------------------

    def send_changes(self) -> None:
        """Deliver the appended entries, and the head if it changed."""
        self._delivery.send_changes(self._document)

    def send_all(self) -> None:
        """Deliver the whole record, because another conversation is active."""
        self._delivery.send_all(self._document)

    def keep(self) -> None:
        """Take the record as it is, without delivering it."""
        self._delivery.set_document(self._document)

    def hurry(self) -> None:
        """Deliver what is pending without waiting for the next batch."""
        self._delivery.skip_interval()

    def next_message(self, now: float = 0.0) -> Any:
        """Return the message that is sent at the time `now`, or None."""
        return self._delivery.next_message(now)

    @property
    def next_due(self) -> float | None:
        """The time of the next message, or None."""
        return self._delivery.next_due

    @property
    def is_settled(self) -> bool:
        """True if the page has everything."""
        return self._delivery.is_settled

    @property
    def is_silent(self) -> bool:
        """True if the page did not answer the last message in time."""
        return self._delivery.is_silent

    @property
    def latency(self) -> float | None:
        """Seconds from the last message to its answer."""
        return self._delivery.latency

    # --- the page's side -------------------------------------------------------------------------

    def acknowledge(self, answer: Mapping[str, Any], now: float = 0.0) -> None:
        """Answer a message with an `ack`."""
        self._delivery.handle_ack({"page": self._delivery.page, **answer}, now)

    def refuse(self, answer: Mapping[str, Any]) -> None:
        """Answer a message with a `nack`."""
        self._delivery.handle_nack({"page": self._delivery.page, **answer})

    def report(self, stored: Any, state: str = "loaded", **segments: Any) -> bool:
        """Report the page's keys; return False if its entries are different ones."""
        keys = {"jp": stored, **segments}
        hello = Hello("page-1", "talk.ipynb", state=state).with_content({"keys": keys})
        self._delivery.set_content(hello.make_copy())
        found = hello.document
        assert isinstance(found, dict)
        return self._delivery.match_record(found)

    def find_state(self, state: str) -> tuple[str, int] | None:
        """Return the conversation and the number of entries in a state of the page."""
        return self._delivery.content.find_state(state)

    def count_states(self) -> int:
        """Return the number of states that are remembered."""
        return len(self._delivery.content._states)

    def deliver(self, now: float = 0.0) -> list[dict[str, Any]]:
        """Return all messages at the time `now`, each of them acknowledged."""
        got = []
        while message := self.next_message(now):
            got.append(message)
            self.acknowledge(message, now)

        return got

    def write_with(self, page: str) -> None:
        """Let `page` write the document that pages share. A message under way is dropped."""
        self._delivery.page = page
        self._delivery.is_shared = True
        self._delivery.discard_transfer()


class KnownPages:
    """The pages of a notebook, `talk.ipynb`, by name. A page that is silent for 1 s is left."""

    def __init__(self, *, collaborative: bool = False) -> None:
        self._pages = Pages(patience=1.0)
        self._reader = HelloReader()
        self._common = {"path": "talk.ipynb", "collaborative": collaborative}

    def follow(self, page: str, **fields: Any) -> None:
        """Follow `page`."""
        self._pages.follow(self._hello(page, fields))

    def join(self, page: str, **fields: Any) -> None:
        """Add `page`."""
        self._pages.join(self._hello(page, fields))

    def leave(self, page: str) -> bool:
        """Remove `page`; return True if others remain, which should say hello."""
        return self._pages.leave(page)

    def silence(self) -> None:
        """Let the followed page not answer."""
        self._pages.followed.is_silent = True

    def hear(self, page: str, path: str | None = None) -> bool:
        """Note a message of `page`, a `hello` with a `path`; return True if it is a known page."""
        return self._pages.record_message(page, path)

    def read(self, message: Mapping[str, Any]) -> Any:
        """Return the whole record of a page once its last piece arrives in a `message`."""
        hello = self._reader.read(message)
        return None if hello is None else {"document": hello.document}

    def is_reader(self, page: str, **fields: Any) -> bool:
        """Return True if `page` only reads the document that it shares with the followed one."""
        return self._pages.followed.is_reader(self._hello(page, fields))

    def should_follow(self, page: str, **fields: Any) -> bool:
        """Return True if `page` shows the followed notebook."""
        return self._pages.followed.has_path(self._hello(page, fields).path)

    def note_candidate(self, page: str, stream: str, **fields: Any) -> bool:
        """Note a page of another notebook, at time 0, which may have the conversation `stream`."""
        return self._pages.consider_candidate(self._hello(page, fields), stream, 0.0)

    def take_candidate(self, now: float) -> str | None:
        """Return the candidate that is followed at the time `now`."""
        found = self._pages.followed.find_due_candidate(now)
        return None if found is None else found.page

    def take_lacking(self) -> list[tuple[str, str]]:
        """Return the pages that lack outputs since the last call, with the request of the cell."""
        found = [(lacking.page, lacking.request) for lacking in self._pages.lacking_pages]
        self._pages.lacking_pages.clear()
        return found

    def writes_outputs(self, page: str, session: str) -> bool:
        """Return True if `page` must write the outputs of cells that `session` ran."""
        return self._pages.shared.take_over_outputs(page, session)

    def is_asked(self, session: str, now: float) -> bool:
        """Miss an output of `session` at the time `now`; return True if its page is asked."""
        return self._pages.note_missing_outputs(session, now)

    def _hello(self, page: str, fields: Mapping[str, Any]) -> Hello:
        return Hello(page, **{**self._common, "shared_session": f"session of {page}", **fields})

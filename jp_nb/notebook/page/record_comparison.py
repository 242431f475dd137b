"""Compare the record of a page with the kernel's document, and decide if the page may be written.

Several pages may show a notebook. The *followed* one is the page in which the kernel keeps the
record. It says `hello` with the record that it holds, perhaps that of an earlier kernel:

- If another conversation is active there than in the document, the document gets all conversations
  that it lacks. So the next write loses none.
  The write replaces the record of the page. It does not send a conversation that the page holds
  (`stored`), but tells the page to keep it.
- If the same one is active, its entries must be the beginning of those in the document. Otherwise
  nothing is written to the page (`page_refusal.py` has the other reasons).

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.page_deliveries import PageDeliveries
from jp_nb.notebook.page.page_refusal import DIVERGED, PageRefusal, find_refusal
from jp_nb.record.documents.conversation_comparison import find_uncovered
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import (
    as_other,
    get_conversation_id,
    get_conversations,
    split_damaged,
)


class RecordComparison:
    """The document of `LiveStore`, and the reason not to write it, if there is one.

    Not thread-safe: hold the lock of the link in all methods.

    Attributes:
        document: The document to write; None before `LiveStore.attach`.
        refusal: The reason to write nothing; None if the followed page may be written.
    """

    def __init__(self, deliveries: PageDeliveries, refusal: PageRefusal) -> None:
        self.document: Document | None = None
        self.refusal: PageRefusal | None = refusal
        self._deliveries = deliveries
        self._notices: list[str] = []

    def compare(self, hello: Hello) -> None:
        """Compare the record of the followed page, which says `hello`, with the document.

        Conversations that only the page has are added to the document.
        """
        document = self.document
        if document is None:
            return

        self.refusal = find_refusal(hello, document)
        if self.refusal:
            return

        stored = hello.document if isinstance(hello.document, dict) else {}
        active_in_page = get_conversation_id(stored)
        delivery = self._deliveries.followed
        if active_in_page != delivery.stream:  # the id of the kernel's active conversation
            self._add_missing_conversations(document, stored)
            # The next write replaces the record, except the conversations that the page holds.
            delivery.set_other_record(active_in_page, stored)
        elif not delivery.match_record(stored):  # the entries differ
            self.refusal = PageRefusal(DIVERGED, delivery.stream, as_other(stored))

    def _add_missing_conversations(self, document: Document, stored: JsonObject) -> None:
        """Keep the conversations of the page that the document does not contain.

        A conversation whose entries are the beginning of those in the document is contained.
        """
        missing = find_uncovered(document.to_json(), get_conversations(stored))
        if not missing:
            return

        document.others += missing
        self._deliveries.set_document(document)
        self.add_notice(
            "The notebook contains a conversation that this kernel did not have. "
            "It is kept: `%jp log` lists it."
        )

    def end_refusal(self, document: Document) -> None:
        """End the refusal if it does not concern the conversation that is now active.

        The user may have started a new conversation, because the one of the page has diverged. The
        record of the page (`refusal.preserved`) is kept among the other conversations.
        """
        refusal = self.refusal
        if refusal is None or not refusal.is_ended_by(document.conversation.id):
            return

        # The record becomes one of the other conversations, and so does each one inside it.
        document.others += split_damaged(refusal.preserved)
        # It may be damaged, so the page keeps no conversation of it: the next write sends all.
        self._deliveries.followed.set_other_record(get_conversation_id(refusal.preserved))
        self.refusal = None

    def add_notice(self, notice: str) -> None:
        """Add a notice for the user."""
        self._notices.append(notice)

    def add_notice_once(self, notice: str) -> None:
        """Add a notice, unless the user is about to read the same one."""
        if notice not in self._notices:
            self._notices.append(notice)

    def take_notices(self) -> list[str]:
        """Return the new notices since the last call."""
        notices = self._notices
        self._notices = []
        return notices

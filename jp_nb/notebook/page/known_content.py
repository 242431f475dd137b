"""The content that a page is known to hold, now and in its earlier states.

A page says its content in `hello` (`report`). The kernel compares it with its document before the
first write (`compare_same_conversation` or `set_other_conversation`). Later, the content is known
from the writes that the page has acknowledged (`set_written`).

The page names each content with a *state*. If it says that it has saved a state, the kernel looks
up which entries are in the file. The notebook may have changed since, so earlier states count too.

- The *head* of a record is all of it but its entries and other conversations.
- A *whole write* replaces the record in the page; other writes only append entries, and may change
  the head. A whole write does not send the conversations that the page holds unchanged (`held`):
  the page copies them.
- A *repair* of the kernel's document changes earlier entries, such as damaged ones.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.document_snapshot import DocumentSnapshot
from jp_nb.notebook.page.page_copy import PageCopy, find_held, format_head
from jp_nb.notebook.page.stored_keys import StoredKeys
from jp_nb.record.documents.conversation_comparison import starts_with
from jp_nb.record.documents.record_shape import get_events

MAX_KNOWN_STATES = 1_024
"""Limit of the states of a page that are remembered, for saves that take long."""


class KnownContent:
    """The content of one page, compared with the kernel's document. Not thread-safe.

    In all methods, `target` is the newest snapshot of the kernel's document, and `stored` the whole
    record of the page: its `hello` may have it in several keys of the notebook's metadata.

    Attributes:
        is_outdated: True if the page may still hold a document that a whole write must replace. It
            is not enough to append entries to it. It ends when such a write is acknowledged.
    """

    def __init__(self) -> None:
        self.is_outdated = False
        self._latest = PageCopy("", StoredKeys())  # empty before the page says its content
        self._is_compared = False

        # By the names of the page's states, the oldest first: the active conversation of the page
        # in that state, and the number of its entries.
        self._states: dict[str, tuple[str, int]] = {}

    @property
    def copy(self) -> PageCopy | None:
        """The compared content; None before. Nothing is written to a page without a copy."""
        return self._latest if self._is_compared else None

    def report(self, copy: PageCopy) -> None:
        """Set the content that a `hello` reports. It is not compared yet."""
        self._latest = copy
        self._is_compared = False

    def set_other_conversation(
        self, stream: str, stored: JsonObject | None, target: DocumentSnapshot
    ) -> None:
        """Note that another conversation, with the id `stream`, is active in the page.

        A whole write will replace the record. No conversation is lost, because the caller has
        already added those of the page to the kernel's document.

        `stored` is None if the record is unknown or unreadable: then the page copies nothing.
        """
        copy = self._latest
        copy.stream = stream
        copy.length = len(get_events(stored or {}))
        copy.head_text = ""  # unknown
        if stored is not None:
            copy.held = find_held(target.others, stored)

        self._end_comparison()

    def compare_same_conversation(
        self, stored: JsonObject, target: DocumentSnapshot, *, head_counts: bool
    ) -> bool:
        """Compare `stored`, a record in which the conversation of `target` is active.

        Return False, and leave the content uncompared, if its entries are not the first ones of the
        target: nothing may be written then. But if the content is outdated, other entries are
        expected. A whole write replaces them.

        Without `head_counts`, another head is no difference: as long as the user has changed
        nothing, the page is not written.
        """
        copy = self._latest
        events = get_events(stored)

        if starts_with(target.entries[: target.length], events):
            copy.length = len(events)
            # A head that does not count is noted as equal to that of the target (`lacks`).
            copy.head_text = format_head(stored) if head_counts else target.head_text
            copy.held = find_held(target.others, stored)
        elif self.is_outdated:  # the kernel's document was repaired, and is not in the page yet
            copy.length = 0
            copy.head_text = ""  # unknown
        else:
            return False

        copy.stream = target.stream
        self._end_comparison()
        return True

    def _end_comparison(self) -> None:
        self._is_compared = True
        self._remember_state()

    def mark_outdated(self, target: DocumentSnapshot) -> None:
        """Note that the page needs a whole write: the document was replaced by `target`.

        Another conversation is active, or the entries of the same one were repaired.
        """
        self.is_outdated = True
        if self._is_compared and self._latest.stream == target.stream:
            # Repaired. The page must not copy its old entries, if another conversation becomes
            # active before the write: it copies a conversation only if it has the same head.
            self._latest.head_text = ""

        self._states.clear()  # a save of the old document is not one of the new

    def set_written(self, result: PageCopy, *, is_whole: bool) -> None:
        """Set the `result` of an acknowledged write, which `is_whole` if it wrote everything."""
        self._latest = result
        if is_whole:
            self.is_outdated = False

        self._remember_state()

    def lacks(self, target: DocumentSnapshot) -> bool:
        """Return True if the compared content differs from `target`."""
        copy = self._latest
        if copy.stream != target.stream:
            # A page without a record (`stream` is "") lacks nothing of an empty document.
            return bool(copy.stream or target.length or target.others)

        if self.is_outdated or copy.length < target.length:
            return True
        return copy.head_text != target.head_text

    # --- states ------------------------------------------------------------------------------

    def _remember_state(self) -> None:
        """Remember the entries that the page has in its state, for a save that it reports later."""
        if self.is_outdated:
            return  # it has entries of the old document

        copy = self._latest
        self._states.pop(copy.state, None)  # it becomes the newest one
        self._states[copy.state] = (copy.stream, copy.length)
        if len(self._states) > MAX_KNOWN_STATES:
            del self._states[next(iter(self._states))]

    def find_state(self, state: str) -> tuple[str, int] | None:
        """Return the active conversation and its number of entries in a state of the page.

        None if the page is not known to have had this state.
        """
        return self._states.get(state)

    @property
    def delivered(self) -> tuple[str, int]:
        """The id of the page's active conversation, and its number of entries in the page.

        `("", 0)` before the content is compared.
        """
        return (self._latest.stream, self._latest.length) if self._is_compared else ("", 0)

"""The entries of the record that the notebook file is known to have.

The journal of a conversation, its log for the case that the kernel dies, may forget these entries.
A page says which state of its notebook it has saved. `KnownContent.find_state` knows how many
entries the page had in that state, so a page cannot claim more.

Source: `docs/protocol.md`, `docs/record.md`.
"""

from __future__ import annotations


class SavedEntries:
    """The entries in the file. Not thread-safe.

    Attributes:
        conversation: The id of the conversation that is active in the file; "" if unknown.
        count: The number of its entries in the file.
    """

    def __init__(self) -> None:
        self.conversation = ""
        self.count = 0

    def set_saved(self, conversation: str, count: int) -> None:
        """Set the entries in the file."""
        self.conversation = conversation
        self.count = count

    def lower_count(self, conversation: str, count: int) -> None:
        """Lower the count to that of a file that a page has loaded, which may be an older one."""
        if conversation == self.conversation:
            self.count = min(self.count, count)

    def forget_entries(self) -> None:
        """Assume that the file has no entry: the entries may have changed."""
        self.set_saved("", 0)

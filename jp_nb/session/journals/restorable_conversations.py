"""Conversations that only a journal of an earlier kernel has, and `%jp resume` can restore.

`Recovery` (`journal_recovery.py`) finds the journals when a kernel opens the notebook. They stay on
the disk, unlocked, until a conversation is restored.

A journal may begin in the middle of a conversation. Its header has the number of earlier entries
(`base`), which are in a copy of the conversation in the notebook, and their digest.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_conversation_id
from jp_nb.record.documents.signing import SIGNATURE_KEY
from jp_nb.record.entries.events import RawEntry
from jp_nb.record.unfinished_calls import CallProgress
from jp_nb.session.journals.journal_matching import collect_copies, is_of_place
from jp_nb.storage.journals.journal_file import take_journal
from jp_nb.storage.journals.journal_format import JournalContents, read_journal
from jp_nb.text import one_line


@dataclass(frozen=True, slots=True)
class RestorableConversation:
    """A conversation in a journal.

    Attributes:
        path: The journal.
        stored: The conversation as a notebook stores it.
        calls: Progress of its tool calls without a response, by the event ids of their requests.
    """

    path: Path
    stored: JsonObject
    calls: dict[str, CallProgress]

    @property
    def id(self) -> str:
        """Id of the conversation."""
        return get_conversation_id(self.stored)


class RestorableConversations:
    """The conversations of journals that the notebook does not have. Use it on the cell's thread.

    Args:
        document: All conversations of the notebook.
        get_notebook: Returns the path of the notebook; "" if there is none.
        kernel_folder: The kernel's folder, if no notebook keeps the conversation; else "".

    Attributes:
        has_notebook_journals: True if some journals are of the notebook, and not only of kernels
            without a notebook in the same folder.
    """

    def __init__(
        self, document: Document, *, get_notebook: Callable[[], str], kernel_folder: str
    ) -> None:
        self._document = document
        self._get_notebook = get_notebook
        self._kernel_folder = kernel_folder
        self._paths: list[Path] = []  # of the journals, newest first
        self.has_notebook_journals = False

    def set_journals(self, paths: Sequence[Path], *, has_notebook_journals: bool) -> None:
        """Set the journals that earlier kernels left, newest first."""
        self._paths = list(paths)
        self.has_notebook_journals = has_notebook_journals

    def find(self, name: str = "") -> RestorableConversation | None:
        """Return the newest conversation, or the one whose id is `name` or begins with it.

        Journals that cannot be restored any more are forgotten.

        Raises:
            StorageError: There is one, but it cannot be read.
            UsageError: Several ids begin with `name`.
        """
        matches: list[RestorableConversation] = []
        for path in list(self._paths):
            conversation = self._read(path)
            if conversation is None:
                self._paths.remove(path)
                continue

            if not name or conversation.id == name:
                return conversation
            if conversation.id.startswith(name):
                matches.append(conversation)

        # Kernels that had the same conversation open have left a journal each.
        ids = dict.fromkeys(match.id for match in matches)
        if len(ids) > 1:
            listed = ", ".join(one_line(conversation_id, limit=60) for conversation_id in ids)
            raise UsageError(f"several conversations have an id that begins like this: {listed}")
        return matches[0] if matches else None

    def _read(self, path: Path) -> RestorableConversation | None:
        """Return the conversation of a journal; None if it cannot be restored any more.

        Then another process has the journal, it is damaged, or entries before it are missing.
        """
        file = take_journal(path)  # locks it
        if file is None:
            return None

        try:
            contents = read_journal(file.read())
        except OSError as exc:
            raise StorageError(f"{file.path} cannot be read: {exc.strerror or exc}") from exc
        finally:
            file.close()

        if contents is None:
            return None
        earlier_entries = self._find_earlier_entries(contents)
        if earlier_entries is None:
            return None

        header = contents.header
        events: list[JsonValue] = [*earlier_entries, *contents.entries]
        stored: JsonObject = {
            "conversation": header.conversation,
            "base_config": header.base_config,
            "events": events,
        }
        if contents.signature:
            stored[SIGNATURE_KEY] = contents.signature
        return RestorableConversation(path, stored, contents.calls)

    def _find_earlier_entries(self, contents: JournalContents) -> list[RawEntry] | None:
        """Return the entries before the journal, from a copy in the notebook; None without one."""
        header = contents.header
        copies: list[list[RawEntry]] = [[]]
        if header.base:  # else the journal begins with the first entry, and needs no copy
            known = collect_copies(self._document.others, self._document.conversation)
            copies = known.get(header.id, [])

        for raw in copies:
            if contents.continues_from(raw):  # compares the digests of the earlier entries
                return raw[: header.base]
        return None

    def remove_restored(self, conversation: RestorableConversation) -> None:
        """Remove the old journal of a restored conversation: the active journal has its entries.

        The journal of another notebook stays, because that notebook may exist again later.
        """
        self._paths.remove(conversation.path)
        file = take_journal(conversation.path)
        if file is None:  # another process has taken it since
            return

        header = file.read_header()
        is_own = header is not None and is_of_place(
            header, self._get_notebook(), self._kernel_folder
        )
        file.close(remove=is_own)

"""Write one conversation to its journal file: append new entries, or rewrite the file.

Two numbers tell where the entries of the conversation are:

    entries from   0 to base           base to written     written to the end
    are in the     notebook file       journal file        memory only, until the next write

The file is rewritten as a whole in four cases:

- The record was repaired: the file gets the entries from the first changed one on.
- The notebook was renamed: the header of the file has its path.
- The notebook file has the written entries: the file needs only the new ones, so the base rises.
- The user put an older notebook file back, which lacks entries before the base: the base falls.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.signing import SIGNATURE_KEY
from jp_nb.record.unfinished_calls import CallProgress
from jp_nb.storage.journals.journal_file import JournalFile
from jp_nb.storage.journals.journal_folder import JournalFolder, get_file_identity
from jp_nb.storage.journals.journal_format import (
    EntriesDigest,
    JournalContents,
    JournalHeader,
    format_call_lines,
    format_entry_lines,
    format_journal_line,
)


class JournalWriter:
    """Writes the active conversation of `document` to one journal file.

    `ConversationJournal` makes a new one for each conversation that becomes active, and calls it
    with its lock held. A method that writes raises `OSError` or `StorageError` if that fails. The
    next write then tries again.

    Args:
        base: Number of entries that the notebook already has.
        notebook: Path of the notebook; "" if there is none.
        find_notebook: Returns the current path of the notebook, which may be renamed.
        count_saved_entries: Returns how many entries of a conversation are in the notebook file.
        kernel_folder: The kernel's folder, if no notebook keeps the conversation; else "".

    Attributes:
        stream: The conversation.
        notebook: Path of the notebook in the header of the file.
        calls: Progress of tool calls without a response, by the event ids of their requests.
    """

    def __init__(
        self,
        document: Document,
        folder: JournalFolder,
        *,
        base: int,
        notebook: str,
        find_notebook: Callable[[], Path | None],
        count_saved_entries: Callable[[str], int],
        kernel_folder: str,
    ) -> None:
        self._document = document
        self._folder = folder
        self._find_notebook = find_notebook
        self._count_saved_entries = count_saved_entries
        self._kernel_folder = kernel_folder
        self.stream = document.conversation
        self.notebook = notebook
        self.calls: dict[str, CallProgress] = {}

        # The file is created when something must be written.
        self._file: JournalFile | None = None
        # The two numbers of the module text. Without a file, they are equal.
        self._base = base
        self._written = base
        # Computes the digest of the entries before the base, by which a reader of the file finds
        # out if a notebook has them.
        self._base_digest = EntriesDigest()
        # The properties of the conversation, and its signature, as the file has them.
        self._written_state: tuple[JsonObject, JsonValue] = {}, None
        # The list of entries at the last write. A repair of the record makes another list.
        self._raw = self.stream.raw
        # Number of entries that only the notebook file has, because this object dropped them from
        # the journal file.
        self._dropped_count = 0
        # After a repair, the number of entries in the notebook file. While it is unchanged, the
        # notebook may not have been saved since, and have the entries as they were before. None
        # without a repair, and as soon as the number has changed.
        self._count_at_repair: int | None = None

    @property
    def has_file(self) -> bool:
        """True if there is a journal file."""
        return self._file is not None

    @property
    def base(self) -> int:
        """Number of entries before the first one of the file."""
        return self._base

    def continue_in(self, file: JournalFile, contents: JournalContents) -> None:
        """Continue in a `file` that this kernel or an earlier one wrote."""
        if contents.unreadable_bytes:
            file.cut(contents.size)

        self._file = file
        self._base = contents.header.base
        self._written = contents.length
        self._written_state = contents.header.conversation, contents.signature
        self.calls = dict(contents.calls)

    def include_all_entries(self) -> None:
        """Let the file that is created later have all entries, also those of the notebook."""
        self._base = 0
        self._written = 0

    def write(self) -> None:
        """Write what the file lacks: entries, properties, or the signature.

        Without a file, one is created if the notebook lacks entries, or a tool call is open.
        """
        if self.stream is not self._document.conversation:
            raise StorageError("another conversation is active")

        is_repaired = self.stream.raw is not self._raw
        if is_repaired:
            self._rewrite_after_repair()

        is_rewritten = self._follow_notebook()
        if is_rewritten:  # with everything
            return

        self._forget_answered_calls()
        if not self._must_write():
            return

        if self._file is None:
            self._file = self._folder.create(self.stream.id, self.notebook)
        self._write_to(self._file)

    def _must_write(self) -> bool:
        stream = self.stream
        signature = self._document.extra.get(SIGNATURE_KEY)
        has_same_state = (stream.properties, signature) == self._written_state
        if len(stream.raw) == self._written and has_same_state:
            return False

        notebook_has_everything = len(stream.raw) == self._base and not self.calls
        return self._file is not None or not notebook_has_everything

    def _write_to(self, file: JournalFile) -> None:
        has_new_entries = len(self.stream.raw) > self._written
        has_written_entries = self._written > self._base

        if not file.size:  # a new file
            self._rewrite(self._base)
        elif has_new_entries and has_written_entries and self._is_saved(self._written):
            # The notebook file has the written entries, so this file drops them.
            self._rewrite(self._written)
            self._dropped_count = self._base
        else:
            self._append(file)

    def _append(self, file: JournalFile) -> None:
        stream = self.stream
        signature = self._document.extra.get(SIGNATURE_KEY)
        lines = format_entry_lines(stream.raw[self._written :])
        if stream.properties != self._written_state[0]:
            lines = format_journal_line(conversation=stream.properties) + lines

        file.append(lines + format_journal_line(signature=signature))
        self._written = len(stream.raw)
        self._written_state = (dict(stream.properties), signature)

    def write_progress(self, progress: Mapping[str, CallProgress], *, creates_file: bool) -> None:
        """Write the progress of tool calls, by the event ids of their requests.

        It is on the disk before a tool starts (`fsync`), so that the next kernel knows that the
        tool may have run. Without `creates_file`, it is only written if there is a file.
        """
        self.calls.update(progress)

        is_begun = self._file is not None and self._file.size > 0
        if creates_file and not is_begun:
            self.write()  # with the progress of all calls
        elif self._file is not None:
            # Each line has the signature: a reader ignores lines after the last signature.
            _, signature = self._written_state
            self._file.append(format_call_lines(signature, progress))

        has_started = any(call.stage == "started" for call in progress.values())
        if self._file is not None and has_started:
            self._file.sync()

    def rewrite(self, *, with_all_entries: bool = False) -> None:
        """Rewrite the file with the current notebook, signature, and calls.

        It keeps its first entry, or gets all entries of the conversation.
        """
        base = 0 if with_all_entries else self._base
        self._rewrite(base)

    def _rewrite_after_repair(self) -> None:
        """Rewrite the file from the first entry that a repair has changed."""
        repaired = self.stream.raw
        self._count_at_repair = self._count_saved_entries(self.stream.id)

        unchanged_count = min(len(self._raw), len(repaired))
        for index, (old, new) in enumerate(zip(self._raw, repaired, strict=False)):
            if old is not new:
                unchanged_count = index
                break

        self._rewrite(min(self._base, unchanged_count))

    def _follow_notebook(self) -> bool:
        """Rewrite the file if the notebook was renamed, or an older version of it restored.

        Return True if there is a file, and it was rewritten.
        """
        path = str(self._find_notebook() or self.notebook)
        is_renamed = path != self.notebook
        if is_renamed:
            self.notebook = path
            self._rewrite(self._base)

        saved_count = self._count_saved_entries(self.stream.id)
        # The notebook file lacks entries that it had when this file dropped them.
        is_older = saved_count < self._dropped_count
        if is_older:
            self._dropped_count = 0
            self._rewrite(min(saved_count, self._base))

        return (is_renamed or is_older) and self._file is not None

    def _rewrite(self, base: int) -> None:
        """Rewrite the file, if there is one, with the entries from `base` on.

        Without a file, only `_raw`, `_base`, and `_written` change, and the next file begins at
        `base`. If the file cannot be written, it and this object are unchanged.
        """
        raw = self.stream.raw
        written = base
        if self._file is not None:
            signature = self._document.extra.get(SIGNATURE_KEY)
            header = self._make_header(base)
            entries = format_entry_lines(raw[base:]) + format_journal_line(signature=signature)
            calls = format_call_lines(signature, self.calls)

            self._file.rewrite(header.format_line() + entries + calls)
            self._written_state = (dict(self.stream.properties), signature)
            written = len(raw)

        self._raw = raw
        self._base = base
        self._written = written

    def _make_header(self, base: int) -> JournalHeader:
        folder = "" if self.notebook else self._kernel_folder
        return JournalHeader(
            conversation=self.stream.properties,
            base_config=self.stream.base_config,
            notebook=self.notebook,
            file=get_file_identity(self.notebook),
            base=base,
            base_digest=self._base_digest.compute(self.stream.raw, base),
            folder=folder,
        )

    def _forget_answered_calls(self) -> None:
        if self.calls and not self.stream.list_open_tool_calls():
            self.calls = {}

    def _is_saved(self, count: int) -> bool:
        """Return True if the notebook file has the first `count` entries as they are now.

        Only the number of saved entries is known. After a repair, the same number as before may
        mean that the file still has the entries before the repair.
        """
        saved_count = self._count_saved_entries(self.stream.id)
        if saved_count == self._count_at_repair:
            return False

        self._count_at_repair = None  # the notebook was saved since the repair, if there was one
        return saved_count >= count

    def discard(self) -> None:
        """Remove the file. A later one has only later entries."""
        if self._file is not None:
            self._file.close(remove=True)
            self._file = None

        self._base = len(self._raw)
        self._written = self._base

    def close(self) -> Path | None:
        """Close the file. Remove it if the notebook file has everything; else return its path."""
        file = self._file
        if file is None:
            return None

        self._forget_answered_calls()
        is_saved = self._is_saved(len(self.stream)) and not self.calls
        file.close(remove=is_saved)
        self._file = None
        return None if is_saved else file.path

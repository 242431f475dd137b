"""The journal of the active conversation: a log of its entries, for the case that a kernel dies.

An entry is written to the journal before the storage backend gets it, and before a tool starts. A
write failure is reported once and does not end the turn.

`ConversationJournal` decides which journal file is used: a new one, that of an earlier kernel, or
the one that this kernel wrote before the user switched conversations. `JournalWriter`
(`journal_writer.py`) writes the file, `journal_format.py` has its lines, and `journal_recovery.py`
reads the journals that earlier kernels left.

A journal has the entries from a number on, its *base*: the notebook has those before.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.signing import SIGNATURE_KEY
from jp_nb.record.unfinished_calls import CallProgress
from jp_nb.session.journals.journal_matching import iter_journals_of
from jp_nb.session.journals.journal_recovery import OpenJournal, Recovery
from jp_nb.session.journals.journal_writer import JournalWriter
from jp_nb.session.journals.restorable_conversations import RestorableConversations
from jp_nb.session.threads.interrupt_lock import InterruptSafeLock
from jp_nb.storage.journals.journal_file import take_journal
from jp_nb.storage.journals.journal_folder import JournalFolder, get_file_identity
from jp_nb.storage.journals.journal_format import JournalHeader, read_journal


class ConversationJournal:
    """The journal of the active conversation of one notebook.

    Every public method is safe from any thread, and no interrupt ends one halfway: each takes
    `_lock`, which guards all state here and the writer. Private methods expect it held.

    Args:
        document: All conversations of the notebook.
        find_notebook: Returns the current path of the notebook; None if there is none.
        stored_count: Number of entries of the active conversation that the notebook already has.
        count_saved_entries: Returns how many entries of a conversation the notebook file is known
            to have.
        notices: Receives notices for the user.
        kernel_folder: The kernel's folder, if no notebook keeps the conversation; else "".

    Attributes:
        has_failed: True if a write has failed.
        restorable: The conversations in journals of earlier kernels that the notebook lacks.
    """

    def __init__(
        self,
        document: Document,
        *,
        find_notebook: Callable[[], Path | None],
        stored_count: int,
        count_saved_entries: Callable[[str], int],
        notices: list[str],
        kernel_folder: str,
    ) -> None:
        self._document = document
        self._find_notebook = find_notebook
        self._count_saved_entries = count_saved_entries
        self._notices = notices
        self._folder = JournalFolder()
        self._kernel_folder = kernel_folder
        self._lock = InterruptSafeLock()
        self._is_wanted = False  # True after `write`, False after `discard`
        self.has_failed = False

        # Files of conversations that were active before in this kernel, by conversation.
        self._closed_paths: dict[str, list[Path]] = {}
        self._writer = self._make_writer(str(find_notebook() or ""), base=stored_count)
        self.restorable = RestorableConversations(
            document, get_notebook=lambda: self._writer.notebook, kernel_folder=kernel_folder
        )

    def _make_writer(self, notebook: str, *, base: int) -> JournalWriter:
        """Return a writer for the active conversation, whose first `base` entries are stored."""
        return JournalWriter(
            self._document,
            self._folder,
            base=base,
            notebook=notebook,
            find_notebook=self._find_notebook,
            count_saved_entries=self._count_saved_entries,
            kernel_folder=self._kernel_folder,
        )

    @property
    def calls(self) -> Mapping[str, CallProgress]:
        """Progress of tool calls without a response, by the event ids of their requests."""
        return self._writer.calls

    def recover(self) -> bool:
        """Append the entries that only the journal has; return True if there were any."""
        with self._lock:
            try:
                return self._recover()
            except (OSError, StorageError) as exc:
                self._notices.append(f"journals of earlier kernels cannot be read: {exc}")
                return False

    def _recover(self) -> bool:
        """Sort the journals of earlier kernels: resume one, and offer the others to `%jp resume`.

        `recovery.candidates` are the others. `recovery.in_folder` are those without a notebook.
        """
        notebook = self._writer.notebook
        recovery = Recovery(
            self._folder, self._document, notebook=notebook, kernel_folder=self._kernel_folder
        )
        self._notices += recovery.notices
        self.restorable.set_journals(
            recovery.candidates,
            has_notebook_journals=len(recovery.candidates) > len(recovery.in_folder),
        )

        # Another kernel has the conversation open. Entries that the page shows may be only in the
        # journal of that kernel, which may remove it. So the file of this kernel gets all entries.
        if recovery.is_shared:
            self._writer.include_all_entries()

        if recovery.resumable is None:
            return False
        return self._resume(recovery, recovery.resumable)

    def _resume(self, recovery: Recovery, journal: OpenJournal) -> bool:
        """Append the missing entries of a journal to the record, and continue in its file.

        Return True if entries were missing.
        """
        stream = self._document.conversation
        contents = journal.contents
        has_all_calls = contents.calls == recovery.calls
        contents.calls.update(recovery.calls)
        missing = contents.entries[len(stream) - contents.header.base :]

        try:
            stream.extend_stored(missing)
        except StorageError as exc:
            journal.file.close()
            self._notices.append(f"the journal of this conversation cannot be read: {exc}")
            return False

        self._writer.continue_in(journal.file, contents)
        if missing:
            self._adopt_signature(contents.signature)
            entries = "1 entry" if len(missing) == 1 else f"{len(missing)} entries"
            self._notices.append(
                f"restored from the journal: {entries} of this conversation that had not "
                "reached the notebook when its kernel ended"
            )

        # The file must have all entries if it is shared (see `_recover`), the calls of all
        # journals, and the present name of the notebook.
        lacks_entries = recovery.is_shared and self._writer.base > 0
        if lacks_entries or not has_all_calls or not self._names_notebook(contents.header):
            try:
                self._writer.rewrite(with_all_entries=recovery.is_shared)
            except OSError as exc:
                self._report_failure(exc)

        return bool(missing)

    def _names_notebook(self, header: JournalHeader) -> bool:
        """Return True if `header` has the path and the file of the notebook, or there is none."""
        notebook = self._writer.notebook
        named = (header.notebook, header.file)
        return not notebook or named == (notebook, get_file_identity(notebook))

    def _adopt_signature(self, signature: str | None) -> None:
        self._document.extra.pop(SIGNATURE_KEY, None)
        if signature:
            self._document.extra[SIGNATURE_KEY] = signature

    def replace_headless(self) -> None:
        """Remove the journals of earlier headless runs of this notebook (D18)."""
        with self._lock, suppress(OSError, StorageError):  # the next run tries again
            notebook = self._writer.notebook
            if notebook:
                for file, header in iter_journals_of(notebook, self._folder):
                    file.close(remove=header.made == "headless")

    def follow(self, *, is_stored: bool) -> None:
        """Write the entries of the document's active conversation from now on.

        If the notebook has it, and this kernel wrote it before, it continues in its own journal, or
        gets a new one with all entries: later entries alone are useless without the old journal.
        """
        with self._lock:
            self._close_writer()
            stream = self._document.conversation
            paths = self._closed_paths.pop(stream.id, []) if is_stored else []
            base = 0 if paths or not is_stored else len(stream)
            self._writer = self._make_writer(self._writer.notebook, base=base)

            for path in paths:
                if not self._reopen(path):
                    self._closed_paths.setdefault(stream.id, []).append(path)

    def _reopen(self, path: Path) -> bool:
        """Continue in the journal at `path` if it still fits; return False otherwise."""
        if self._writer.has_file:  # another journal of the conversation is in use
            return False
        file = take_journal(path)
        if file is None:
            return False

        contents = None
        with suppress(OSError):  # a new journal gets all entries
            contents = read_journal(file.read())

        # It fits if the conversation still has all its entries.
        raw = self._document.conversation.raw
        if contents is None or contents.compare_with(raw) != "covered":
            file.close()
            return False
        self._writer.continue_in(file, contents)
        return True

    def remove_dropped(self, conversation: str) -> None:
        """Remove the journals of a deleted `conversation`."""
        with self._lock:
            for path in self._closed_paths.pop(conversation, []):
                file = take_journal(path)
                if file is not None:
                    file.close(remove=True)

    def write(self) -> None:
        """Write the entries that the journal lacks, or all after a repair."""
        with self._lock:
            self._is_wanted = True
            self._run_write(self._writer.write)

    def discard(self) -> None:
        """Remove the journal file, because the settings want none."""
        with self._lock:
            self._is_wanted = False
            self._run_write(self._writer.discard)

    def keep_progress(self, progress: Mapping[str, CallProgress]) -> None:
        """Write the progress of tool calls, by the event ids of their requests.

        It is on the disk before a tool starts (`fsync`).
        """
        with self._lock:
            creates_file = self._is_wanted
            self._run_write(
                lambda: self._writer.write_progress(progress, creates_file=creates_file)
            )

    def close(self) -> None:
        """Close the journal, and remove it if the notebook is saved."""
        with self._lock:
            self._close_writer()

    def _close_writer(self) -> None:
        kept_path = self._writer.close()
        if kept_path is not None:
            self._closed_paths.setdefault(self._writer.stream.id, []).append(kept_path)

    def _run_write(self, write: Callable[[], None]) -> None:
        """Call `write`, and report its failure: a turn continues without its journal."""
        try:
            write()
        except (OSError, StorageError) as exc:
            self._report_failure(exc)

    def _report_failure(self, error: OSError | StorageError) -> None:
        if self.has_failed:  # the next entry tries again, with all missing entries
            return
        self.has_failed = True

        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        self._notices.append(
            f"the journal of this conversation cannot be written ({reason}): unsaved entries are "
            "lost if the kernel dies"
        )

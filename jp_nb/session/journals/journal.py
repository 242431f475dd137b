"""Write the journal of the active conversation: a log of entries, for the case that a kernel dies.

An entry is written to the journal before the storage backend gets it, and before a tool starts. A
journal begins after the entries that the notebook file already has: they are its *base*. A write
failure is reported once and does not end the turn.

`journal_format.py` has the lines of the file, and `journal_recovery.py` reads the journals
that earlier kernels left.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.signing import SIGNATURE_KEY
from jp_nb.record.interrupted_turn import CallProgress
from jp_nb.record.stream import ConversationStream
from jp_nb.session.journals.journal_matching import iter_journals_of
from jp_nb.session.journals.journal_recovery import OpenJournal, Recovery
from jp_nb.session.journals.restorable_conversations import RestorableConversations
from jp_nb.session.threads.interrupt_lock import InterruptSafeLock
from jp_nb.storage.journals.journal_file import JournalFile, take_journal
from jp_nb.storage.journals.journal_folder import JournalFolder, get_file_identity
from jp_nb.storage.journals.journal_format import (
    EntriesDigest,
    JournalContents,
    JournalHeader,
    format_call_lines,
    format_entry_lines,
    format_journal_line,
    read_journal,
)


class ConversationJournal:
    """The journal of the active conversation of one notebook.

    Every method is safe from any thread, and no interrupt ends one halfway; `_lock` guards the
    state.

    Args:
        stored: Number of entries of the active conversation that the notebook already has.
        saved: Returns how many entries of a conversation the notebook file is known to have.
        kernel_folder: The kernel's folder, if no notebook keeps the conversation; else "".

    Attributes:
        calls: Progress of tool calls without a response, by the event ids of their requests.
        has_failed: True if a write has failed.
        restorable: The conversations in journals of earlier kernels that the notebook lacks.
    """

    def __init__(
        self,
        document: Document,
        *,
        notebook: Callable[[], Path | None],
        stored: int,
        saved: Callable[[str], int],
        notices: list[str],
        kernel_folder: str,
    ) -> None:
        self._document = document
        self._find_notebook = notebook
        self._notebook = str(notebook() or "")  # the path in the header of the journal
        self._saved = saved
        self._notices = notices
        self._folder = JournalFolder()
        self._kernel_folder = kernel_folder
        self._lock = InterruptSafeLock()
        self._file: JournalFile | None = None  # None until something must be written
        self._is_wanted = False
        self.has_failed = False
        # Journals of conversations that this kernel wrote before, by conversation.
        self._closed_paths: dict[str, list[Path]] = {}
        self.restorable = RestorableConversations(
            document, get_notebook=lambda: self._notebook, kernel_folder=kernel_folder
        )
        self._reset(document.conversation, base=stored)

    def _reset(self, stream: ConversationStream, *, base: int) -> None:
        self._stream = stream
        self._raw = stream.raw  # a repair replaces the list of entries
        self._base = base  # number of entries before the first one of the file
        self._base_digest = EntriesDigest()
        self._written = base  # number of entries up to the last one of the file
        self._written_state: tuple[JsonObject, JsonValue] = {}, None  # properties and signature
        self._saved_base = 0  # number of entries that only the notebook file has
        # Number of entries in the notebook file before a repair; None if it was saved since then.
        self._outdated_saved: int | None = None
        self.calls: dict[str, CallProgress] = {}

    def recover(self) -> bool:
        """Append the entries that only the journal has; return True if there were any."""
        with self._lock:
            try:
                return self._recover()
            except (OSError, StorageError) as exc:
                self._notices.append(f"journals of earlier kernels cannot be read: {exc}")
                return False

    def _recover(self) -> bool:
        recovery = Recovery(
            self._folder, self._document, notebook=self._notebook, kernel_folder=self._kernel_folder
        )
        self._notices += recovery.notices
        self.restorable.set_journals(
            recovery.candidates,
            has_notebook_journals=len(recovery.candidates) > len(recovery.in_folder),
        )

        if recovery.is_shared:  # entries of the page may be only in the other kernel's journal
            self._base = 0
            self._written = 0

        if recovery.resumable is None:
            return False
        return self._resume(recovery, recovery.resumable)

    def _resume(self, recovery: Recovery, journal: OpenJournal) -> bool:
        """Append the missing entries of a journal to the record, and continue in its file.

        Return True if entries were missing.
        """
        stream = self._stream
        contents = journal.contents
        header = contents.header
        has_all_calls = contents.calls == recovery.calls
        contents.calls.update(recovery.calls)
        missing = contents.entries[len(stream) - header.base :]

        try:
            stream.extend_stored(missing)
        except StorageError as exc:
            journal.file.close()
            self._notices.append(f"the journal of this conversation cannot be read: {exc}")
            return False

        self._continue_in(journal.file, contents)
        if missing:
            self._adopt_signature(contents.signature)
            entries = "1 entry" if len(missing) == 1 else f"{len(missing)} entries"
            self._notices.append(
                f"restored from the journal: {entries} of this conversation that had not "
                "reached the notebook when its kernel ended"
            )

        current_place = (self._notebook, get_file_identity(self._notebook))
        is_renamed = self._notebook != "" and (header.notebook, header.file) != current_place
        lacks_entries = recovery.is_shared and self._base > 0
        if is_renamed or not has_all_calls or lacks_entries:
            base = 0 if recovery.is_shared else self._base
            try:
                self._rewrite(base, self._base_digest)
            except OSError as exc:
                self._report_failure(exc)

        return bool(missing)

    def _continue_in(self, file: JournalFile, contents: JournalContents) -> None:
        if contents.unreadable_bytes:
            file.cut(contents.size)
        self._file = file
        self._base = contents.header.base
        self._written = contents.length
        self.calls = dict(contents.calls)
        self._written_state = contents.header.conversation, contents.signature

    def _adopt_signature(self, signature: str | None) -> None:
        self._document.extra.pop(SIGNATURE_KEY, None)
        if signature:
            self._document.extra[SIGNATURE_KEY] = signature

    def replace_headless(self) -> None:
        """Remove the journals of earlier headless runs of this notebook (D18)."""
        with self._lock, suppress(OSError, StorageError):  # the next run tries again
            if self._notebook:
                for file, header in iter_journals_of(self._notebook, self._folder):
                    file.close(remove=header.made == "headless")

    def follow(self, *, is_stored: bool) -> None:
        """Write the entries of the document's active conversation from now on.

        If the notebook has it, and this kernel wrote it before, it continues in its own journal, or
        gets a new one with all entries: later entries alone are useless without the old journal.
        """
        with self._lock:
            self._close_file()
            stream = self._document.conversation
            paths = self._closed_paths.pop(stream.id, []) if is_stored else []
            base = 0 if paths or not is_stored else len(stream)
            self._reset(stream, base=base)

            for path in paths:
                if not self._reopen(path):
                    self._closed_paths.setdefault(stream.id, []).append(path)

    def _reopen(self, path: Path) -> bool:
        """Continue in the journal at `path` if it still fits; return False otherwise."""
        if self._file is not None:  # another journal of the conversation is in use
            return False
        file = take_journal(path)
        if file is None:
            return False

        contents = None
        with suppress(OSError):  # a new journal gets all entries
            contents = read_journal(file.read())

        if contents is None or contents.compare_with(self._raw) != "covered":
            file.close()
            return False
        self._continue_in(file, contents)
        return True

    def remove_dropped(self, conversation: str) -> None:
        """Remove the journals of a deleted `conversation`."""
        with self._lock:
            for path in self._closed_paths.pop(conversation, []):
                file = take_journal(path)
                if file is not None:
                    file.close(remove=True)

    def write(self, *, wanted: bool = True) -> None:
        """Write new entries, or all after a repair; without `wanted`, remove the journal."""
        with self._lock:
            self._is_wanted = wanted
            if wanted:
                self._try(self._write)
            else:
                self._try(self._remove)

    def keep_progress(self, progress: Mapping[str, CallProgress]) -> None:
        """Write the progress of tool calls, by the event ids of their requests.

        It is on the disk before a tool starts (`fsync`).
        """
        with self._lock:
            self.calls.update(progress)
            self._try(lambda: self._write_progress(progress))

    def _write_progress(self, progress: Mapping[str, CallProgress]) -> None:
        has_file = self._file is not None and self._file.size > 0
        if self._is_wanted and not has_file:
            self._write()  # with the progress of all calls
        elif self._file is not None:
            _, signature = self._written_state
            self._file.append(format_call_lines(signature, progress))

        has_started = any(call.stage == "started" for call in progress.values())
        if self._file is not None and has_started:
            self._file.sync()

    def _remove(self) -> None:
        if self._file is not None:
            self._file.close(remove=True)
            self._file = None
        self._base = len(self._raw)
        self._written = self._base

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (OSError, StorageError) as exc:
            self._report_failure(exc)

    def close(self) -> None:
        """Close the journal, and remove it if the notebook is saved."""
        with self._lock:
            self._close_file()

    def _write(self) -> None:
        stream = self._stream
        if stream is not self._document.conversation:
            raise StorageError("another conversation is active")

        if stream.raw is not self._raw:
            self._rewrite_after_repair()
        if self._follow_notebook():
            return

        raw = stream.raw
        signature = self._document.extra.get(SIGNATURE_KEY)
        self._forget_answered_calls()
        has_same_state = (stream.properties, signature) == self._written_state
        if len(raw) == self._written and has_same_state:
            return

        if self._file is None:
            notebook_has_everything = len(raw) == self._base and not self.calls
            if notebook_has_everything:
                return
            self._file = self._folder.create(stream.id, self._notebook)

        has_new_entries = len(raw) > self._written
        has_written_entries = self._written > self._base
        if not self._file.size:
            self._rewrite(self._base, self._base_digest)
        elif has_new_entries and has_written_entries and self._is_saved(self._written):
            # The notebook file has the written entries: only the new ones are needed.
            self._rewrite(self._written, self._base_digest)
            self._saved_base = self._base
        else:
            self._append(self._file, signature)

    def _append(self, file: JournalFile, signature: JsonValue) -> None:
        stream = self._stream
        lines = format_entry_lines(stream.raw[self._written :])
        if stream.properties != self._written_state[0]:
            lines = format_journal_line(conversation=stream.properties) + lines

        file.append(lines + format_journal_line(signature=signature))
        self._written = len(stream.raw)
        self._written_state = (dict(stream.properties), signature)

    def _rewrite_after_repair(self) -> None:
        """Rewrite the file from the first entry that a repair has changed."""
        repaired = self._stream.raw
        self._outdated_saved = self._saved(self._stream.id)

        unchanged_count = min(len(self._raw), len(repaired))
        for index, (old, new) in enumerate(zip(self._raw, repaired, strict=False)):
            if old is not new:
                unchanged_count = index
                break

        self._rewrite(min(self._base, unchanged_count), EntriesDigest())

    def _forget_answered_calls(self) -> None:
        if self.calls and not self._stream.list_open_tool_calls():
            self.calls = {}

    def _follow_notebook(self) -> bool:
        """Rewrite the file if the notebook was renamed, or an older version of it restored.

        Return True if there is a file, and it was rewritten.
        """
        path = str(self._find_notebook() or self._notebook)
        is_renamed = path != self._notebook
        if is_renamed:
            self._notebook = path
            self._rewrite(self._base, self._base_digest)

        saved = self._saved(self._stream.id)
        is_older = saved < self._saved_base
        if is_older:
            self._saved_base = 0
            self._rewrite(min(saved, self._base), EntriesDigest())

        return (is_renamed or is_older) and self._file is not None

    def _rewrite(self, base: int, digest: EntriesDigest) -> None:
        """Rewrite the file, if there is one, with the entries from `base` on.

        If it cannot be written, the file and this object are unchanged.
        """
        stream = self._stream
        raw = self._stream.raw
        written = base
        if self._file is not None:
            signature = self._document.extra.get(SIGNATURE_KEY)
            folder = "" if self._notebook else self._kernel_folder
            header = JournalHeader(
                stream.properties,
                stream.base_config,
                self._notebook,
                get_file_identity(self._notebook),
                base,
                digest.at(raw, base),
                folder,
            )

            entries = format_entry_lines(raw[base:]) + format_journal_line(signature=signature)
            calls = format_call_lines(signature, self.calls)
            self._file.rewrite(header.format_line() + entries + calls)
            self._written_state = (dict(stream.properties), signature)
            written = len(raw)

        self._raw = raw
        self._base = base
        self._base_digest = digest
        self._written = written

    def _is_saved(self, count: int) -> bool:
        """Return True if the notebook file has the first `count` entries as they are now."""
        saved = self._saved(self._stream.id)
        if saved != self._outdated_saved:
            self._outdated_saved = None
        return self._outdated_saved is None and saved >= count

    def _close_file(self) -> None:
        if self._file is not None:
            self._forget_answered_calls()
            is_saved = self._is_saved(len(self._stream)) and not self.calls
            if not is_saved:
                self._closed_paths.setdefault(self._stream.id, []).append(self._file.path)
            self._file.close(remove=is_saved)
            self._file = None

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

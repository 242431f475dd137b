"""Keeps of the active conversation what its notebook may not have yet, outside of the kernel.

An entry is in the journal before any home is offered it and before a tool starts because of it.
What goes wrong here is said once and stops nothing.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import JsonObject
from jp_nb.record.call_progress import CallProgress
from jp_nb.record.document import Document
from jp_nb.record.entry import RawEntry
from jp_nb.record.journal_text import (
    JournalHead,
    RunningMark,
    call_line,
    entry_lines,
    line_of,
    read_head,
    read_journal,
)
from jp_nb.record.jp_object import conversation_id
from jp_nb.record.stream import ConversationStream
from jp_nb.record.trust import SIGNATURE
from jp_nb.safe_text import one_line
from jp_nb.session.left_journals import (
    LeftJournal,
    find_left,
    is_of_folder,
    is_own,
    remove_headless,
    stored_conversation,
)
from jp_nb.workspace.journal_files import JournalFile, JournalFolder, file_identity

COSTS = "unsaved entries are lost if the kernel dies"


@dataclass(frozen=True, slots=True)
class LeftConversation:
    """A conversation that an earlier kernel left in a journal.

    Attributes:
        path: The journal.
        stored: The conversation as a notebook keeps it.
        calls: The progress of its open tool calls, by event id.
    """

    path: Path
    stored: JsonObject
    calls: dict[str, CallProgress]

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return conversation_id(self.stored)


class ConversationJournal:
    """The journal of the active conversation of one notebook. Safe from any thread.

    Args:
        document: The conversations of the notebook.
        notebook: Returns the notebook's path, if it is known: it may be renamed.
        kept: How many entries of the active conversation its home has already.
        saved: Returns how many entries of a conversation the notebook's file is known to hold.
        notices: Takes what the person should be told once.
        folder: Where journals are.
        kernel_folder: The kernel's folder, if no notebook keeps the conversation; else "".

    Attributes:
        calls: The progress of tool calls without a response, by the event ids of their requests.
        offers_of_notebook: True if earlier kernels of this notebook left a conversation.
    """

    def __init__(
        self,
        document: Document,
        *,
        notebook: Callable[[], Path | None],
        kept: int,
        saved: Callable[[str], int],
        notices: list[str],
        folder: JournalFolder | None = None,
        kernel_folder: str = "",
    ) -> None:
        self._document = document
        self._where = notebook
        self._notebook = str(notebook() or "")
        self._saved = saved
        self._notices = notices
        self._folder = folder or JournalFolder()
        self._kernel_folder = kernel_folder
        self._lock = Lock()
        self._file: JournalFile | None = None
        self._told = self._is_wanted = False
        self._offered: list[Path] = []
        self.offers_of_notebook = False
        self._left: dict[str, list[Path]] = {}
        self._take(document.conversation, base=kept)

    def _take(self, stream: ConversationStream, *, base: int) -> None:
        self._stream: ConversationStream = stream
        self._raw: list[RawEntry] = stream.raw
        self._mark = RunningMark()
        self._base = self._written = base
        self._claimed = 0  # so many entries are not in it because the notebook's file has them
        self._said: tuple[JsonObject, JsonValue] = {}, None
        self._void: int | None = None
        self.calls: dict[str, CallProgress] = {}

    # --- what an earlier kernel left ---------------------------------------------------------

    def recover(self) -> bool:
        """Take up what an earlier kernel wrote and the notebook lacks; return whether it did.

        For a conversation that was just read from its notebook, or begins there.
        """
        with self._lock:
            try:
                return self._recover()
            except (OSError, StorageError) as exc:
                self._notices.append(f"journals of earlier kernels cannot be read: {exc}")
                return False

    def _recover(self) -> bool:
        stream = self._stream
        left = find_left(
            self._folder, self._document, notebook=self._notebook, kernel_folder=self._kernel_folder
        )
        self._notices += left.notices
        self._offered = left.offered
        self.offers_of_notebook = len(left.offered) > len(left.in_folder)
        if left.is_shared:  # what the page has may be in the other kernel's journal alone
            self._base = self._written = 0
        found = left.to_go_on
        if found is None:
            return False
        has_all_calls = found.contents.calls == left.calls
        found.contents.calls.update(left.calls)
        missing = found.contents.entries[len(stream) - found.contents.head.base :]
        try:
            stream.take_up(missing)
        except StorageError as exc:
            found.file.close()
            self._notices.append(f"the journal of this conversation cannot be read: {exc}")
            return False
        self._go_on_with(found)
        if missing:
            self._document.extra.pop(SIGNATURE, None)
            if found.contents.signature:
                self._document.extra[SIGNATURE] = found.contents.signature
            self._notices.append(_taken_up(len(missing)))
        head, here = found.contents.head, (self._notebook, file_identity(self._notebook))
        renamed = self._notebook and (head.notebook, head.file) != here
        if renamed or not has_all_calls or (left.is_shared and self._base):
            try:
                self._rewrite(0 if left.is_shared else self._base, self._mark)
            except OSError as exc:
                self._failed(exc)
        return bool(missing)

    def replace_headless(self) -> None:
        """Remove what headless runs of this notebook left: another one begins."""
        with self._lock, suppress(OSError, StorageError):  # what stays is found again
            if self._notebook and self._folder.exists():
                remove_headless(self._folder, self._notebook)

    def offered(self, name: str = "") -> LeftConversation | None:
        """Return the newest conversation that the notebook has nowhere, as it would keep it.

        It stays in its journal until `taken` is called.

        Args:
            name: Its id, or the beginning of it.

        Raises:
            StorageError: If there is one, and it cannot be read.
            UsageError: If several ids begin with `name`.
        """
        found: list[LeftConversation] = []
        for path in list(self._offered):
            left = self._left_at(path)
            if left is None:
                self._offered.remove(path)
            elif not name or left.id == name:
                return left
            elif left.id.startswith(name):
                found.append(left)
        if len(found) > 1:
            ids = ", ".join(one_line(left.id, limit=60) for left in found)
            raise UsageError(f"several conversations have an id that begins like this: {ids}")
        return found[0] if found else None

    def _left_at(self, path: Path) -> LeftConversation | None:
        """Return the conversation in the journal at `path`; None if it cannot be brought back."""
        file = self._folder.take(path)
        if file is None:
            return None
        try:
            contents = read_journal(file.read())
        except OSError as exc:
            raise StorageError(f"{file.path} cannot be read: {exc.strerror or exc}") from exc
        finally:
            file.close()
        stored = contents and stored_conversation(contents, self._document)
        return LeftConversation(path, stored, contents.calls) if contents and stored else None

    def taken(self, left: LeftConversation) -> None:
        """Remove the journal of a conversation that was `offered`: the new one has all of it.

        That of another notebook, which may be away for now, stays.
        """
        self._offered.remove(left.path)
        if (file := self._folder.take(left.path)) is not None:
            head, here = read_head(file.first_line()), self._notebook
            ours = head and (is_own(head, here) or is_of_folder(head, here, self._kernel_folder))
            file.close(remove=bool(ours))

    @property
    def is_failing(self) -> bool:
        """True if the journal could not be written."""
        return self._told

    def _go_on_with(self, left: LeftJournal) -> None:
        """Write into the journal that was `left`: it is of this conversation as it is."""
        contents = left.contents
        if contents.lost:
            left.file.cut(contents.size)
        self._file, self._base, self._written = left.file, contents.head.base, contents.length
        self.calls = dict(contents.calls)
        self._said = contents.head.conversation, contents.signature

    # --- what happens to the conversation ----------------------------------------------------

    def follow(self, *, is_kept: bool) -> None:
        """Go on with what is the active conversation now; `is_kept`: its notebook has it so far.

        One that was left in this kernel goes on in the journal that it has, or has all of it in a
        new one: a journal that begins where another ends would be lost with that.
        """
        with self._lock:
            self._leave()
            stream = self._document.conversation
            left = self._left.pop(stream.id, []) if is_kept else []
            self._take(stream, base=0 if left or not is_kept else len(stream))
            for path in left:
                if not self._go_back_to(path):
                    self._left.setdefault(stream.id, []).append(path)

    def _go_back_to(self, path: Path) -> bool:
        """Go on in the journal at `path`, which this kernel left; return whether it could."""
        file = self._folder.take(path) if self._file is None else None
        if file is None:
            return False
        contents = None
        with suppress(OSError):  # another one will have all that is in it
            contents = read_journal(file.read())
        if contents is None or contents.place_in(self._raw) != "covered":
            file.close()
            return False
        self._go_on_with(LeftJournal(file, contents))
        return True

    def dropped(self, conversation: str) -> None:
        """Remove what was left of a `conversation` that nobody wants any more."""
        with self._lock:
            for path in self._left.pop(conversation, []):
                if (file := self._folder.take(path)) is not None:
                    file.close(remove=True)

    def changed(self, *, wanted: bool = True) -> None:
        """Write what was appended, or all that a repair left; without `wanted` have no journal."""
        with self._lock:
            self._is_wanted = wanted
            try:
                if wanted:
                    self._write()
                else:
                    self._forget()
            except (OSError, StorageError) as exc:
                self._failed(exc)

    def keep_progress(self, call: str, progress: CallProgress) -> None:
        """Write the progress of the tool call whose request has the event id `call`."""
        with self._lock:
            self.calls[call] = progress
            try:
                if self._file is None and self._is_wanted:
                    self._write()
                elif self._file is not None:
                    self._file.append(call_line(self._said[1], call, progress))
            except (OSError, StorageError) as exc:
                self._failed(exc)

    def sync(self) -> None:
        """Have what was written reach the disk: a tool starts because of it."""
        with self._lock:
            try:
                if self._file is not None:
                    self._file.sync()
            except OSError as exc:
                self._failed(exc)

    def close(self) -> None:
        """Let the next kernel have the journal; there is none if the notebook is saved."""
        with self._lock:
            self._leave()

    # --- inside ------------------------------------------------------------------------------

    def _write(self) -> None:
        stream = self._stream
        if stream is not self._document.conversation:
            raise StorageError("another conversation is active")
        if stream.raw is not self._raw:
            self._start_over()
        if self._is_elsewhere() or self._file_went_back():
            return
        raw, signature = stream.raw, self._document.extra.get(SIGNATURE)
        self._forget_answered_calls()
        if len(raw) == self._written and (stream.head, signature) == self._said:
            return
        if self._file is None:
            if len(raw) == self._base and not self.calls:  # the notebook has everything
                return
            self._file = self._folder.make(stream.id, self._notebook)
            self._folder.sweep()
        if len(raw) > self._written > self._base and self._is_saved(self._written):
            self._rewrite(self._written, self._mark)
            self._claimed = self._base
            return
        new, lines, calls = raw[self._written :], b"", b""
        if not self._file.size:
            lines, calls = self._head_line(raw, self._base, self._mark), self._call_lines(signature)
            self._said = dict(stream.head), None
        elif stream.head != self._said[0]:
            lines = line_of(conversation=stream.head)
        self._file.append(lines + entry_lines(new) + line_of(signature=signature) + calls)
        self._written = len(raw)
        self._said = dict(stream.head), signature

    def _call_lines(self, signature: JsonValue) -> bytes:
        return b"".join(call_line(signature, call, each) for call, each in self.calls.items())

    def _forget_answered_calls(self) -> None:
        if self.calls and not self._stream.unanswered():
            self.calls = {}

    def _is_elsewhere(self) -> bool:
        """Write it anew, with all there is, if the notebook was renamed; return whether it was."""
        now = str(self._where() or self._notebook)
        if now == self._notebook:
            return False
        self._notebook = now
        self._rewrite(self._base, self._mark)
        return self._file is not None

    def _file_went_back(self) -> bool:
        """Write it anew if the notebook's file has no longer what it is known to have had."""
        saved = self._saved(self._stream.id)
        if saved >= self._claimed:
            return False
        self._claimed = 0
        self._rewrite(min(saved, self._base), RunningMark())
        return self._file is not None

    def _head_line(self, raw: list[RawEntry], base: int, mark: RunningMark) -> bytes:
        head, base_config = self._stream.head, self._stream.base_config
        file = file_identity(self._notebook)
        at = mark.at(raw, base)
        folder = "" if self._notebook else self._kernel_folder
        return JournalHead(head, base_config, base, at, self._notebook, file, folder).line()

    def _start_over(self) -> None:
        """Write the journal anew, of a conversation whose entries were rearranged."""
        old, new = self._raw, self._stream.raw
        pairs = zip(old, new, strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a is not b), min(len(old), len(new)))
        self._void = self._saved(self._stream.id)
        self._rewrite(min(self._base, same), RunningMark())

    def _rewrite(self, base: int, mark: RunningMark) -> None:
        """Put what is behind `base` into the file, if there is one.

        Raises:
            OSError: If it cannot be written; the file, and what is known of it, is as it was.
        """
        raw, written = self._stream.raw, base
        if self._file is not None:
            signature = self._document.extra.get(SIGNATURE)
            lines = self._head_line(raw, base, mark) + entry_lines(raw[base:])
            lines += line_of(signature=signature) + self._call_lines(signature)
            self._file.rewrite(lines)
            self._said, written = (dict(self._stream.head), signature), len(raw)
        self._raw, self._base, self._mark, self._written = raw, base, mark, written

    def _is_saved(self, count: int) -> bool:
        """Return True if the first `count` entries, as they are now, are in the notebook's file.

        What was said of them before they were rearranged does not count.
        """
        saved = self._saved(self._stream.id)
        if saved != self._void:
            self._void = None
        return self._void is None and saved >= count

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close(remove=True)
            self._file = None
        self._base = self._written = len(self._raw)

    def _leave(self) -> None:
        if self._file is not None:
            self._forget_answered_calls()
            is_saved = self._is_saved(len(self._stream)) and not self.calls
            if not is_saved:
                self._left.setdefault(self._stream.id, []).append(self._file.path)
            self._file.close(remove=is_saved)
            self._file = None

    def _failed(self, error: OSError | StorageError) -> None:
        """Say once that there is no journal; the next entry tries again, with what is missing."""
        if self._told:
            return
        self._told = True
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._notices.append(f"the journal of this conversation cannot be written ({why}): {COSTS}")


def _taken_up(count: int) -> str:
    entries = "1 entry" if count == 1 else f"{count} entries"
    return (
        f"restored from the journal: {entries} of this conversation that had not "
        "reached the notebook when its kernel ended"
    )

"""Write the journal of the active conversation, and recover journals of earlier kernels.

An entry is in the journal before it is offered to the storage backend, and before a tool starts. A
failure of the journal is reported once, and ends no turn.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.document import Document, all_conversations, conversation_id, events_of, others_of
from jp_nb.record.events import RawEntry
from jp_nb.record.journal import (
    CallProgress,
    JournalContents,
    JournalHead,
    Place,
    RunningMark,
    call_line,
    entry_lines,
    later,
    line_of,
    read_head,
    read_journal,
)
from jp_nb.record.signing import SIGNATURE
from jp_nb.record.stream import ConversationStream
from jp_nb.storage.journal import JournalFile, JournalFolder, file_identity
from jp_nb.text import one_line

OFFER = "`%jp resume` restores {} as a separate conversation"
BRANCH = (
    "the journal of an earlier kernel has other entries of this conversation: "
    f"{OFFER.format('them')}"
)
UNKNOWN = (
    "the journal of an earlier kernel has a conversation that is missing from this notebook: "
    f"{OFFER.format('it')}"
)
GAP = (
    "the journal of an earlier kernel has later entries of this conversation, but the entries "
    "before them are missing: they stay in {}"
)
ELSEWHERE = (
    "the journal has entries of this conversation for the notebook {}, which no longer exists. "
    f"If it is this notebook, {OFFER.format('them')}"
)
TAKEN = (
    "another kernel also has this conversation open. The new entries of each kernel "
    "become a branch, and each kernel has its own journal"
)

IN_FOLDER = "{} of this folder {} stored only in the journal: {}. `%jp resume` restores {}"

JournalOwner = Literal["own", "folder", "unknown", "elsewhere"]
"""The origin of a journal.

It is of this notebook, of this folder where no notebook keeps a conversation, of an unknown
notebook, or of one whose file is gone.
"""

MAX_LISTED: Final = 3
"""Conversations of a folder that are named."""
TITLE_CHARS: Final = 40

Copies = dict[str, list[list[RawEntry]]]
"""The entries of conversations, by their ids; copies that differ have the same."""


@dataclass(frozen=True, slots=True)
class RecoverableJournal:
    """A journal that no process has open any more; it is locked now."""

    file: JournalFile
    contents: JournalContents
    owner: JournalOwner = "own"


@dataclass(slots=True)
class Recovery:
    """The journals of one notebook that were left.

    Attributes:
        resumable: The one that is of the active conversation as the notebook has it, or longer.
        candidates: Those with what the notebook has nowhere, newest first.
        in_folder: The offered conversations of this folder that no notebook has, newest first.
        notices: What the person should be told once.
        is_shared: Whether another kernel has the active conversation open, too.
        calls: The progress of tool calls in the journals of the active conversation.
    """

    resumable: RecoverableJournal | None = None
    candidates: list[Path] = field(default_factory=list)
    in_folder: list[JournalContents] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    is_shared: bool = False
    calls: dict[str, CallProgress] = field(default_factory=dict)

    def add_notice(self, notice: str) -> None:
        """Have the person told `notice`, once."""
        if notice not in self.notices:
            self.notices.append(notice)

    def offer(self, left: RecoverableJournal, notice: str) -> None:
        """Have `%jp resume` bring `left` back, if a person would miss what is in it.

        Of what headless runs made, the next one replaces it (D18).
        """
        if left.contents.entries and left.contents.head.made != "headless":
            self.candidates.append(left.file.path)
            if left.owner == "folder":
                self.in_folder.append(left.contents)
            else:
                self.add_notice(notice)


def find_recoverable(
    folder: JournalFolder, document: Document, *, notebook: str, kernel_folder: str = ""
) -> Recovery:
    """Look at the journals of the notebook at the path `notebook`, which holds `document`.

    Where no notebook is known, those of conversations in `kernel_folder` that no notebook keeps.

    Raises:
        StorageError: If the folder is not the user's alone.
        OSError: If it cannot be looked at.
    """
    found, stream = Recovery(), document.conversation
    known = _copies(document)
    for left in _readable(folder, known, (notebook, kernel_folder), found):
        contents = left.contents
        same = contents.head.id == stream.id and len(stream) > 0
        surely = left.owner != "elsewhere" and same
        if surely and contents.place_in(stream.raw) in ("covered", "continues"):
            _choose(found, left, stream.raw)
            continue
        left.file.close()
        place = _place(contents, known.get(contents.head.id, ()))
        if left.owner == "unknown":
            continue  # it may be of another notebook whose conversation has the same id
        if left.owner == "elsewhere":
            if place in ("continues", "branch"):
                found.offer(left, ELSEWHERE.format(one_line(contents.head.notebook)))
        elif place == "gap" or (place is None and contents.head.base):
            found.add_notice(GAP.format(left.file.path))
        elif place != "covered":
            found.offer(left, UNKNOWN if place is None else BRANCH)
    own = found.resumable.file if found.resumable else None
    if found.in_folder:
        found.add_notice(_in_folder(found.in_folder))
    heads = map(read_head, folder.taken(stream.id, besides=own) if notebook else ())
    if any(head and is_of_notebook(head, notebook) for head in heads):
        found.is_shared = True
        found.add_notice(TAKEN)
    return found


def stored_conversation(contents: JournalContents, document: Document) -> JsonObject | None:
    """Return the conversation of a journal as `document` would keep it; None if it has a gap."""
    head = contents.head
    copies = _copies(document).get(head.id, ()) if head.base else [list[RawEntry]()]
    before = next(filter(contents.begins_in, copies), None)
    if before is None:
        return None
    events = [*before[: head.base], *contents.entries]
    stored: JsonObject = {
        "conversation": head.conversation,
        "base_config": head.base_config,
        "events": events,  # type: ignore[dict-item]  # list is invariant
    }
    return {**stored, SIGNATURE: contents.signature} if contents.signature else stored


def remove_headless(folder: JournalFolder, notebook: str) -> None:
    """Remove what headless runs of `notebook` left: the one that begins replaces them (D18).

    Raises:
        StorageError: If the folder is not the user's alone.
        OSError: If it cannot be looked at.
    """
    for file in folder.left():
        head = read_head(file.first_line())
        ours = head is not None and head.notebook == notebook
        file.close(remove=ours and head is not None and head.made == "headless")


def complete_document(folder: JournalFolder, document: JsonObject, *, notebook: str) -> JsonObject:
    """Return `document`, which a headless run of `notebook` made, with all that it kept besides.

    A kernel that is killed had no time to give it to anybody. What live kernels left is for whoever
    opens the notebook.

    Raises:
        StorageError: If the folder is not the user's alone.
        OSError: If it cannot be looked at.
    """
    for file in folder.left() if folder.exists() else ():
        head = read_head(file.first_line())
        contents = None
        if head is not None and head.notebook == notebook and head.made == "headless":
            contents = read_journal(file.read())
        file.close()
        if contents is not None:
            others: list[JsonValue] = [_completed(each, contents) for each in others_of(document)]
            document = as_object(_completed(document, contents))
            if others:
                document = {**document, "others": others}
    return document


def _completed(conversation: JsonValue, contents: JournalContents) -> JsonValue:
    """Return a stored conversation with what `contents` has behind it."""
    raw = _entries(conversation)
    same = conversation_id(conversation) == contents.head.id
    if not same or contents.place_in(raw) != "continues":
        return conversation
    events = [*events_of(conversation), *contents.entries[len(raw) - contents.head.base :]]
    unsigned = {key: value for key, value in as_object(conversation).items() if key != SIGNATURE}
    signed = {SIGNATURE: contents.signature} if contents.signature else {}
    return {**unsigned, "conversation": contents.head.conversation, "events": events, **signed}


def remove_written(folder: JournalFolder, document: JsonObject, *, notebook: str) -> None:
    """Remove the journals of `notebook` that hold no more than `document`, which its file has.

    Raises:
        StorageError: If the folder is not the user's alone.
        OSError: If it cannot be looked at.
    """
    known = _by_id(all_conversations(document))
    for file in folder.left() if known and folder.exists() else ():
        head = read_head(file.first_line())
        ours = head is not None and head.notebook == notebook and head.id in known
        contents = read_journal(file.read()) if ours else None
        is_written = contents and _place(contents, known[contents.head.id]) == "covered"
        file.close(remove=bool(is_written and not (contents and contents.calls)))


def _entries(conversation: JsonValue) -> list[RawEntry]:
    return [as_object(entry) for entry in events_of(conversation)]


def _copies(document: Document) -> Copies:
    found = _by_id(document.others)
    found.setdefault(document.conversation.id, []).insert(0, document.conversation.raw)
    return found


def _by_id(conversations: Iterable[JsonValue]) -> Copies:
    found: Copies = {}
    for each in conversations:
        found.setdefault(conversation_id(each), []).append(_entries(each))
    return found


def _place(contents: JournalContents, copies: Iterable[list[RawEntry]]) -> Place | None:
    """Return the best of what a journal is to `copies` of its conversation; None without any."""
    places = {contents.place_in(raw) for raw in copies}
    return next((place for place in get_args(Place) if place in places), None)


def _choose(found: Recovery, left: RecoverableJournal, raw: list[RawEntry]) -> None:
    """Keep the longer one of two journals that fit `raw`; the other goes if that has all of it."""
    for call, progress in left.contents.calls.items():
        found.calls[call] = later(found.calls.get(call, progress), progress)
    before = found.resumable
    if before is None:
        found.resumable = left
        return
    longer, shorter = sorted((before, left), key=lambda each: -each.contents.length)
    found.resumable = longer
    base = longer.contents.head.base
    covered = shorter.contents.place_in([*raw[:base], *longer.contents.entries]) == "covered"
    shorter.file.close(remove=covered and base <= shorter.contents.head.base)
    if not covered:
        found.offer(shorter, BRANCH)


def _readable(
    folder: JournalFolder, known: Copies, here: tuple[str, str], found: Recovery
) -> Iterator[RecoverableJournal]:
    """Yield the journals of this notebook; what is damaged in them is said."""
    for file in folder.left():
        head = read_head(file.first_line())
        if head is None:
            if file.size and any(file.is_of(each) for each in known):
                found.add_notice(
                    f"{file.path} is damaged, or is not a journal that this version "
                    "of jp_nb can read"
                )
            file.close(remove=not file.size)
        elif (whose := _whose(head, known, *here)) is None:
            file.close()
        elif (contents := _contents(file, found)) is not None:
            yield RecoverableJournal(file, contents, whose)


def _contents(file: JournalFile, found: Recovery) -> JournalContents | None:
    """Return what a journal says, and say what cannot be read of it; the others count anyway."""
    try:
        contents = read_journal(file.read())
    except OSError as exc:
        found.add_notice(f"{file.path} cannot be read: {exc.strerror or exc}")
        contents = None
    if contents is None:
        file.close()
    elif contents.lost:
        found.add_notice(f"the last {contents.lost} bytes of a journal cannot be read")
    return contents


def _whose(
    head: JournalHead, known: Copies, notebook: str, kernel_folder: str
) -> JournalOwner | None:
    """Return whose a journal is; None if it is of a notebook that is there, and is not this one.

    A notebook that was renamed is the same file. One that is at its path no more may have been
    renamed, or this may be a copy of it, and it on a drive that is away.
    """
    if is_of_notebook(head, notebook):
        return "own"
    if is_of_folder(head, notebook, kernel_folder):
        return "folder"
    if not any(known.get(head.id, ())):
        return None
    if not (head.notebook and notebook):
        return "unknown"
    there = file_identity(head.notebook)
    if not there:
        return "elsewhere"
    return "own" if there == file_identity(notebook) else None  # one file has several paths


def is_of_folder(head: JournalHead, notebook: str, kernel_folder: str) -> bool:
    """Return True if a journal is of `kernel_folder`, and no notebook is known of it nor here."""
    here = not notebook and kernel_folder != ""
    return here and not head.notebook and head.folder == kernel_folder


def _in_folder(found: Sequence[JournalContents]) -> str:
    """Return the notice about conversations of a folder that no notebook has."""
    listed = [_titled(contents) for contents in found[:MAX_LISTED]]
    if more := len(found) - MAX_LISTED:
        listed += [f"{more} more"] if more > 0 else []
    if len(found) == 1:
        return IN_FOLDER.format("a conversation", "is", *listed, "it")
    which = "the newest one, `%jp resume ID` another one"
    return IN_FOLDER.format(f"{len(found)} conversations", "are", "; ".join(listed), which)


def _titled(contents: JournalContents) -> str:
    """Return id, title and size of a conversation; the title is the first request without one."""
    entries = contents.entries
    requests = [each.get("content") for each in entries if each.get("type") == "chat_request"]
    title = contents.head.conversation.get("title") or next(iter(requests), "")
    shown = one_line(str(title), limit=TITLE_CHARS)
    turns = sum(each.get("type") == "turn_start" for each in entries)
    count = f"{turns} turn{'' if turns == 1 else 's'}"
    return f'{one_line(contents.head.id, limit=TITLE_CHARS)} "{shown}" ({count})'


def is_of_notebook(head: JournalHead, notebook: str) -> bool:
    """Return True if the path or the file of a journal's notebook is that of `notebook`."""
    if not notebook:
        return False
    return head.notebook == notebook or (head.file != "" and head.file == file_identity(notebook))


COSTS = "unsaved entries are lost if the kernel dies"


@dataclass(frozen=True, slots=True)
class RecoverableConversation:
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
        has_notebook_candidates: True if earlier kernels of this notebook left a conversation.
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
        self.has_notebook_candidates = False
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
        left = find_recoverable(
            self._folder, self._document, notebook=self._notebook, kernel_folder=self._kernel_folder
        )
        self._notices += left.notices
        self._offered = left.candidates
        self.has_notebook_candidates = len(left.candidates) > len(left.in_folder)
        if left.is_shared:  # what the page has may be in the other kernel's journal alone
            self._base = self._written = 0
        found = left.resumable
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

    def find_candidate(self, name: str = "") -> RecoverableConversation | None:
        """Return the newest conversation that the notebook has nowhere, as it would keep it.

        It stays in its journal until `taken` is called.

        Args:
            name: Its id, or the beginning of it.

        Raises:
            StorageError: If there is one, and it cannot be read.
            UsageError: If several ids begin with `name`.
        """
        found: list[RecoverableConversation] = []
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

    def _left_at(self, path: Path) -> RecoverableConversation | None:
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
        return (
            RecoverableConversation(path, stored, contents.calls) if contents and stored else None
        )

    def remove_restored(self, left: RecoverableConversation) -> None:
        """Remove the journal of a conversation that was `offered`: the new one has all of it.

        That of another notebook, which may be away for now, stays.
        """
        self._offered.remove(left.path)
        if (file := self._folder.take(left.path)) is not None:
            head, here = read_head(file.first_line()), self._notebook
            ours = head and (
                is_of_notebook(head, here) or is_of_folder(head, here, self._kernel_folder)
            )
            file.close(remove=bool(ours))

    @property
    def is_failing(self) -> bool:
        """True if the journal could not be written."""
        return self._told

    def _go_on_with(self, left: RecoverableJournal) -> None:
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
        self._go_on_with(RecoverableJournal(file, contents))
        return True

    def remove_dropped(self, conversation: str) -> None:
        """Remove what was left of a `conversation` that nobody wants any more."""
        with self._lock:
            for path in self._left.pop(conversation, []):
                if (file := self._folder.take(path)) is not None:
                    file.close(remove=True)

    def write(self, *, wanted: bool = True) -> None:
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

"""The journals that earlier kernels left behind: what they are to a notebook that is opened.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.call_progress import CallProgress, later
from jp_nb.record.document import Document
from jp_nb.record.entry import RawEntry
from jp_nb.record.journal_text import (
    JournalContents,
    JournalHead,
    Place,
    read_head,
    read_journal,
)
from jp_nb.record.jp_object import all_conversations, conversation_id, events_of, others_of
from jp_nb.record.trust import SIGNATURE
from jp_nb.safe_text import one_line
from jp_nb.workspace.journal_files import JournalFile, JournalFolder, file_identity

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

Whose = Literal["own", "folder", "unknown", "elsewhere"]
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
class LeftJournal:
    """A journal that no process has open any more; it is locked now."""

    file: JournalFile
    contents: JournalContents
    whose: Whose = "own"


@dataclass(slots=True)
class LeftJournals:
    """The journals of one notebook that were left.

    Attributes:
        to_go_on: The one that is of the active conversation as the notebook has it, or longer.
        offered: Those with what the notebook has nowhere, newest first.
        in_folder: The offered conversations of this folder that no notebook has, newest first.
        notices: What the person should be told once.
        is_shared: Whether another kernel has the active conversation open, too.
        calls: The progress of tool calls in the journals of the active conversation.
    """

    to_go_on: LeftJournal | None = None
    offered: list[Path] = field(default_factory=list)
    in_folder: list[JournalContents] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    is_shared: bool = False
    calls: dict[str, CallProgress] = field(default_factory=dict)

    def say(self, notice: str) -> None:
        """Have the person told `notice`, once."""
        if notice not in self.notices:
            self.notices.append(notice)

    def offer(self, left: LeftJournal, notice: str) -> None:
        """Have `%jp resume` bring `left` back, if a person would miss what is in it.

        Of what headless runs made, the next one replaces it (D18).
        """
        if left.contents.entries and left.contents.head.made != "headless":
            self.offered.append(left.file.path)
            if left.whose == "folder":
                self.in_folder.append(left.contents)
            else:
                self.say(notice)


def find_left(
    folder: JournalFolder, document: Document, *, notebook: str, kernel_folder: str = ""
) -> LeftJournals:
    """Look at the journals of the notebook at the path `notebook`, which holds `document`.

    Where no notebook is known, those of conversations in `kernel_folder` that no notebook keeps.

    Raises:
        StorageError: If the folder is not the user's alone.
        OSError: If it cannot be looked at.
    """
    found, stream = LeftJournals(), document.conversation
    known = _copies(document)
    for left in _readable(folder, known, (notebook, kernel_folder), found):
        contents = left.contents
        same = contents.head.id == stream.id and len(stream) > 0
        surely = left.whose != "elsewhere" and same
        if surely and contents.place_in(stream.raw) in ("covered", "continues"):
            _choose(found, left, stream.raw)
            continue
        left.file.close()
        place = _place(contents, known.get(contents.head.id, ()))
        if left.whose == "unknown":
            continue  # it may be of another notebook whose conversation has the same id
        if left.whose == "elsewhere":
            if place in ("continues", "branch"):
                found.offer(left, ELSEWHERE.format(one_line(contents.head.notebook)))
        elif place == "gap" or (place is None and contents.head.base):
            found.say(GAP.format(left.file.path))
        elif place != "covered":
            found.offer(left, UNKNOWN if place is None else BRANCH)
    own = found.to_go_on.file if found.to_go_on else None
    if found.in_folder:
        found.say(_in_folder(found.in_folder))
    heads = map(read_head, folder.taken(stream.id, besides=own) if notebook else ())
    if any(head and is_own(head, notebook) for head in heads):
        found.is_shared = True
        found.say(TAKEN)
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


def completed(folder: JournalFolder, document: JsonObject, *, notebook: str) -> JsonObject:
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


def _choose(found: LeftJournals, left: LeftJournal, raw: list[RawEntry]) -> None:
    """Keep the longer one of two journals that fit `raw`; the other goes if that has all of it."""
    for call, progress in left.contents.calls.items():
        found.calls[call] = later(found.calls.get(call, progress), progress)
    before = found.to_go_on
    if before is None:
        found.to_go_on = left
        return
    longer, shorter = sorted((before, left), key=lambda each: -each.contents.length)
    found.to_go_on = longer
    base = longer.contents.head.base
    covered = shorter.contents.place_in([*raw[:base], *longer.contents.entries]) == "covered"
    shorter.file.close(remove=covered and base <= shorter.contents.head.base)
    if not covered:
        found.offer(shorter, BRANCH)


def _readable(
    folder: JournalFolder, known: Copies, here: tuple[str, str], found: LeftJournals
) -> Iterator[LeftJournal]:
    """Yield the journals of this notebook; what is damaged in them is said."""
    for file in folder.left():
        head = read_head(file.first_line())
        if head is None:
            if file.size and any(file.is_of(each) for each in known):
                found.say(
                    f"{file.path} is damaged, or is not a journal that this version "
                    "of jp_nb can read"
                )
            file.close(remove=not file.size)
        elif (whose := _whose(head, known, *here)) is None:
            file.close()
        elif (contents := _contents(file, found)) is not None:
            yield LeftJournal(file, contents, whose)


def _contents(file: JournalFile, found: LeftJournals) -> JournalContents | None:
    """Return what a journal says, and say what cannot be read of it; the others count anyway."""
    try:
        contents = read_journal(file.read())
    except OSError as exc:
        found.say(f"{file.path} cannot be read: {exc.strerror or exc}")
        contents = None
    if contents is None:
        file.close()
    elif contents.lost:
        found.say(f"the last {contents.lost} bytes of a journal cannot be read")
    return contents


def _whose(head: JournalHead, known: Copies, notebook: str, kernel_folder: str) -> Whose | None:
    """Return whose a journal is; None if it is of a notebook that is there, and is not this one.

    A notebook that was renamed is the same file. One that is at its path no more may have been
    renamed, or this may be a copy of it, and it on a drive that is away.
    """
    if is_own(head, notebook):
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


def is_own(head: JournalHead, notebook: str) -> bool:
    """Return True if the path or the file of a journal's notebook is that of `notebook`."""
    if not notebook:
        return False
    return head.notebook == notebook or (head.file != "" and head.file == file_identity(notebook))

"""Find entries in the journals of earlier kernels, and add them to the record of a headless run.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.document import (
    Document,
    get_conversation_id,
    get_conversations,
    get_events,
    get_others,
)
from jp_nb.record.events import RawEntry
from jp_nb.record.interrupted_turn import CallProgress, pick_latest_progress
from jp_nb.record.signing import SIGNATURE_KEY
from jp_nb.record.stream import ConversationStream
from jp_nb.storage.journal_file import JournalFile
from jp_nb.storage.journal_folder import JournalFolder, get_file_identity, make_file_name
from jp_nb.storage.journal_format import (
    JournalContents,
    JournalHeader,
    JournalRelation,
    read_journal,
)
from jp_nb.text import one_line

OFFER = "`%jp resume` restores {} as a separate conversation"
BRANCH = (
    "the journal of an earlier kernel has other entries of this conversation: "
    f"{OFFER.format('them')}"
)
UNKNOWN_CONVERSATION_NOTICE = (
    "the journal of an earlier kernel has a conversation that is missing from this notebook: "
    f"{OFFER.format('it')}"
)
GAP_NOTICE = (
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

MAX_LISTED_CONVERSATIONS: Final = 3  # limit of the conversations of a folder in a notice
TITLE_CHARS: Final = 40

Copies = dict[str, list[list[RawEntry]]]
"""Entries of conversations by id; several copies of one conversation can differ."""


class Recovery:
    """The journals that earlier kernels of a notebook, or without one in `kernel_folder`, left.

    Attributes:
        resumable: Journal of the active conversation, at least as long as the notebook's record. It
            is locked.
        candidates: Paths of journals with entries that the notebook does not have, newest first.

    Raises:
        StorageError: Other users can access the folder of journals.
        OSError: The folder cannot be read.
    """

    def __init__(
        self, folder: JournalFolder, document: Document, *, notebook: str, kernel_folder: str
    ) -> None:
        self._stream = document.conversation
        self._known = collect_copies(document.others, document.conversation)
        self._notebook = notebook
        self._kernel_folder = kernel_folder
        self.resumable: tuple[JournalFile, JournalContents] | None = None
        self.candidates: list[Path] = []
        self.in_folder: list[JournalContents] = []
        self.notices: list[str] = []
        self.calls: dict[str, CallProgress] = {}

        for file in folder.abandoned():
            self._examine(file)

        if self.in_folder:
            self._add_notice(_format_folder_notice(self.in_folder))

        own = self.resumable[0] if self.resumable else None
        headers = folder.read_open_headers(self._stream.id, besides=own) if notebook else ()

        self.is_shared = any(is_of_place(header, notebook, "") for header in headers)
        if self.is_shared:
            self._add_notice(TAKEN)

    def _add_notice(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)

    def _add_candidate(self, file: JournalFile, contents: JournalContents, notice: str) -> None:
        # The next headless run replaces journals of headless runs (D18).
        if contents.entries and contents.header.made != "headless":
            self.candidates.append(file.path)
            if not self._notebook and is_of_place(contents.header, "", self._kernel_folder):
                self.in_folder.append(contents)
            else:
                self._add_notice(notice)

    def _examine(self, file: JournalFile) -> None:
        """Keep the journal open if it can be resumed; else close it, and maybe offer it."""
        header = file.read_header()
        if header is None:
            names = tuple(f"{make_file_name(each)}." for each in self._known)
            if file.size and file.path.name.startswith(names):
                self._add_notice(
                    f"{file.path} is damaged, or is not a journal that this version "
                    "of jp_nb can read"
                )
            file.close(remove=not file.size)
            return

        owner = self._find_owner(header)
        contents = self._read(file) if owner is not None else None
        if contents is None:
            file.close()
            return

        stream = self._stream
        is_certain = owner != "elsewhere" and header.id == stream.id and len(stream) > 0
        if is_certain and contents.compare_with(stream.raw) in ("covered", "continues"):
            self._keep_longer(file, contents)
            return

        file.close()
        relation = _best_relation(contents, self._known.get(header.id, ()))

        if owner == "elsewhere":
            if relation in ("continues", "branch"):
                self._add_candidate(file, contents, ELSEWHERE.format(one_line(header.notebook)))
        elif owner == "own" and (relation == "gap" or (relation is None and header.base)):
            self._add_notice(GAP_NOTICE.format(file.path))
        elif owner == "own" and relation is None:
            self._add_candidate(file, contents, UNKNOWN_CONVERSATION_NOTICE)
        elif owner == "own" and relation != "covered":
            self._add_candidate(file, contents, BRANCH)

    def _find_owner(self, header: JournalHeader) -> Literal["own", "unknown", "elsewhere"] | None:
        """Return the origin of a journal; None for another notebook that exists.

        `own` is this notebook, or this folder without a notebook. If the journal's notebook does
        not exist (`elsewhere`), it may have been renamed to this one. Or this one is a copy, and
        the drive of the original is not mounted.
        """
        notebook = self._notebook
        if is_of_place(header, notebook, self._kernel_folder):
            return "own"
        if not any(self._known.get(header.id, ())):
            return None

        if not (header.notebook and notebook):
            return "unknown"

        identity = get_file_identity(header.notebook)
        if not identity:
            return "elsewhere"

        # The same file can have several paths.
        return "own" if identity == get_file_identity(notebook) else None

    def _read(self, file: JournalFile) -> JournalContents | None:
        try:
            contents = read_journal(file.read())
        except OSError as exc:
            self._add_notice(f"{file.path} cannot be read: {exc.strerror or exc}")
            return None

        if contents is not None and contents.unreadable_bytes:
            count = contents.unreadable_bytes
            self._add_notice(f"the last {count} bytes of a journal cannot be read")
        return contents

    def _keep_longer(self, file: JournalFile, contents: JournalContents) -> None:
        for call, progress in contents.calls.items():
            self.calls[call] = pick_latest_progress(self.calls.get(call, progress), progress)

        found = (file, contents)
        if self.resumable is None:
            self.resumable = found
            return

        longer, shorter = sorted((self.resumable, found), key=lambda each: -each[1].length)
        self.resumable = longer

        base = longer[1].header.base
        shorter_base = shorter[1].header.base
        whole = [*self._stream.raw[:base], *longer[1].entries]
        covered = shorter[1].compare_with(whole) == "covered"
        shorter[0].close(remove=covered and base <= shorter_base)
        if not covered:
            self._add_candidate(*shorter, BRANCH)


def complete_document(folder: JournalFolder, document: JsonObject, *, notebook: str) -> JsonObject:
    """Return `document` of a headless run of `notebook`, with entries that a killed kernel wrote.

    The next interactive kernel recovers the journals of interactive ones.

    Raises:
        StorageError: Other users can access the folder of journals.
        OSError: The folder cannot be read.
    """
    for file, header in iter_journals_of(notebook, folder):
        contents = read_journal(file.read()) if header.made == "headless" else None
        if contents is not None:
            others = [_append_entries(each, contents) for each in get_others(document)]
            document = as_object(_append_entries(document, contents))
            if others:
                document = {**document, "others": others}
    return document


def iter_journals_of(
    notebook: str, folder: JournalFolder
) -> Iterator[tuple[JournalFile, JournalHeader]]:
    """Yield the journals of `notebook` that no kernel uses, each open until the next one."""
    for file in folder.abandoned():
        header = file.read_header()
        if header is not None and header.notebook == notebook:
            yield file, header
        file.close()


def _append_entries(conversation: JsonValue, contents: JournalContents) -> JsonValue:
    raw = _entries(conversation)
    same = get_conversation_id(conversation) == contents.header.id
    if not same or contents.compare_with(raw) != "continues":
        return conversation

    events = [*get_events(conversation), *contents.entries[len(raw) - contents.header.base :]]
    unsigned = {
        key: value for key, value in as_object(conversation).items() if key != SIGNATURE_KEY
    }
    signed = {SIGNATURE_KEY: contents.signature} if contents.signature else {}

    return {**unsigned, "conversation": contents.header.conversation, "events": events, **signed}


def remove_written(folder: JournalFolder, document: JsonObject, *, notebook: str) -> None:
    """Remove the journals of `notebook` whose entries are all in `document`, which is saved.

    Raises:
        StorageError: Other users can access the folder of journals.
        OSError: The folder cannot be read.
    """
    known = collect_copies(get_conversations(document), None)
    for file, header in iter_journals_of(notebook, folder):
        contents = read_journal(file.read()) if header.id in known else None
        if contents is not None and not contents.calls:
            file.close(remove=_best_relation(contents, known.get(header.id, ())) == "covered")


def _entries(conversation: JsonValue) -> list[RawEntry]:
    return [as_object(entry) for entry in get_events(conversation)]


def collect_copies(conversations: Iterable[JsonValue], active: ConversationStream | None) -> Copies:
    """Return the entries of stored `conversations` and of the `active` one, by their ids."""
    found: Copies = {} if active is None else {active.id: [active.raw]}
    for each in conversations:
        found.setdefault(get_conversation_id(each), []).append(_entries(each))
    return found


def _best_relation(
    contents: JournalContents, copies: Iterable[list[RawEntry]]
) -> JournalRelation | None:
    relations = {contents.compare_with(raw) for raw in copies}
    return next((relation for relation in get_args(JournalRelation) if relation in relations), None)


def _format_folder_notice(found: Sequence[JournalContents]) -> str:
    listed = []
    for contents in found[:MAX_LISTED_CONVERSATIONS]:
        entries = contents.entries
        header = contents.header
        requests = (each.get("content") for each in entries if each.get("type") == "chat_request")
        title = str(header.conversation.get("title") or next(requests, ""))
        turns = sum(each.get("type") == "turn_start" for each in entries)
        count = "1 turn" if turns == 1 else f"{turns} turns"
        identifier, shown = (one_line(text, limit=TITLE_CHARS) for text in (header.id, title))
        listed.append(f'{identifier} "{shown}" ({count})')

    if (more := len(found) - MAX_LISTED_CONVERSATIONS) > 0:
        listed.append(f"{more} more")

    if len(found) == 1:
        return IN_FOLDER.format("a conversation", "is", *listed, "it")
    names = "the newest one, `%jp resume ID` another one"
    return IN_FOLDER.format(f"{len(found)} conversations", "are", "; ".join(listed), names)


def is_of_place(header: JournalHeader, notebook: str, kernel_folder: str) -> bool:
    """Return True if a journal's notebook has the path or the file of `notebook`.

    Without a notebook, return True if the journal has none either, and is of `kernel_folder`.
    """
    if not notebook:
        return not header.notebook and kernel_folder != "" and header.folder == kernel_folder
    return header.notebook == notebook or (
        header.file != "" and header.file == get_file_identity(notebook)
    )

"""Sort the journals that earlier kernels left, when a kernel opens a notebook.

A journal is a file with entries of one conversation (`journal_format.py`). `Recovery` reads
all journals that no running kernel has locked, and decides about each one:

- the journal of the active conversation, if it continues the record: `resumable`, and the caller
  appends its entries;
- another journal of this notebook with entries that the notebook lacks: one of the `candidates`,
  which `%jp resume` can restore;
- a journal of another notebook: untouched.

The decision depends on the relation of the journal to the notebook's copy of the conversation:
`covered` (the copy has all entries), `continues` (the journal has more), `branch` (entries differ),
or `gap` (the copy lacks entries before the first one of the journal, the *base*). A notebook may
have several copies, of which that with the best relation counts (`journal_matching.py`).

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from jp_nb.record.documents.document import Document
from jp_nb.record.unfinished_calls import CallProgress, pick_latest_progress
from jp_nb.session.journals.journal_matching import collect_copies, find_best_relation, is_of_place
from jp_nb.storage.journals.journal_file import JournalFile
from jp_nb.storage.journals.journal_folder import JournalFolder, get_file_identity, make_file_name
from jp_nb.storage.journals.journal_format import JournalContents, JournalHeader, read_journal
from jp_nb.text import one_line

RESTORE_HINT = "`%jp resume` restores {} as a separate conversation"
BRANCH_NOTICE = (
    "the journal of an earlier kernel has other entries of this conversation: "
    f"{RESTORE_HINT.format('them')}"
)
UNKNOWN_CONVERSATION_NOTICE = (
    "the journal of an earlier kernel has a conversation that is missing from this notebook: "
    f"{RESTORE_HINT.format('it')}"
)
GAP_NOTICE = (
    "the journal of an earlier kernel has later entries of this conversation, but the entries "
    "before them are missing: they stay in {}"
)
OTHER_NOTEBOOK_NOTICE = (
    "the journal has entries of this conversation for the notebook {}, which no longer exists. "
    f"If it is this notebook, {RESTORE_HINT.format('them')}"
)
SHARED_NOTICE = (
    "another kernel also has this conversation open. The new entries of each kernel "
    "become a branch, and each kernel has its own journal"
)
FOLDER_NOTICE = "{} of this folder {} stored only in the journal: {}. `%jp resume` restores {}"

MAX_LISTED_CONVERSATIONS: Final = 3  # limit of the conversations of a folder in a notice
TITLE_CHARS: Final = 40

JournalOwner = Literal["own", "unknown", "elsewhere"]
"""The origin of a journal whose entries may be of this notebook.

- `own`: this notebook, or this folder without a notebook.
- `elsewhere`: a notebook that does not exist any more. It may have been renamed to this one. Or
  this one is a copy, and the drive of the original is not mounted.
- `unknown`: only one of the two, the journal or this kernel, has a notebook.
"""


@dataclass(frozen=True, slots=True)
class OpenJournal:
    """A journal that was read, and is still locked by this process."""

    file: JournalFile
    contents: JournalContents


class Recovery:
    """The journals that earlier kernels of a notebook, or without one in `kernel_folder`, left.

    The constructor sorts them. Only the file of `resumable` stays open and locked.

    Attributes:
        resumable: Journal of the active conversation, at least as long as the notebook's record.
        calls: Progress of tool calls in the journals of the active conversation, by event id.
        candidates: Paths of journals with entries that the notebook does not have, newest first.
        in_folder: Contents of the candidates without a notebook, which are of the kernel's folder.
        is_shared: True if another kernel has the active conversation open.
        notices: Notices for the user.

    Raises:
        StorageError: Other users can access the folder of journals.
        OSError: The folder cannot be read.
    """

    def __init__(
        self, folder: JournalFolder, document: Document, *, notebook: str, kernel_folder: str
    ) -> None:
        self._stream = document.conversation
        # The entries of all conversations of the notebook, as a list of copies by their id.
        self._copies = collect_copies(document.others, document.conversation)
        self._notebook = notebook
        self._kernel_folder = kernel_folder
        self.resumable: OpenJournal | None = None
        self.calls: dict[str, CallProgress] = {}
        self.candidates: list[Path] = []
        self.in_folder: list[JournalContents] = []
        self.is_shared = False
        self.notices: list[str] = []

        for file in folder.take_abandoned():  # it locks them
            self._examine(file)
        if self.in_folder:
            self._add_notice(_format_folder_notice(self.in_folder))

        if notebook:
            self._look_for_other_kernels(folder)

    def _examine(self, file: JournalFile) -> None:
        """Keep the journal open if it can be resumed; else close it, and maybe offer it."""
        header = file.read_header()
        if header is None:
            self._report_damaged(file)
            file.close(remove=not file.size)  # an empty one is of a kernel that died at once
            return

        owner = self._find_owner(header)
        contents = None if owner is None else self._read(file)
        if owner is None or contents is None:
            file.close()
            return

        # A journal from elsewhere may be that of another copy, so the user decides about it.
        stream = self._stream
        is_of_active = header.id == stream.id and len(stream) > 0
        may_resume = owner != "elsewhere" and is_of_active
        if may_resume and contents.compare_with(stream.raw) in ("covered", "continues"):
            self._keep_longer(OpenJournal(file, contents))
            return

        file.close()
        self._offer(file, contents, owner)

    def _report_damaged(self, file: JournalFile) -> None:
        """Report a journal without a valid header, if it is of a conversation of the notebook.

        The name of a journal begins with the id of its conversation.
        """
        prefixes = tuple(f"{make_file_name(conversation_id)}." for conversation_id in self._copies)
        if file.size and file.path.name.startswith(prefixes):
            self._add_notice(
                f"{file.path} is damaged, or is not a journal that this version of jp_nb can read"
            )

    def _find_owner(self, header: JournalHeader) -> JournalOwner | None:
        """Return the origin of a journal; None if its entries are not of this notebook.

        A journal of another place matters only if the notebook has a copy of its conversation, and
        the notebook in its header does not exist.
        """
        notebook = self._notebook
        # The journal has this notebook in its header, or the kernel's folder if both have none.
        if is_of_place(header, notebook, self._kernel_folder):
            return "own"

        has_copy = any(len(copy) > 0 for copy in self._copies.get(header.id, ()))
        if not has_copy:
            return None

        if not (header.notebook and notebook):
            return "unknown"

        identity = get_file_identity(header.notebook)
        if not identity:
            return "elsewhere"

        # The same file can have several paths.
        return "own" if identity == get_file_identity(notebook) else None

    def _read(self, file: JournalFile) -> JournalContents | None:
        """Return the content of a journal, with a notice if some of it cannot be read."""
        try:
            contents = read_journal(file.read())
        except OSError as exc:
            self._add_notice(f"{file.path} cannot be read: {exc.strerror or exc}")
            return None

        if contents is not None and contents.unreadable_bytes:
            count = contents.unreadable_bytes
            self._add_notice(f"the last {count} bytes of a journal cannot be read")
        return contents

    def _keep_longer(self, journal: OpenJournal) -> None:
        """Keep the longer journal of the active conversation, and the calls of both.

        The length counts from the first entry of the conversation. The shorter one is removed if
        the longer one has all its entries. If its entries differ, they are a branch, which the user
        can restore. If it only begins earlier, it stays on the disk.
        """
        for event_id, progress in journal.contents.calls.items():
            known = self.calls.get(event_id, progress)
            self.calls[event_id] = pick_latest_progress(known, progress)

        if self.resumable is None:
            self.resumable = journal
            return

        longer = self.resumable
        shorter = journal
        if journal.contents.length > longer.contents.length:
            longer = journal
            shorter = self.resumable
        self.resumable = longer

        base = longer.contents.header.base
        all_entries = [*self._stream.raw[:base], *longer.contents.entries]
        is_covered = shorter.contents.compare_with(all_entries) == "covered"
        # If it begins earlier, it has entries that are otherwise only in the notebook.
        begins_earlier = shorter.contents.header.base < base
        shorter.file.close(remove=is_covered and not begins_earlier)
        if not is_covered:
            self._add_candidate(shorter.file, shorter.contents, BRANCH_NOTICE)

    def _offer(self, file: JournalFile, contents: JournalContents, owner: JournalOwner) -> None:
        """Add a closed journal to the candidates if the notebook lacks its entries.

        A conversation that the notebook lacks altogether is added if the journal has it from its
        first entry on. Otherwise, entries before the journal are missing, and a notice names the
        file. A journal of an unknown origin is not added.
        """
        header = contents.header
        # None if the notebook does not have the conversation.
        relation = find_best_relation(contents, self._copies.get(header.id, ()))

        if owner == "elsewhere":
            if relation in ("continues", "branch"):
                notice = OTHER_NOTEBOOK_NOTICE.format(one_line(header.notebook))
                self._add_candidate(file, contents, notice)
            return
        if owner == "unknown":
            return

        if relation == "gap" or (relation is None and header.base):
            self._add_notice(GAP_NOTICE.format(file.path))
        elif relation is None:
            self._add_candidate(file, contents, UNKNOWN_CONVERSATION_NOTICE)
        elif relation != "covered":
            self._add_candidate(file, contents, BRANCH_NOTICE)

    def _add_candidate(self, file: JournalFile, contents: JournalContents, notice: str) -> None:
        """Add a journal that can be restored, and the notice about it.

        The journals of the kernel's folder share one notice. A journal of a headless run is not
        added: the next headless run replaces it (D18).
        """
        if contents.entries and contents.header.made != "headless":
            self.candidates.append(file.path)
            if not self._notebook and is_of_place(contents.header, "", self._kernel_folder):
                self.in_folder.append(contents)
            else:
                self._add_notice(notice)

    def _look_for_other_kernels(self, folder: JournalFolder) -> None:
        """Set `is_shared` if another kernel of the notebook has the conversation open."""
        own = None if self.resumable is None else self.resumable.file
        headers = folder.read_open_headers(self._stream.id, besides=own)
        self.is_shared = any(is_of_place(header, self._notebook, "") for header in headers)
        if self.is_shared:
            self._add_notice(SHARED_NOTICE)

    def _add_notice(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)


def _format_folder_notice(journals: Sequence[JournalContents]) -> str:
    """Return the notice about all conversations of the kernel's folder."""
    if len(journals) == 1:
        description = _describe_conversation(journals[0])
        return FOLDER_NOTICE.format("a conversation", "is", description, "it")

    listed = [_describe_conversation(contents) for contents in journals[:MAX_LISTED_CONVERSATIONS]]
    omitted_count = len(journals) - MAX_LISTED_CONVERSATIONS
    if omitted_count > 0:
        listed.append(f"{omitted_count} more")

    count = f"{len(journals)} conversations"
    restored = "the newest one, `%jp resume ID` another one"
    return FOLDER_NOTICE.format(count, "are", "; ".join(listed), restored)


def _describe_conversation(contents: JournalContents) -> str:
    """Return the id of a conversation, its title or first request, and its number of turns."""
    entries = contents.entries
    conversation = contents.header.conversation
    requests = (entry.get("content") for entry in entries if entry.get("type") == "chat_request")
    title = one_line(str(conversation.get("title") or next(requests, "")), limit=TITLE_CHARS)

    turn_count = sum(entry.get("type") == "turn_start" for entry in entries)
    count = "1 turn" if turn_count == 1 else f"{turn_count} turns"
    identifier = one_line(contents.header.id, limit=TITLE_CHARS)
    return f'{identifier} "{title}" ({count})'

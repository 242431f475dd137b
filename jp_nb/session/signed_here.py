"""Decide if the user's signature of a conversation counts in the notebook's workspace.

A signed conversation may have settings with relative paths, such as a command, an attachment, or a
script. In a copy of the notebook, they lead to files of another folder. So such a conversation is
trusted only in a workspace where the user signed it, and `%jp trust` asks once elsewhere.

Source: `docs/security.md`, `docs/decisions.md` D200.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from pydantic import JsonValue

from jp_nb.config.aliases import MODEL_PATH, get_aliases, resolve_model
from jp_nb.config.authority import may_untrusted_record_unset
from jp_nb.config.known_settings import split_unknown
from jp_nb.config.partials.partial import get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.stripped_settings import strip_untrusted
from jp_nb.errors import ConfigError, StorageError
from jp_nb.json_writing import canonical_json
from jp_nb.providers.scripts.script_format import SCRIPTED_NAME
from jp_nb.record.changes.base_change import read_base_change
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.provenance import paths_overlap
from jp_nb.record.changes.stored_changes import MODEL_KEYS
from jp_nb.record.changes.untrusted_changes import find_untrusted_changes
from jp_nb.record.stream import ConversationStream
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.signed_conversations import SignedConversations
from jp_nb.storage.trust import is_trusted_by_environment

_MANY_CHANGES: Final = 50
_MANY_CHARS: Final = 10_000
"""With more changes or longer settings, `permits` could exceed its limit of work, which is that for
an untrusted record (`change_budget.py`). So the conversation is remembered, whatever they are."""


def _find_workspace(files: ConfigFiles) -> Path:
    """Return the folder for which a signature counts: the root of the workspace.

    A `.jp/` in the home folder makes no workspace of all folders there: each one counts by itself.
    """
    root = files.root.resolve()
    with suppress(RuntimeError):  # a user without a home folder
        if Path.home().resolve().is_relative_to(root):
            return files.folder.resolve()
    return root


class SignatureOwner(Protocol):
    """The part of the active conversation that decides where its signature counts."""

    @property
    def files(self) -> ConfigFiles:
        """The configuration files of the notebook."""

    @property
    def headless(self) -> bool:
        """True in an unattended run."""

    @property
    def is_local(self) -> bool:
        """True if this process made every entry."""

    @property
    def notices(self) -> list[str]:
        """Messages for the user."""


class SignedHere:
    """The workspace of the notebook: it implements `Workspace` (`record_trust.py`).

    `Trust` calls `permits` when it checks a signature, `remember` when it signs, and `forget` when
    the user takes the trust back.

    A setting has *authority* if an untrusted record may not set it, such as a command. Only
    conversations with such settings, or with a script as the model, are remembered, so that most
    conversations need no list.
    """

    def __init__(self, active: SignatureOwner) -> None:
        self._active = active
        # Id of the conversation that was remembered last.
        self._remembered_id = ""
        # The conversation that was last searched for settings with authority: its id, the number of
        # its changes that were read, and the size of all its settings.
        self._checked_id = ""
        self._checked_count = 0
        self._checked_chars = 0

    @property
    def folder(self) -> Path:
        """The folder for which a signature counts."""
        return _find_workspace(self._active.files)

    def permits(self, stream: ConversationStream) -> bool:
        """Return True if a signature of `stream` counts in this workspace.

        It counts everywhere in an unattended run, which also runs the notebook's own code without
        asking, in a workspace that a variable of the user trusts, and if the conversation has no
        settings with authority.

        Raises:
            StorageError: The list of the signed conversations cannot be read.
        """
        if self._active.headless or is_trusted_by_environment(self.folder):
            return True

        # A projection ignores settings with authority, as long as it is not told to trust.
        layers, _ = self._active.files.load_valid_layers()
        projection = Projection(stream, lambda: layers)
        if not find_untrusted_changes(projection) and not _selects_script(projection):
            return True
        return SignedConversations(self.folder).covers(stream.id)

    def remember(self, stream: ConversationStream) -> None:
        """Remember that the user signed `stream` here, if it may have settings with authority.

        An unattended run remembers only conversations that it began, because it continues others
        without asking.
        """
        is_continued = self._active.headless and not self._active.is_local
        if is_continued or stream.id == self._remembered_id:
            return
        if not self._adds_authority(stream):
            return

        self._remembered_id = stream.id
        try:
            SignedConversations(self.folder).add(stream.id)
        except StorageError as exc:
            self._active.notices.append(
                f"the next kernel will ask you to trust this conversation, because {exc}"
            )

    def _adds_authority(self, stream: ConversationStream) -> bool:
        """Return True if the changes since the last call may set a setting with authority.

        It is also True if they are too many to read. It was False for the changes before: otherwise
        the conversation would be remembered already.
        """
        changes: list[Change] = []
        is_shorter = self._checked_count > len(stream.deltas)  # a repair removed changes
        if stream.id != self._checked_id or is_shorter:
            self._checked_id = stream.id
            self._checked_count = 0
            self._checked_chars = len(canonical_json(stream.base_config))
            # Its second argument receives problems: invalid settings have no effect.
            changes.append(read_base_change(stream.base_config, {}))

        for delta in stream.deltas[self._checked_count :]:
            self._checked_chars += len(canonical_json(delta.delta))
            model = get_path(delta.delta, MODEL_PATH)
            if delta.op == "reset" or _may_be_script(model):
                return True
            changes.append(Change(delta.delta, tuple(delta.unsets)))

        self._checked_count = len(stream.deltas)
        is_long = self._checked_count > _MANY_CHANGES or self._checked_chars > _MANY_CHARS
        return is_long or any(map(_has_authority, changes))

    def forget(self, stream: ConversationStream) -> None:
        """Forget that the user signed `stream` here.

        Raises:
            StorageError: The list of the signed conversations cannot be changed.
        """
        self._checked_id = ""
        self._remembered_id = ""
        SignedConversations(self.folder).remove(stream.id)

    def accept_all(self) -> None:
        """Let all signatures of the user count in this workspace, which the user has moved.

        Raises:
            StorageError: This cannot be stored. Nothing has changed.
        """
        SignedConversations(self.folder).accept_all()


def _has_authority(change: Change) -> bool:
    """Return True if an untrusted record could not make all of `change`."""
    settings, _ = split_unknown(change.delta)  # unknown settings have no effect
    _, refused = strip_untrusted(settings, "record")  # those that an untrusted record may not set
    return bool(refused) or not all(map(_may_unset, change.unsets))


def _may_unset(path: str) -> bool:
    """Return True if an untrusted record may unset the setting at `path`."""
    try:
        keys = parse_path(path)
        return may_untrusted_record_unset(keys) and not paths_overlap(keys, MODEL_KEYS)
    except ConfigError:
        return True  # a malformed path has no effect


def _may_be_script(model: JsonValue) -> bool:
    """Return True if `model` is a script, or an alias that may be one."""
    if isinstance(model, dict):
        return model.get("provider") == SCRIPTED_NAME
    return model is not None


def _selects_script(projection: Projection) -> bool:
    """Return True if a change selects a script, which may be a file of the notebook's folder."""
    for step in projection.steps():
        if step.delta is None or get_path(step.change.delta, MODEL_PATH) is None:
            continue
        model = get_path(step.after, MODEL_PATH)
        if isinstance(model, str):
            with suppress(ConfigError):  # an unknown alias selects nothing
                model = {"provider": resolve_model(model, get_aliases(step.after)).provider}
        if isinstance(model, dict) and model.get("provider") == SCRIPTED_NAME:
            return True
    return False

"""Draft the changes of settings that a user writes as options or commands.

A *directive* is one of them: `-c KEY=VALUE` or `-c FILE` (kind `cfg`), `-C` (`no_cfg`, which undoes
it), `-t` and `-T` (`tool`, `no_tool`), `-a` (`attach`), and `--unset`. `%jp config` and the options
of `%%jp` use them. A draft is recorded later as a whole, or not at all.

Source: `docs/configuration.md`, `docs/decisions.md` D13, D20.
"""

from __future__ import annotations

import json
import shlex

from pydantic import JsonValue

from jp_nb.config.assignments import is_assignment, parse_assignment
from jp_nb.config.directives import Directive
from jp_nb.config.layers import ENVIRONMENT_LAYER, Layer, merge_layers
from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.partials.partial import get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.setting_leaves import iter_settings, list_leaf_paths
from jp_nb.config.schema import find_node, require_node
from jp_nb.config.setting_paths import Element, format_path, parse_path
from jp_nb.config.tool_toggles import toggle_tools
from jp_nb.config.tree.attachment_urls import parse_attachment_argument
from jp_nb.errors import UsageError
from jp_nb.record.changes.claims import ChangeSource
from jp_nb.record.changes.config_draft import Draft
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.provenance import BASE
from jp_nb.record.changes.reverts import revert_source, revert_value
from jp_nb.session.attached_values import is_value
from jp_nb.session.configuration.requested_changes import LOAD_PATHS, read_requested_changes
from jp_nb.session.configuration.whole_configuration import to_store, with_model
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.storage.configuration.config_files import ConfigFiles


class DirectiveDraft(Draft):
    """Draft that directives change one by one, with notices about those without effect.

    A change has *claims*, which note its source in the record: a file, or an assignment of the
    user. `-C` uses them to undo a source.

    Of `Draft` (`record/changes/config_draft.py`), `add` adds a change with its claims, and
    `add_from` a change of a source, or of none (None). Both return False if it changes nothing.
    `partial()` has the settings so far, and `steps()` the changes since the last reset.
    """

    def __init__(self, projection: Projection, files: ConfigFiles) -> None:
        super().__init__(projection)
        self._files = files

    def apply(self, directive: Directive) -> None:
        """Add the changes of `directive`. One that cannot be applied is a `UsageError`."""
        match directive.kind:
            case "cfg":
                self._set(directive.text)
            case "no_cfg":
                self._revert(directive.text)
            case "tool" | "no_tool":
                on = directive.kind == "tool"
                self.assign(toggle_tools(self.config(), directive.text, on=on))
            case "attach":
                url = self._make_attachment_url(directive.text)
                self.assign(Change({"conversation": {"attachments": [url]}}))
            case "unset":
                self._unset(directive.text)

    def _set(self, text: str) -> None:
        """Add the changes of `-c TEXT`; `NONE` and `WORKSPACE` reset all settings."""
        if text in ("NONE", "WORKSPACE"):
            self.reset()
            if text == "WORKSPACE":
                # All settings of the files, also with a model if they name none.
                settings = with_model(merge_layers(self._files.load_layers()))
                self.add_from(None, Change(to_store(settings)))
            return

        for change, layer in read_requested_changes(text, self.partial(), self._files):
            source = ChangeSource.assignment(change) if layer is None else self._make_source(layer)
            self.add_from(source, change)

    def _make_source(self, layer: Layer) -> ChangeSource:
        """Return the file of `layer` as the source of a change."""
        names, label = self._files.make_claim_names(layer)
        return ChangeSource.named(*names, label=label)

    def _revert(self, text: str) -> None:
        """Revert the changes of a file, or values from any source, for `-C`."""
        if is_assignment(text):
            self._revert_assignment(text)
            return

        file_layers = self._files.load_named(text, get_path(self.partial(), LOAD_PATHS) or [])
        hashes = frozenset().union(*(self._make_source(layer).hashes for layer in file_layers))

        # A value that an environment variable sets is the variable's, and stays.
        layers, _ = self._files.load_valid_layers()
        variables = [layer.partial for layer in layers if layer.name == ENVIRONMENT_LAYER]

        revert = revert_source(self.steps(), hashes, unclaimed=list_leaf_paths(variables))
        if revert.claims:  # the file owns a setting
            self.add(revert.change, revert.claims)
        else:
            self.notices.append(f"no current setting is from {text!r}, so nothing changes")

    def _revert_assignment(self, text: str) -> None:
        """Revert values that equal those of `-C KEY=VALUE`, whatever their source is."""
        change = parse_assignment(text, self.partial())
        if change.unsets and not change.delta:
            raise UsageError(
                "-C undoes a value or the settings of a file. To undo a setting of this "
                f"conversation, use `%jp config --unset {change.unsets[0]}`"
            )

        for path, value in iter_settings(change.delta):
            if not self._revert_value(path, value):
                shown = json.dumps(mask_secrets(value, parse_path(path)), ensure_ascii=False)
                self.notices.append(f"{path} is not {shown}, so nothing changes")

    def _revert_value(self, path: str, value: JsonValue) -> bool:
        """Revert `value` at `path`; return False if it is not the current value.

        The setting then has the value before the change that set it.
        """
        node = find_node(path)
        is_list = node is not None and node.kind == "list"
        current = get_path(self.partial(), path)
        # A list of some items removes these from a longer list.
        if is_list and isinstance(value, list) and value != current:
            return self._remove_items(path, value, current)

        revert = revert_value(self.steps(), path, value)
        if revert is None:
            return False
        self.add(revert.change, revert.claims)
        return True

    def _remove_items(self, path: str, items: list[JsonValue], current: JsonValue) -> bool:
        """Remove `items` from the `current` list at `path`; return False if it has none of them."""
        present = [item for item in items if isinstance(current, list) and item in current]
        if not present:
            return False

        keys = parse_path(path)
        elements = tuple(format_path((*keys, Element(item))) for item in present)
        return self.add_from(None, Change(unsets=elements))

    def assign(self, change: Change) -> None:
        """Add `change` as an assignment of the user."""
        if change:
            self.add_from(ChangeSource.assignment(change), change)

    def _make_attachment_url(self, text: str) -> str:
        """Return the URL of `-a TEXT`, after a test read."""
        root = self._files.root
        within = self._files.folder.relative_to(root).as_posix()

        try:
            url = parse_attachment_argument(text, within=within)
        except ValueError as exc:
            raise UsageError(f"-a: {exc}") from exc
        if is_value(url):
            return url  # read later, on the cell's thread

        try:
            Attachments().read([url], root)
        except AttachmentError as exc:
            raise UsageError(f"-a {text}: {exc}") from exc
        return url

    def _unset(self, path: str) -> None:
        """Remove the conversation's value at `path`, so that the value of a lower layer applies.

        That is an unset that *uncovers*. An unset alone would leave the default.
        """
        require_node(path)  # raises an error for an unknown setting
        change = Change(unsets=(path,), uncovers=frozenset({path}))
        is_changed = self.add_from(None, change)
        if is_changed:
            return

        # The conversation has no value there. The value of a lower layer can only be hidden.
        shown = format_path(parse_path(path))
        explained = self._projection.explain([path])[path]  # the sources, the strongest one last
        sources = [source for source in explained if source.source != BASE]
        notice = f"{shown} is not set, so nothing changes"
        if sources and sources[-1].value is not None:
            notice = (
                f"this conversation does not set {shown}; its value is from {sources[-1].place}. "
                f"Unset it in this conversation: `%jp config {shlex.quote(f'{shown}:=null')}`"
            )
        self.notices.append(notice)

"""Changes that the options of a cell ask for, made in a draft.

Source: `docs/configuration.md`, `docs/record.md`, `docs/decisions.md` D20.
"""

from __future__ import annotations

import json
import shlex

from pydantic import JsonValue

from jp_nb.config.assignments import is_assignment, parse_assignment
from jp_nb.config.directives import Directive
from jp_nb.config.layers import ENVIRONMENT, Layer, fold
from jp_nb.config.masking import masked
from jp_nb.config.model_aliases import parse_model_id
from jp_nb.config.partial import Change, get_path, leaves
from jp_nb.config.paths import Element, format_path, parse_path
from jp_nb.config.schema import node_of, require
from jp_nb.config.toggles import toggled
from jp_nb.config.tree.attachment_url import attachment_argument
from jp_nb.errors import UsageError
from jp_nb.record.claims import Source, claims_for, revert_source, revert_value
from jp_nb.record.draft import Draft
from jp_nb.record.projection import Projection
from jp_nb.record.provenance import BASE
from jp_nb.session.attached_values import is_value
from jp_nb.session.requested_changes import load_paths, model_set, requested_changes
from jp_nb.session.starting_config import to_store, with_model
from jp_nb.workspace.attachment_files import AttachmentError, Attachments
from jp_nb.workspace.config_files import ConfigFiles


class Drafting:
    """Makes the changes of directives, one after the other, in a draft on top of `projection`.

    Attributes:
        draft: What was made so far, with notices of what there was not to change.
    """

    def __init__(self, projection: Projection, files: ConfigFiles) -> None:
        self.draft = Draft(projection)
        self._projection = projection
        self._files = files

    def make(self, directive: Directive) -> None:
        """Make the change that `directive` asks for.

        Raises:
            ConfigError: If it is malformed, or names something that there is not.
            UsageError: If nothing can be made of it.
        """
        match directive.kind:
            case "cfg":
                self._set(directive.text)
            case "no_cfg":
                self._take_back(directive.text)
            case "tool" | "no_tool":
                config, on = self.draft.config(), directive.kind == "tool"
                self._assign(toggled(config, directive.text, on=on))
            case "attach":
                self._assign(
                    Change({"conversation": {"attachments": [self._attached(directive.text)]}})
                )
            case "unset":
                self._uncover(directive.text)

    def choose_model(self, text: str) -> None:
        """Set the model that `text` names, as `provider/name` or an alias.

        Raises:
            ConfigError: If it names none.
        """
        self._assign(Change(model_set(parse_model_id(text), self.draft.partial())))

    def _assign(self, change: Change) -> None:
        if change:
            self.draft.add(change, claims_for(change, Source.assignment(change)))

    def _uncover(self, path: str) -> None:
        """Take back what the conversation says at `path`."""
        require(path)
        change = Change(unsets=(path,), uncovers=frozenset({path}))
        if self.draft.add(change, claims_for(change, None)):
            return
        shown = format_path(parse_path(path))
        said = [x for x in self._projection.explain([path])[path] if x.source != BASE]
        if not said or said[-1].value is None:
            self._note(f"{shown} is not set, so nothing changes")
            return
        where = ", ".join(filter(None, (said[-1].source, said[-1].file)))
        self._note(
            f"this conversation does not set {shown}; its value is from {where}. "
            "Unset it in this conversation: `%jp config "
            f"{shlex.quote(f'{shown}:=null')}`"
        )

    def _note(self, text: str) -> None:
        self.draft.notices.append(text)

    def _attached(self, text: str) -> str:
        """Return the URL that `-a TEXT` attaches, once it could be read."""
        root = self._files.root
        within = self._files.folder.relative_to(root).as_posix()
        try:
            url = attachment_argument(text, within=within)
        except ValueError as exc:
            raise UsageError(f"-a: {exc}") from exc
        if is_value(url):
            return url  # it is looked at where the variables are
        try:
            Attachments().read([url], root)
        except AttachmentError as exc:
            raise UsageError(f"-a {text}: {exc}") from exc
        return url

    def _set(self, text: str) -> None:
        if text in ("NONE", "WORKSPACE"):
            self.draft.reset()
            if text == "WORKSPACE":
                change = Change(to_store(with_model(fold(self._files.layers()))))
                self.draft.add(change, claims_for(change, None))
            return
        for change, layer in requested_changes(text, self.draft.partial(), self._files):
            source = Source.assignment(change) if layer is None else self._source_of(layer)
            self.draft.add(change, claims_for(change, source))

    def _source_of(self, layer: Layer) -> Source:
        names, label = self._files.claim_names(layer)
        return Source.named(*names, label=label)

    # --- taking back -------------------------------------------------------------------------

    def _take_back(self, text: str) -> None:
        """Take back what `-C` names: a file's changes, or values wherever they are from."""
        if not is_assignment(text):
            self._take_file_back(text)
            return
        change = parse_assignment(text, self.draft.partial())
        if change.unsets and not change.delta:
            raise UsageError(
                "-C undoes a value or the settings of a file. To undo a setting of "
                "this conversation, "
                f"use `%jp config --unset {change.unsets[0]}`"
            )
        for path, value in leaves(change.delta):
            if not self._take_value_back(path, value):
                shown = json.dumps(masked(value, parse_path(path)), ensure_ascii=False)
                self._note(f"{path} is not {shown}, so nothing changes")

    def _take_file_back(self, name: str) -> None:
        hashes: frozenset[str] = frozenset()
        for layer in self._files.named(name, load_paths(self.draft.partial())):
            hashes |= self._source_of(layer).hashes
        revert = revert_source(self.draft.steps(), hashes, unclaimed=self._in_environment())
        if revert.claims:
            self.draft.add(revert.change, revert.claims)
        else:
            self._note(f"no current setting is from {name!r}, so nothing changes")

    def _take_value_back(self, path: str, value: JsonValue) -> bool:
        node = node_of(path)
        now = get_path(self.draft.partial(), path)
        if node is not None and node.kind == "list" and isinstance(value, list) and value != now:
            present = [item for item in value if isinstance(now, list) and item in now]
            keys = parse_path(path)
            items = Change(unsets=tuple(format_path((*keys, Element(item))) for item in present))
            return bool(present) and self.draft.add(items, claims_for(items, None))
        revert = revert_value(self.draft.steps(), path, value)
        if revert is None:
            return False
        self.draft.add(revert.change, revert.claims)
        return True

    def _in_environment(self) -> list[str]:
        return [
            path
            for layer in self._files.readable()[0]
            if layer.name == ENVIRONMENT
            for path, _ in leaves(layer.partial)
        ]

"""Read the attachments of a configuration: files, and values of the notebook.

The setting `conversation.attachments` is a list of URLs. Those of files are like `file://notes.md`,
and each turn reads the files again. Those of values are `value:NAME`. They are described on the
cell's thread first (`values.describe`), because only there the user's objects may be used.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from jp_nb.agent.provider import Attachment
from jp_nb.config.layers import Layer
from jp_nb.config.partials.partial import get_path
from jp_nb.config.setting_paths import Element, format_path, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError
from jp_nb.session.attached_values import AttachedValues, is_value
from jp_nb.storage.attachments import AttachmentError, Attachments
from jp_nb.storage.configuration.config_files import ConfigFiles

ATTACHMENTS_PATH: Final = "conversation.attachments"


class TurnAttachments:
    """The attachments of turns.

    Equal attachments are the same tuple in each turn: then providers need not render them again.

    Attributes:
        values: The values of the notebook that are attached.
    """

    def __init__(self, files: ConfigFiles) -> None:
        self._files = files
        self._reader = Attachments()
        self.values = AttachedValues()
        # The last attachments with values. Those of files only are kept by `self._reader`.
        self._last: tuple[Attachment, ...] = ()

    def read(self, config: AppConfig) -> tuple[Attachment, ...]:
        """Return the current attachments of `config`.

        Raises:
            ConfigError: One cannot be read. The error has the place of its setting.
        """
        try:
            return self._read_all(config.conversation.attachments)
        except AttachmentError as exc:
            raise self._locate(exc) from exc

    def _read_all(self, urls: Sequence[str]) -> tuple[Attachment, ...]:
        """Return the parts of all files, and then of all values."""
        files = [url for url in urls if not is_value(url)]
        file_parts = self._reader.read(files, self._files.root) if files else ()
        if len(files) == len(urls):
            return file_parts

        value_parts: list[Attachment] = []
        for url in urls:
            if is_value(url):
                value_parts += self.values.get(url)

        parts = (*file_parts, *value_parts)
        if self._last != parts:
            self._last = parts
        return self._last

    def _locate(self, error: AttachmentError) -> ConfigError:
        """Return the error with the file and the layer that have the setting."""
        path = format_path((*parse_path(ATTACHMENTS_PATH), Element(error.url)))
        fix = f"Remove it from this conversation: `%jp config {shlex.quote(f'{path}:=null')}`"
        layer_name = None
        file = None
        # The weakest layer is the first. The first one with the URL adds it: an equal URL of a
        # later layer is dropped.
        for layer in self._files.load_layers():
            if error.url in _list_attachments(layer):
                layer_name = layer.name
                file = layer.file
                break

        return ConfigError(f"{error}. {fix}", path=path, layer=layer_name, file=file)


def _list_attachments(layer: Layer) -> list[str]:
    """Return the URLs of `layer`, in the form that errors have.

    A layer may also have tables in place of URLs, and a merge strategy around the list.
    """
    written = get_path(layer.partial, ATTACHMENTS_PATH) or []
    return validate_config({"conversation": {"attachments": written}}).conversation.attachments

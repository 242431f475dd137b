"""The servers in files of other applications that the setting `providers.mcp_files` lists.

Each file becomes a layer of the configuration. A file that may have come with a cloned folder needs
the user's consent, because a server is a program that runs. Without it, the file is *pending*: its
layer does not apply, and `%jp trust` shows its servers and asks.

Source: `docs/mcp.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jp_nb.config.layers import Layer
from jp_nb.storage.configuration.consent_texts import format_pending
from jp_nb.storage.configuration.file_consents import FileConsents
from jp_nb.storage.configuration.file_notices import FileNotices
from jp_nb.storage.configuration.workspace_folder import WorkspaceFolder
from jp_nb.storage.server_lists.mcp_layers import (
    ServerLayers,
    is_listed_by_user,
    list_files,
    list_leaves,
    list_server_names,
    locate_servers,
    make_content,
)


class ListedServers:
    """Reads the listed files of a workspace. A file is read again after a change.

    A file without consent becomes pending in `consents`, and `notices` tells the user.
    """

    def __init__(
        self, workspace: WorkspaceFolder, consents: FileConsents, notices: FileNotices
    ) -> None:
        self._workspace = workspace  # its root may change, when a `.jp/` is created
        self._consents = consents
        self._notices = notices
        self._server_layers = ServerLayers(notices.add)

    def read(self, layers: Sequence[Layer]) -> list[Layer]:
        """Return the layers of the files in `providers.mcp_files` that apply now.

        `layers` are the configuration that lists the files. If several servers have the same name,
        one in `layers` takes precedence, then the one in the file that is listed first.
        """
        taken_names: set[str] = set()
        for configured in layers:
            taken_names.update(list_server_names(configured))

        server_layers: list[Layer] = []
        for listed in list_files(layers):
            layer = self._server_layers.read(listed, self._workspace.root, taken_names)
            if layer is None:  # unreadable, or no server is left
                continue
            # Also without consent: the consent to one file does not change the servers of another.
            taken_names.update(list_server_names(layer))

            path = locate_servers(listed, self._workspace.root)
            if self._is_own_server_file(path, layers) or self._has_consent(path, layer):
                server_layers.append(layer)
            else:
                pending = self._consents.get_pending(path)
                assert pending is not None  # `_has_consent` has just made the file pending
                self._notices.add(format_pending([pending]))

        return server_layers

    def _is_own_server_file(self, path: Path, layers: Sequence[Layer]) -> bool:
        """Return True if a file with servers is the user's own, and so needs no consent.

        It is outside of the workspace, so it did not come with the folder, and the user's own
        configuration lists it.
        """
        is_outside = not path.is_relative_to(self._workspace.root)
        return is_outside and is_listed_by_user(path, layers, self._workspace.root)

    def _has_consent(self, path: Path, layer: Layer) -> bool:
        """Return True if the user has consented to the servers in `layer`, the file at `path`.

        Without consent, the file becomes pending.
        """
        settings = list(list_leaves(layer))  # path and value of each, which the user reads
        return self._consents.check(path, make_content(layer), settings)

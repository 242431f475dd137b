"""OAuth credentials for MCP servers, in a private file of the user's data folder.

They are kept by the server's address and, below it, by the issuer: a token of one issuer is never
sent to another server, whatever its name in the configuration is.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject, as_object
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.storage.private_files import lock_private_file, replace_private_file
from jp_nb.storage.user_folders import get_data_folder

MAX_CREDENTIAL_BYTES: Final = 5_000_000
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def get_credentials_path() -> Path:
    """Return the path of the stored credentials. It may not exist."""
    return get_data_folder() / "mcp-credentials.json"


class StoredCredentials:
    """The credentials for the server at one address.

    Credentials are an object with the `tokens` of OAuth and the registered `client`.

    Args:
        server_url: The resolved address of the server.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url

    def load(self) -> JsonObject | None:
        """Return the credentials of the issuer that was used last, or None.

        Raises:
            StorageError: The file cannot be read, or is not private.
        """
        server = as_object(_read().get(self._server_url))
        issuers = as_object(server.get("issuers"))
        found = issuers.get(str(server.get("last")))
        return found if isinstance(found, dict) else None

    def save(self, issuer: str, credentials: JsonObject) -> None:
        """Store the credentials of `issuer`, and use them from now on.

        Raises:
            StorageError: The file cannot be read or written.
        """

        def change(servers: JsonObject) -> None:
            server = as_object(servers.get(self._server_url))
            issuers = as_object(server.get("issuers"))
            servers[self._server_url] = {
                "last": issuer,
                "issuers": {**issuers, issuer: credentials},
            }

        _change(change)

    def forget(self) -> bool:
        """Remove the credentials of all issuers. Return False if there were none.

        Raises:
            StorageError: The file cannot be read or written.
        """
        if self._server_url not in _read():
            return False
        _change(lambda servers: servers.pop(self._server_url, None))
        return True

    def list_secrets(self) -> list[str]:
        """Return the stored tokens of this server; none if the file cannot be read."""
        try:
            credentials = self.load() or {}
        except StorageError:  # then no request has a token
            return []

        tokens = as_object(credentials.get("tokens"))
        client = as_object(credentials.get("client"))
        values = [
            tokens.get("access_token"),
            tokens.get("refresh_token"),
            client.get("client_secret"),
        ]
        return [value for value in values if isinstance(value, str)]


def _read() -> JsonObject:
    """Return the entries by server. A damaged file has none, so that the user signs in again."""
    path = get_credentials_path()
    try:
        if sys.platform != "win32" and path.stat().st_mode & _GROUP_AND_OTHERS:
            raise StorageError(
                f"{path} is accessible to other users, so it is not used. Delete it, and sign in "
                "again"
            )
        data = read_owned_file(path, max_bytes=MAX_CREDENTIAL_BYTES)
    except FileNotFoundError:
        return {}
    except (ForeignFileError, OSError) as exc:
        raise StorageError(f"{path} cannot be read: {exc}") from exc

    value: JsonValue = None
    with suppress(ValueError, RecursionError):  # damaged: the user signs in again
        value = json.loads(data)
    return as_object(as_object(value).get("servers"))


def _change(change: Callable[[JsonObject], object]) -> None:
    path = get_credentials_path()
    with lock_private_file(path):
        servers = _read()
        change(servers)
        replace_private_file(path, {"version": 1, "servers": servers})

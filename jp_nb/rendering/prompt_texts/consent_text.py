"""Settings that wait for the user's consent, as rows of a table: path, exact value, and file.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from pydantic import JsonValue

from jp_nb.config.masked_settings import format_masked
from jp_nb.config.secret_settings.server_risks import describe_setting_risks
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.server_settings import MCP_PATH
from jp_nb.exact_form import escape_invisible, spell_invisible
from jp_nb.storage.trust import PendingConsent

PENDING_HEAD: Final = ("path", "value", "file")


def list_pending_rows(found: Iterable[PendingConsent]) -> list[tuple[str, str, str]]:
    """Return the settings that wait for consent: path, value, and file."""
    leaves = chain.from_iterable(pending.leaves for pending in found)
    return [
        (spell_invisible(path), format_consent_value(path, value), spell_invisible(file))
        for path, value, file in leaves
    ]


def format_consent_value(path: str, value: JsonValue) -> str:
    """Return the `value` of a setting for the user's consent: exact, without secrets, with risks.

    The settings of an MCP server have their risks in brackets, such as those of `BASH_ENV`.
    """
    keys = parse_path(path)
    shown = escape_invisible(format_masked(path, value))

    # The path of such a setting is that of the servers, the name of the server, and more keys.
    server_keys = keys[len(MCP_PATH) + 1 :]
    is_of_server = keys[: len(MCP_PATH)] == MCP_PATH and len(server_keys) > 0
    if not is_of_server:
        return shown

    risks = describe_setting_risks(server_keys, value)
    if not risks:
        return shown

    listed = "; ".join(risks)
    return f"{shown} [{listed}]"

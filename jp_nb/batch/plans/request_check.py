"""Check what a batch would store: no secrets, and only texts that UTF-8 can encode.

The log, the reports, and the notebooks of a batch contain its settings and the names of its files.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from jp_nb.batch.plans.batch_request import BatchRequest
from jp_nb.batch.plans.parameter_checks import is_utf8
from jp_nb.config.masked_settings import is_secret_path
from jp_nb.config.secret_settings.server_secrets import hide_url
from jp_nb.config.secrets.api_keys import find_api_keys
from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.errors import UsageError
from jp_nb.text import one_line

_ADDRESS_WITH_USER: Final = re.compile(r"://[^\s/?#@]+@")


def check_request(request: BatchRequest, out: Path) -> None:
    """Check the settings, the models, and the paths of a batch that writes to `out`.

    Raises:
        UsageError: One contains a secret, or cannot be stored.
    """
    for text in (*request.cfg, *(f"--models {name}" for name in request.models)):
        _refuse_secret(text)
        if not is_utf8(text):
            raise UsageError(f"{_show_bytes(text)}: the argument is not UTF-8")

    files = (request.each, request.answers, request.cassette_file)
    for path in (request.cwd, str(out), *request.notebooks, *files):
        check_path(path)


def check_path(path: Path | str) -> None:
    """Check that the log and the notebooks can contain the name of a file.

    Raises:
        UsageError: It is not UTF-8.
    """
    text = os.fspath(path)
    if not is_utf8(text):
        raise UsageError(
            f"{_show_bytes(text)}: the name of the file is not UTF-8, so no log can contain it: "
            "rename the file"
        )


def _show_bytes(text: str) -> str:
    """Return `text` with invalid bytes spelled out."""
    return one_line(text.encode(errors="backslashreplace").decode(), limit=300)


def _refuse_secret(argument: str) -> None:
    """Refuse an API key or a password in an argument of `-c`, or in the name of a model."""
    path, equals_sign, value = argument.partition("=")
    name = path.rstrip(" :+")  # `PATH:=JSON` and `PATH+=VALUE` are other forms of an argument
    sets_secret = bool(equals_sign) and bool(value) and is_secret_path(name.split("."))
    if not sets_secret and not _contains_secret(argument):
        return

    # The name is that of a setting, unless the argument has another form or a key itself.
    shown = one_line(hide_secrets(name), limit=80) if equals_sign else ""
    if find_api_keys(name) or name.startswith("{"):
        shown = ""
    raise UsageError(
        f"-c {shown} contains an API key or a password, which would be stored in the log: set an "
        "environment variable instead, that of the provider or `JP_CFG_…` for a setting"
    )


def _contains_secret(argument: str) -> bool:
    """Return True if a part of the argument has the form of a key, or is one in an address."""
    if hide_secrets(argument) != argument or hide_url(argument) != argument:
        return True
    return _ADDRESS_WITH_USER.search(argument) is not None or bool(find_api_keys(argument))

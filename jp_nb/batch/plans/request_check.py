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
        UsageError: A setting or a model contains a secret, or one of the texts is not UTF-8.
    """
    for setting in request.cfg:
        _check_argument(setting, place=_format_place(setting))
    for model in request.models:
        _check_argument(model, place="--models")

    files = (request.each, request.answers, request.cassette_file)  # "" for none
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


def _check_argument(argument: str, *, place: str) -> None:
    """Refuse an argument that contains an API key or a password, or is not UTF-8."""
    name, value = _split_setting(argument)
    sets_secret = bool(value) and is_secret_path(name.split("."))

    if sets_secret or _contains_secret(argument):
        raise UsageError(
            f"{place} contains an API key or a password, which would be stored in the log: set an "
            "environment variable instead, that of the provider or `JP_CFG_…` for a setting"
        )
    if not is_utf8(argument):
        raise UsageError(f"{_show_bytes(argument)}: the argument is not UTF-8")


def _split_setting(argument: str) -> tuple[str, str]:
    """Return the name and the value in an argument of `-c`; an empty value without `=`."""
    path, _, value = argument.partition("=")
    return path.rstrip(" :+"), value  # other forms are `PATH:=JSON` and `PATH+=VALUE`


def _format_place(argument: str) -> str:
    """Return `-c` with the name of the setting in `argument`, if a message can show the name."""
    name, value = _split_setting(argument)
    is_json = name.startswith("{")  # settings as one object: `{"assistant": {…}}`
    if not value or is_json or _contains_secret(name):
        return "-c"
    return f"-c {one_line(name, limit=80)}"


def _contains_secret(argument: str) -> bool:
    """Return True if a part of the argument has the form of a key, or is one in an address."""
    # A key by its form, or the value of a secret name, such as `token: …`.
    if find_api_keys(argument) or hide_secrets(argument) != argument:
        return True
    # A secret in the query of an address, or a user before its host, with or without a password.
    return hide_url(argument) != argument or _ADDRESS_WITH_USER.search(argument) is not None

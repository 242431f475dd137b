"""Refusals of proposed configuration changes, with their texts for the tool and for the user.

Each problem concerns one path. The tool reads all of them as one message, and the user reads a line
for each, such as `style.code.theme = "x" (not granted)`.

Source: `docs/turns.md`, `docs/decisions.md` D29.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.setting_paths import try_parse_path
from jp_nb.exact_form import escape_invisible
from jp_nb.text import MAX_LISTED_LINES

Reason = Literal[
    "invalid_config", "unauthorized_paths", "user_rejected", "confirmation_unavailable"
]
"""Reason why a proposal is not applied."""

MAX_REFUSAL_LINE_CHARS: Final = 300
"""Limit of each part of a line: the path, the value, and the problem."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a proposal."""

    reason: Reason
    paths: tuple[str, ...]
    """The invalid paths; after a decision of the user, all proposed paths."""
    detail: str
    """Message for the tool: the problem and the expected value."""
    summary: str
    """The problem alone, for the message that ends a call after too many refusals."""
    lines: tuple[str, ...] = ()
    """For the user: each path with its value and the reason."""


def refuse_malformed(reason: str) -> Refusal:
    """Return the refusal of a proposal that cannot be read, or is too large."""
    return Refusal("invalid_config", (), reason, reason)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one path of a proposal."""

    path: str
    """"" for a problem of the whole proposal."""
    message: str
    """The problem, for the tool."""
    value: JsonValue = None
    """The proposed value."""
    expected: str = ""
    """The accepted values, in words. The tool reads them, the user does not."""
    unset: bool = False
    """True if the tool wants to unset the path, so that there is no value."""
    short_message: str = ""
    """Message for the line that the user reads, if it differs."""

    @property
    def detail(self) -> str:
        """The problem and the expected value, for the tool."""
        return f"{self.message}: {self.expected}" if self.expected else self.message

    @property
    def line(self) -> str:
        """The path with its value and the problem, for the user."""
        message = self.short_message or self.message

        if not self.path:
            return _escape_and_truncate(message)
        if self.unset:
            return f"{_escape_and_truncate(self.path)}: (unset) ({_escape_and_truncate(message)})"

        masked = mask_secrets(self.value, try_parse_path(self.path) or (self.path,))
        value = _escape_and_truncate(json.dumps(masked, ensure_ascii=False))
        return f"{_escape_and_truncate(self.path)} = {value} ({_escape_and_truncate(message)})"


def refuse_invalid(problems: Sequence[Problem]) -> Refusal:
    """Return the refusal of a proposal with invalid paths or values."""
    details: list[str] = []
    for problem in problems:
        has_place = bool(problem.path) and len(problems) > 1
        place = f"{_escape_and_truncate(problem.path)}: " if has_place else ""
        details.append(f"{place}{problem.detail}")

    detail = "; ".join(_list_first(details))
    return _refuse("invalid_config", problems, detail, problems[0].message)


def refuse_unauthorized(problems: Sequence[Problem]) -> Refusal:
    """Return the refusal of a proposal with settings that `access.config` does not allow."""
    paths = [_escape_and_truncate(path) for path in _list_paths(problems)]
    listed = ", ".join(_list_first(paths))
    detail = f"not permitted: access.config of this tool does not cover {listed}"
    return _refuse("unauthorized_paths", problems, detail, "not permitted")


def _refuse(reason: Reason, problems: Sequence[Problem], detail: str, summary: str) -> Refusal:
    lines = _list_first([problem.line for problem in problems])
    return Refusal(reason, _list_paths(problems), detail, summary, tuple(lines))


def _list_paths(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return the paths of `problems`, each once. A problem of the whole proposal has none."""
    return tuple(dict.fromkeys(problem.path for problem in problems if problem.path))


def _list_first(texts: Sequence[str]) -> list[str]:
    """Return the first `MAX_LISTED_LINES` texts, and a text `and N more` if there are more."""
    shown = list(texts[:MAX_LISTED_LINES])

    more = len(texts) - MAX_LISTED_LINES
    if more > 0:
        shown.append(f"and {more} more")
    return shown


def _escape_and_truncate(text: str) -> str:
    """Return the beginning of `text`, with the escapes of JSON for invisible characters."""
    beginning = escape_invisible(text[:MAX_REFUSAL_LINE_CHARS])
    more = len(text) - MAX_REFUSAL_LINE_CHARS
    return f"{beginning}… ({more} more characters)" if more > 0 else beginning

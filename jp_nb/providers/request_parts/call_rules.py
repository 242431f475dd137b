"""Names, ids, and parameters of tool calls in the form that each API accepts.

A model, or the author of a record, can make up any name and id. An API that refuses one
would refuse every later request of the conversation. So each is sent in an accepted form, which
depends only on the original: later requests have the same bytes.

Source: `docs/providers.md` (names and ids of tool calls).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

_DIGEST_CHARS: Final = 8
_UNNAMED: Final = "unnamed"
PARAMETER_CHARS: Final = "a-zA-Z0-9_.-"


@dataclass(frozen=True, slots=True)
class CallRules:
    """The names and ids of tool calls that an API accepts in a conversation.

    Attributes:
        max_name_chars: Maximum length of a name.
        max_id_chars: Maximum length of an id; the length of every id if `has_fixed_length`.
        id_chars: Characters of an id, as in a set of a regular expression.
        name_start: Characters that may begin a name, as in a set of a regular expression.
        has_fixed_length: True if every id has `max_id_chars`.
        max_parameter_chars: Maximum length of a parameter's name, which has only characters of
            `PARAMETER_CHARS`; 0: the API accepts any name.
    """

    max_name_chars: int
    max_id_chars: int
    id_chars: str = "a-zA-Z0-9_-"
    name_start: str = "a-zA-Z0-9_-"
    has_fixed_length: bool = False
    max_parameter_chars: int = 0

    def format_name(self, name: str) -> str:
        """Return the tool's `name` as the API accepts it, the same for each call.

        For example, `my tool` becomes `my_tool_` with a digest, so that it differs from `my_tool`.
        """
        cleaned = re.sub("[^a-zA-Z0-9_-]", "_", name)
        if not re.match(f"[{self.name_start}]", cleaned):
            cleaned = f"_{cleaned}" if cleaned else _UNNAMED
        if cleaned == name and len(name) <= self.max_name_chars:
            return name
        return f"{cleaned[: self.max_name_chars - _DIGEST_CHARS - 1]}_{_digest(name)}"

    def format_parameter(self, name: str, number: int = 1) -> str:
        """Return a parameter's `name` as the API accepts it.

        A higher `number` gives another name, if another parameter has the first one.
        """
        limit = self.max_parameter_chars
        cleaned = re.sub(f"[^{PARAMETER_CHARS}]", "_", name)
        if not limit or (cleaned == name and 0 < len(name) <= limit):
            return name
        digested = name if number == 1 else f"{number}:{name}"
        digest = _digest(digested)
        return f"{(cleaned or _UNNAMED)[: limit - _DIGEST_CHARS - 1]}_{digest}"

    def format_id(self, raw: str, number: int) -> str:
        """Return the id of the call that is number `number` of those with the id `raw`."""
        cleaned = re.sub(f"[^{self.id_chars}]", "_", raw)
        is_accepted = 0 < len(raw) <= self.max_id_chars and cleaned == raw
        if self.has_fixed_length:
            if is_accepted and len(raw) == self.max_id_chars and number == 1:
                return raw
            return _digest(f"{number}:{raw}", self.max_id_chars)

        base = raw
        if not is_accepted:
            base = f"{cleaned[: self.max_id_chars - _DIGEST_CHARS - 1]}_{_digest(raw)}"

        suffix = "" if number == 1 else f"_{number}"
        return base[: self.max_id_chars - len(suffix)] + suffix


def _digest(text: str, length: int = _DIGEST_CHARS) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


# The rules of each API.
_WIDE_ID_CHARS: Final = "a-zA-Z0-9_.:-"  # Kimi's ids have `.` and `:`
CHAT_CALLS: Final = CallRules(max_name_chars=64, max_id_chars=64, id_chars=_WIDE_ID_CHARS)
OPENAI_CHAT_CALLS: Final = CallRules(max_name_chars=64, max_id_chars=40, id_chars=_WIDE_ID_CHARS)
MISTRAL_CALLS: Final = CallRules(
    max_name_chars=64, max_id_chars=9, id_chars="a-zA-Z0-9", has_fixed_length=True
)
RESPONSES_CALLS: Final = CallRules(max_name_chars=64, max_id_chars=64)
ANTHROPIC_CALLS: Final = CallRules(max_name_chars=128, max_id_chars=64, max_parameter_chars=64)
GOOGLE_CALLS: Final = CallRules(
    max_name_chars=64, max_id_chars=128, id_chars=_WIDE_ID_CHARS, name_start="a-zA-Z_"
)

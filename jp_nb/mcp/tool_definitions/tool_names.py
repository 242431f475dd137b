"""Names of a server's tools for the model.

The name of the tool `list-books` of the server `lib` is `lib__list-books`. Providers accept 64
letters, digits, `_` and `-`. A name that is longer, has other characters, or would be that of
another tool ends with a hash of the server's own name.

Source: `docs/mcp.md`, Tools.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from jp_nb.json_values import encode_utf8, sorted_json

SEPARATOR: Final = "__"
MAX_TOOL_NAME_CHARS: Final = 64
"""Maximum length of the name of a tool. All providers accept it."""
HASH_CHARS: Final = 8
_NOT_ACCEPTED: Final = re.compile(r"[^A-Za-z0-9_-]")
_FIRST_ACCEPTED: Final = re.compile(r"[A-Za-z_]")


def make_name_digest(value: JsonValue) -> str:
    """Return the SHA-256 of `value` as JSON, independent of the order of keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()


def map_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name for the model of each tool of `server`, by the server's own name.

    Two tools with the same name for the model both get a hash of their own names. The result only
    depends on the server and its tools, so another kernel finds the same names. A tool whose name
    collides all the same is not in the result.
    """
    own_names = list(dict.fromkeys(tools))
    plain_names = {own: _accept_name(server, own) for own in own_names}
    counts = Counter(plain_names.values())
    hashed = {own: _add_hash(plain_names[own], server, own) for own in own_names}
    taken = {hashed[own] for own in own_names if counts[plain_names[own]] > 1}

    names: dict[str, str] = {}
    used: set[str] = set()
    for own in own_names:
        name = plain_names[own]
        if counts[name] > 1 or name in taken:
            name = hashed[own]
        if name not in used:
            names[own] = name
            used.add(name)
    return names


def may_be_name(server: str, name: str) -> bool:
    """Return True if `map_names` may give `name` to a tool of `server`."""
    return name.startswith(_prefix(server)) and len(name) > len(_prefix(server))


def _prefix(server: str) -> str:
    prefix = _NOT_ACCEPTED.sub("_", server) + SEPARATOR
    return prefix if _FIRST_ACCEPTED.match(prefix) else f"_{prefix}"


def _accept_name(server: str, tool: str) -> str:
    prefix = _prefix(server)
    name = prefix + _NOT_ACCEPTED.sub("_", tool)
    # `a__b` of the server `c`, and `b` of the server `c__a`, are different tools.
    is_ambiguous = name.partition(SEPARATOR)[0] != server or name.partition(SEPARATOR)[2] == ""
    if is_ambiguous or len(name) > MAX_TOOL_NAME_CHARS:
        return _add_hash(name, server, tool)
    return name


def _add_hash(name: str, server: str, tool: str) -> str:
    mark = make_name_digest([server, tool])[:HASH_CHARS]
    if name.endswith(f"_{mark}"):
        return name
    return f"{name[: MAX_TOOL_NAME_CHARS - HASH_CHARS - 1]}_{mark}"

"""Names of a server's tools for the model.

The name of the tool `list-books` of the server `lib` is `lib__list-books`. Providers accept 64
letters, digits, `_` and `-`; other characters become `_`. A name that is longer, that does not
begin with the server's own name, or that would be that of another tool, ends with a hash of the own
names of server and tool.

Source: `docs/mcp.md`, Tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from jp_nb.json_writing import hash_json

SEPARATOR: Final = "__"
MAX_TOOL_NAME_CHARS: Final = 64
"""Maximum length of the name of a tool. All providers accept it."""
HASH_CHARS: Final = 8
_NOT_ACCEPTED: Final = re.compile(r"[^A-Za-z0-9_-]")
_FIRST_ACCEPTED: Final = re.compile(r"[A-Za-z_]")


def map_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name for the model of each tool of `server`, by the server's own name.

    Two tools with the same name for the model both get a hash of their own names. The result only
    depends on the server and its tools, so another kernel finds the same names. A tool whose name
    collides all the same is not in the result.
    """
    own_names = list(dict.fromkeys(tools))
    plain_names = {own: _make_plain_name(server, own) for own in own_names}
    hashed_names = {own: _add_hash(plain_names[own], server, own) for own in own_names}

    # Tools that share a plain name get a hash. So does a tool whose plain name is such a name with
    # a hash already.
    counts = Counter(plain_names.values())
    sharing = {own for own in own_names if counts[plain_names[own]] > 1}
    taken = {hashed_names[own] for own in sharing}

    names: dict[str, str] = {}
    used: set[str] = set()
    for own in own_names:
        name = plain_names[own]
        if own in sharing or name in taken:
            name = hashed_names[own]
        if name not in used:
            names[own] = name
            used.add(name)
    return names


def may_be_name(server: str, name: str) -> bool:
    """Return True if `map_names` may give `name` to a tool of `server`."""
    prefix = _make_prefix(server)
    return name.startswith(prefix) and len(name) > len(prefix)


def _make_prefix(server: str) -> str:
    """Return the beginning of the names of a server's tools, such as `lib__`."""
    prefix = _NOT_ACCEPTED.sub("_", server) + SEPARATOR
    return prefix if _FIRST_ACCEPTED.match(prefix) else f"_{prefix}"


def _make_plain_name(server: str, tool: str) -> str:
    """Return the name of a tool without a hash, unless it has a form that needs one."""
    name = _make_prefix(server) + _NOT_ACCEPTED.sub("_", tool)

    # The tool `a__b` of the server `c`, and the tool `b` of the server `c__a`, would both be
    # `c__a__b`. A name that does not divide into the own name of the server and a tool gets a hash.
    name_of_server, _, name_of_tool = name.partition(SEPARATOR)
    is_ambiguous = name_of_server != server or not name_of_tool
    if is_ambiguous or len(name) > MAX_TOOL_NAME_CHARS:
        return _add_hash(name, server, tool)
    return name


def _add_hash(name: str, server: str, tool: str) -> str:
    """Return `name` with a hash of the own names at its end, unless it has that already."""
    hashed = hash_json([server, tool])[:HASH_CHARS]
    if name.endswith(f"_{hashed}"):
        return name
    return f"{name[: MAX_TOOL_NAME_CHARS - HASH_CHARS - 1]}_{hashed}"

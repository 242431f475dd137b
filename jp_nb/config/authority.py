"""The one table of settings that need the user's consent.

Whoever can set a value here without the user could decide in the user's place. So everything is
denied that the table does not allow, and each entry of the table says why it is harmless.

Three sources of settings are not the user:

    an untrusted record    a conversation that the user's key did not sign
    an untrusted folder    a configuration file to whose content the user did not agree
    a tool                 proposes changes; rules of the user say which of them it may make

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.config.partial import Partial, is_wrapper
from jp_nb.config.schema import ROOT, SchemaNode, format_path, node_at
from jp_nb.config.tree.app import parse_attachment_url

IsInside = Callable[[str], bool]
"""True if the URL of an attachment stays in the workspace."""
Accepts = Callable[[JsonValue], bool]
"""True if a value may be set without the user's consent."""


def _any(_: JsonValue) -> bool:
    return True


def _none(_: JsonValue) -> bool:
    return False


def _one_of(*values: JsonValue) -> Accepts:
    return lambda value: any(type(value) is type(each) and value == each for each in values)


class Allowance(NamedTuple):
    """What a source other than the user may set at a path, with all below it.

    Attributes:
        why: Why these values cannot change what the user is asked, sees or loses.
        record: The values that an untrusted record may set.
        folder: The values that the file of an untrusted folder may set.
        tool: True if no value there runs code, reaches a host or widens access, so that a rule of
            the user may have a tool's change applied unattended.
        whole: True if a table here is judged as one value.
    """

    why: str
    record: Accepts = _none
    folder: Accepts = _none
    tool: bool = True
    whole: bool = False


_PROMPT: Final = "Text for the model, which decides nothing in the user's place whatever it reads."
_SAMPLING: Final = "Changes how the same model words its answer, within the limits of the user."
_OFF_ONLY: Final = (
    "A conversation may continue without a tool that its author switched off. A folder may not: "
    "without `ask_user` the model could not ask, and the user would not notice."
)
_ASKS: Final = "A mode that asks: nothing happens without the user."
_GRANTED: Final = "Only where a rule of the user grants this path to a tool."
_asks: Final = _one_of("ask", "edit")
_LOCAL_SERVERS: Final = ("llamacpp", "ollama")


def _is_of_no_local_server(model: JsonValue) -> bool:
    """False for a server that needs no key: any user of the computer may listen at its address."""
    provider = model.get("provider") if isinstance(model, dict) else str(model).partition("/")[0]
    return provider not in _LOCAL_SERVERS


def _is_frequent(interval: JsonValue) -> bool:
    return isinstance(interval, int) and interval <= 1000


ALLOWANCES: Final[Mapping[str, Allowance]] = {
    "template.values": Allowance("Values for prompt templates; no command reads them.", _any, _any),
    "user.name": Allowance("A label of the user's requests; no prompt shows it.", _any, _any),
    "assistant.name": Allowance("A label of the assistant; no prompt shows it.", _any, _any),
    "assistant.system_prompt": Allowance(_PROMPT, _any, _any),
    "assistant.system_prompt_sections": Allowance(_PROMPT, _any, _any),
    "assistant.instructions": Allowance(_PROMPT, _any, _any),
    "assistant.tool_choice": Allowance(
        "A conversation continues with the choice it was made with. A tool that is named would be "
        "offered although it is off, and with `none` the model could not ask.",
        _one_of("auto", "none", "required"),
    ),
    "assistant.model": Allowance(_GRANTED),  # free parameters, which may cost or reach anything
    "assistant.model.id": Allowance(
        "A conversation continues with its model, which `%load_ext` names; address and key are the "
        "user's to set. A folder would choose who is sent the user's data, at which price, and "
        "who calls the user's tools.",
        _is_of_no_local_server,
        whole=True,
    ),
    "assistant.model.parameters.max_tokens": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.reasoning": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.reasoning.exclude": Allowance(
        "True would hide the reasoning.", _one_of(False), _one_of(False)
    ),
    "assistant.model.parameters.temperature": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.top_p": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.top_k": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.stop_words": Allowance(_SAMPLING, _any, _any),
    "assistant.request": Allowance(_GRANTED),
    "conversation.tools.*.enable": Allowance(_OFF_ONLY, _one_of(False)),
    "conversation.tools.*.enable.allow_toggle": Allowance(_GRANTED),
    "conversation.tools.*.enable.state": Allowance(_OFF_ONLY, _one_of(False)),
    "conversation.toolsets.*": Allowance(_OFF_ONLY, _one_of(False)),
    "conversation.toolsets.*.state": Allowance(_OFF_ONLY, _one_of(False)),
    "conversation.toolsets.*.allow_toggle": Allowance(_GRANTED),
    "conversation.tools.*.run": Allowance(_ASKS, folder=_asks, tool=False),
    "conversation.tools.*.format": Allowance(_ASKS, folder=_asks, tool=False),
    "conversation.tools.*.result": Allowance(_ASKS, folder=_asks, tool=False),
    "conversation.tools.*.summary": Allowance(_GRANTED),
    "conversation.tools.*.description": Allowance(_GRANTED),
    "conversation.tools.*.examples": Allowance(_GRANTED),
    "conversation.tools.*.cancellation_response": Allowance(_GRANTED),
    "conversation.tools.*.questions.*.prompt_label": Allowance(_GRANTED),
    "conversation.tools.*.style.hidden": Allowance(
        "Shows the calls.", _one_of(False), _one_of(False)
    ),
    "conversation.tools.*.style.inline_results": Allowance(
        "Shows all of a result.", _one_of("full"), _one_of("full")
    ),
    "conversation.tools.*.style.error.inline_results": Allowance(
        "Shows all of an error.", _one_of("full"), _one_of("full")
    ),
    "conversation.tools.*.style.parameters": Allowance(
        "Shows the arguments; any other text is a command.",
        folder=_one_of("json", "function_call"),
        tool=False,
    ),
    "style.reasoning.display": Allowance("Shows all of it.", _one_of("full"), _one_of("full")),
    "style.tool_call.show": Allowance("Shows the calls.", _one_of(True), _one_of(True)),
    "style.update_interval_ms": Allowance(
        "The display is still updated at least once a second.", _is_frequent, _is_frequent
    ),
    "prompt.channel": Allowance(_GRANTED),
    "prompt.rendered_timeout_s": Allowance(_GRANTED),
    "prompt.timeout_s": Allowance(_GRANTED),
    "prompt.notify": Allowance(_GRANTED),
    "record": Allowance(_GRANTED),
    "interpolation": Allowance(_GRANTED),
    "values": Allowance(_GRANTED),
}
"""By path; `*` is any key. Of the entries that hold a path, the longest one counts."""

_Pattern = tuple[str, ...]
_TABLE: Final[Sequence[tuple[_Pattern, Allowance]]] = sorted(
    ((tuple(path.split(".")), allowance) for path, allowance in ALLOWANCES.items()),
    key=lambda row: -len(row[0]),
)
_NOT_ALLOWED: Final = Allowance("Not in the table.", tool=False)
_ENABLING: Final[Sequence[_Pattern]] = (
    ("conversation", "tools", "*", "enable"),
    ("conversation", "toolsets"),
)
_RUN_MODES: Final = ("run", "format", "result")
_UNATTENDED: Final = "unattended"
_PLAIN_STYLES: Final = ("json", "function_call", "off")
_BY_VALUE: Final[Sequence[_Pattern]] = (
    ("conversation", "attachments"),
    *(("conversation", "tools", "*", name) for name in _RUN_MODES),
    ("conversation", "tools", "*", "style", "parameters"),
)
"""Of these some values reach out when a tool proposes them, and others do not."""


def _leads(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """True if one is the beginning of the other; `*` is any key."""
    return all(part in ("*", key) for part, key in zip(pattern, keys, strict=False))


def _holds(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """True if `keys` are `pattern`, or lie below it."""
    return len(pattern) <= len(keys) and _leads(pattern, keys)


def _row(keys: Sequence[str]) -> tuple[_Pattern, Allowance]:
    """Return the row of the table that counts at `keys`."""
    return next((row for row in _TABLE if _holds(row[0], keys)), ((), _NOT_ALLOWED))


def _accepts(keys: Sequence[str], source: Literal["record", "folder"]) -> Accepts:
    """Return the test of values at `keys`; what lies below a value that is tested is not one."""
    pattern, allowance = _row(keys)
    accepts = allowance.record if source == "record" else allowance.folder
    holds_below = accepts is _any or allowance.whole
    return accepts if holds_below or len(pattern) == len(keys) else _none


def has_authority(keys: Sequence[str]) -> bool:
    """Return whether an untrusted record may set no value at `keys`, nor below.

    Such a value could run code, reach a host, name a key, widen access, spend money, hide what
    happens, pass for the user's own words, or change what the user is asked.
    """
    below = (row for row in _TABLE if len(row[0]) > len(keys) and _leads(row[0], keys))
    return _accepts(keys, "record") is _none and all(each.record is _none for _, each in below)


# --- an untrusted record or folder -------------------------------------------------------------


def strip_untrusted_record(partial: Partial) -> tuple[Partial, dict[str, JsonValue]]:
    """Return `partial` as it counts in an untrusted record, and the values left out, by path."""
    return _without(partial, "record")


def strip_untrusted_folder(partial: Partial) -> tuple[Partial, dict[str, JsonValue]]:
    """Return `partial` as it counts in an untrusted folder, and the values left out, by path."""
    return _without(partial, "folder")


def untrusted_record_may_unset(keys: Sequence[str]) -> bool:
    """Return whether an untrusted record may unset all that is at `keys`.

    Not the state of a tool, which is on where nothing is set.
    """
    locks = any(_holds(place, keys) for place in _ENABLING)
    return not locks and _accepts(keys, "record") is not _none


def _is_whole(keys: Sequence[str]) -> bool:
    pattern, allowance = _row(keys)
    return allowance.whole and len(pattern) == len(keys)


def _without(
    partial: Partial, source: Literal["record", "folder"]
) -> tuple[Partial, dict[str, JsonValue]]:
    left_out: dict[str, JsonValue] = {}

    def admit(node: SchemaNode | None, part: Partial, above: tuple[str, ...]) -> Partial:
        kept: Partial = {}
        for key, value in part.items():
            keys, below = (*above, key), node.child(key) if node is not None else None
            inner = value if isinstance(value, dict) and value else None
            if inner is not None and not is_wrapper(value, below) and not _is_whole(keys):
                if admitted := admit(below, inner, keys):
                    kept[key] = admitted
            elif _accepts(keys, source)(value):
                kept[key] = value
            else:
                left_out[format_path(keys)] = value
        return kept

    return admit(ROOT, partial, ()), left_out


# --- what a tool proposes ----------------------------------------------------------------------


def needs_user(keys: Sequence[str], value: JsonValue, is_inside: IsInside) -> bool:
    """Return whether a change at `keys` that a tool proposes is a person's to agree to in any case.

    A table that is put there as a whole takes along what was in it. None is no value: something is
    unset there.
    """
    always = always_needs_user(keys)
    if always is None:
        return isinstance(value, dict) or not _reaches_nothing(keys, value, is_inside)
    return always


def always_needs_user(keys: Sequence[str]) -> bool | None:
    """Return True if every value at `keys` or below reaches out; None if it depends on the value.

    What reaches out runs code, reaches a host or a file outside, or widens access.
    """
    if _never_reaches_out(node_at(keys), keys):
        return False
    harmless = (pattern for pattern, each in _TABLE if each.tool)
    return None if any(_leads(other, keys) for other in (*harmless, *_BY_VALUE)) else True


def _never_reaches_out(node: SchemaNode | None, keys: Sequence[str]) -> bool:
    if _row(keys)[1].tool:
        return True
    if node is None or node.kind != "table" or node.table is None:
        return False
    names = [field.alias or name for name, field in node.table.model_fields.items()]
    return all(_never_reaches_out(node.child(name), (*keys, name)) for name in names)


def _reaches_nothing(keys: Sequence[str], value: JsonValue, is_inside: IsInside) -> bool:
    if _row(keys)[1].tool:
        return True
    match tuple(map(str, keys)):
        case ("conversation", "attachments", *_):
            return all(map(is_inside, _urls(value)))
        case ("conversation", "tools", _, name) if name in _RUN_MODES:
            return value is not None and value != _UNATTENDED
        case ("conversation", "tools", _, "style", "parameters"):
            return value in _PLAIN_STYLES
        case _:
            return False


def _urls(value: JsonValue) -> list[str]:
    """The URLs that `value`, one attachment or a list of them, attaches."""
    if isinstance(value, dict):
        value = value.get("value")
    return [url for url in (value if isinstance(value, list) else [value]) if url is not None]  # type: ignore[misc]  # texts


def is_path_in_workspace(url: str) -> bool:
    """True if `url` names a file below the workspace's folder. Links are not looked at."""
    try:
        parts = parse_attachment_url(url)
    except ValueError:
        return False
    path = posixpath.normpath(parts.path.replace("\\", "/"))
    outside = path.startswith(("/", "~")) or path == ".." or path.startswith("../")
    return parts.type.lower() == "file" and not outside and ":" not in path.partition("/")[0]

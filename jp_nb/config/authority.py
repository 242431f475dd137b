"""Settings that other sources than the user may set.

A source that sets a value without the user's consent could decide in the user's place. Each value
that is not in the table `ALLOWANCES` therefore needs consent. Each row of the table has the reason
why its values are harmless. `stripped_settings.py` removes all other values of a source.

Three sources are not the user:

- An untrusted record: a conversation that is not signed with the user's key.
- An untrusted folder: a configuration file with content that the user has not approved.
- A tool that proposes changes. Rules of the user limit the settings that it may change
  (`jp_nb/config/access_rules.py`).

A path in the table is a *pattern*: `*` matches any key. It *covers* keys if it is at or above them
(`covers_keys`), and *overlaps* them if it is at, above, or below them (`overlaps_keys`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from jp_nb.config.early_constants import DEFAULT_MODEL
from jp_nb.config.setting_paths import PathKeys
from jp_nb.config.tree.ignored_settings import covers_keys
from jp_nb.config.tree.provider_settings import PROVIDER_CLASSES

AuthoritySource = Literal["record", "folder"]
Accepts = Callable[[JsonValue], bool]
"""Returns True if a value may be set without the user's consent."""


def _any(_: JsonValue) -> bool:
    """Accept every value."""
    return True


def _none(_: JsonValue) -> bool:
    """Accept no value."""
    return False


def _only(*values: JsonValue) -> Accepts:
    """Return a test that accepts only `values`. True and 1 differ."""

    def accepts(value: JsonValue) -> bool:
        return any(type(value) is type(known) and value == known for known in values)

    return accepts


class Allowance(NamedTuple):
    """Values that each source may set at a path without the user's consent.

    Attributes:
        why: The reason why these values cannot change what the user is asked, sees, or loses.
        record: Test of a value in an untrusted record.
        folder: Test of a value in a file of an untrusted folder.
        tool: True if no value runs code, contacts a host, or extends access. A rule of the user may
            then apply a tool's change unattended.
        whole: True if a table is tested as one value, and not setting by setting.
    """

    why: str
    record: Accepts = _none
    folder: Accepts = _none
    tool: bool = True
    whole: bool = False


_PROMPT: Final = "Text for the model. Whatever the model reads, it decides nothing for the user."
_SAMPLING: Final = "Changes how the same model words its answer, within the limits of the user."
_OFF_ONLY: Final = (
    "A conversation may continue without a tool that its author switched off. A folder may not: "
    "without `ask_user` the model could not ask, and the user would not notice."
)
_ASKS: Final = "A mode that asks: nothing happens without the user."
_GRANTED: Final = "Only where a rule of the user grants this path to a tool."
_ONLY_ASKING: Final = _only("ask", "edit")
_LOCAL_PROVIDERS: Final = ("llamacpp", "ollama", "scripted")


def names_remote_model(model: JsonValue) -> bool:
    """Return True if `model` is neither of a local server nor a script of the notebook's folder.

    Any user of the computer could listen at the address of a local server, and a script may be a
    file that came with the notebook. A server that the user has configured may be a local one, so
    only an alias and a built-in remote provider count as remote. The built-in script counts as
    remote too: it came with the program and reaches nothing.
    """
    if isinstance(model, dict):
        provider = str(model.get("provider"))
        name = str(model.get("name"))
        is_alias = False
    else:
        provider, slash, name = str(model).partition("/")
        is_alias = not slash

    if f"{provider}/{name}" == DEFAULT_MODEL:
        return True

    provider = provider.strip().lower()
    return provider not in _LOCAL_PROVIDERS and (is_alias or provider in PROVIDER_CLASSES)


def _is_frequent(interval: JsonValue) -> bool:
    """Accept an interval of at most a second, in milliseconds."""
    return isinstance(interval, int) and interval <= 1000


ALLOWANCES: Final[Mapping[str, Allowance]] = {
    "template.values": Allowance("Values for prompt templates; no command reads them.", _any, _any),
    "user.name": Allowance("A label of the user's requests; no prompt shows it.", _any, _any),
    "assistant.name": Allowance("A label of the assistant; no prompt shows it.", _any, _any),
    "assistant.system_prompt": Allowance(_PROMPT, _any, _any),
    "assistant.system_prompt_sections": Allowance(_PROMPT, _any, _any),
    "assistant.instructions": Allowance(_PROMPT, _any, _any),
    "assistant.tool_choice": Allowance(
        "A conversation keeps its tool choice. A named tool is not allowed, because the model "
        "would get it although it is off. A folder could set `none`, so that the model cannot ask.",
        _only("auto", "none", "required"),
    ),
    "assistant.model": Allowance(_GRANTED),  # free parameters, which may cost or reach anything
    "assistant.model.id": Allowance(
        "A conversation keeps its model, and `%load_ext` shows it. Only the user sets address and "
        "key. With a folder's model, another provider would get the user's data, bill the user, "
        "and call the user's tools.",
        names_remote_model,
        whole=True,
    ),
    "assistant.model.parameters.max_tokens": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.reasoning": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.reasoning.exclude": Allowance(
        "True would hide the reasoning.", _only(False), _only(False)
    ),
    "assistant.model.parameters.temperature": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.top_p": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.top_k": Allowance(_SAMPLING, _any, _any),
    "assistant.model.parameters.stop_words": Allowance(_SAMPLING, _any, _any),
    "assistant.request": Allowance(_GRANTED),
    "conversation.tools.*.enable": Allowance(_OFF_ONLY, _only(False)),
    "conversation.tools.*.enable.allow_toggle": Allowance(_GRANTED),
    "conversation.tools.*.enable.state": Allowance(_OFF_ONLY, _only(False)),
    "conversation.toolsets.*": Allowance(_OFF_ONLY, _only(False)),
    "conversation.toolsets.*.state": Allowance(_OFF_ONLY, _only(False)),
    "conversation.toolsets.*.allow_toggle": Allowance(_GRANTED),
    "conversation.tools.*.run": Allowance(_ASKS, folder=_ONLY_ASKING, tool=False),
    "conversation.tools.*.format": Allowance(_ASKS, folder=_ONLY_ASKING, tool=False),
    "conversation.tools.*.result": Allowance(_ASKS, folder=_ONLY_ASKING, tool=False),
    "conversation.tools.*.summary": Allowance(_GRANTED),
    "conversation.tools.*.description": Allowance(_GRANTED),
    "conversation.tools.*.examples": Allowance(_GRANTED),
    "conversation.tools.*.cancellation_response": Allowance(_GRANTED),
    "conversation.tools.*.questions.*.prompt_label": Allowance(_GRANTED),
    "conversation.tools.*.style.hidden": Allowance("Shows the calls.", _only(False), _only(False)),
    "conversation.tools.*.style.inline_results": Allowance(
        "Shows all of a result.", _only("full"), _only("full")
    ),
    "conversation.tools.*.style.error.inline_results": Allowance(
        "Shows all of an error.", _only("full"), _only("full")
    ),
    "conversation.tools.*.style.parameters": Allowance(
        "Shows the arguments; any other text is a command.",
        folder=_only("json", "function_call"),
        tool=False,
    ),
    "style.reasoning.display": Allowance("Shows all of it.", _only("full"), _only("full")),
    "style.tool_call.show": Allowance("Shows the calls.", _only(True), _only(True)),
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
"""Allowances by path; `*` matches any key. Of the rows at or above a setting, that with the longest
path applies."""

ALLOWANCE_TABLE: Final[Sequence[tuple[PathKeys, Allowance]]] = sorted(
    ((tuple(path.split(".")), allowance) for path, allowance in ALLOWANCES.items()),
    key=lambda row: -len(row[0]),
)
"""Pattern and allowance of each row, the longest pattern first."""

_NOT_ALLOWED: Final = Allowance("Not in the table.", tool=False)
_ENABLING: Final[Sequence[PathKeys]] = (
    ("conversation", "tools", "*", "enable"),
    ("conversation", "toolsets"),
)
"""Settings that switch tools on and off."""


def _find_row(keys: Sequence[str]) -> tuple[PathKeys, Allowance]:
    """Return the pattern and the allowance of the row that applies at `keys`."""
    return next((row for row in ALLOWANCE_TABLE if covers_keys(row[0], keys)), ((), _NOT_ALLOWED))


def find_allowance(keys: Sequence[str]) -> Allowance:
    """Return the allowance that applies at `keys`; one that allows nothing without a row."""
    return _find_row(keys)[1]


def is_tested_as_whole(keys: Sequence[str]) -> bool:
    """Return True if the value at `keys` is tested as one value, even if it is a table."""
    pattern, allowance = _find_row(keys)
    return allowance.whole and len(pattern) == len(keys)


def find_value_test(keys: Sequence[str], source: AuthoritySource) -> Accepts:
    """Return the test for values at `keys` from an untrusted `source`.

    The row that applies may be for a setting above `keys`. Its test is not made for a part of that
    setting, so it counts only if it accepts every value, or if the row tests the whole table.
    """
    pattern, allowance = _find_row(keys)
    accepts = allowance.record if source == "record" else allowance.folder

    is_for_keys_themselves = len(pattern) == len(keys)
    if is_for_keys_themselves or accepts is _any or allowance.whole:
        return accepts
    return _none


def may_untrusted_record_unset(keys: Sequence[str]) -> bool:
    """Return True if an untrusted record may unset everything at `keys`.

    The state of a tool may not be unset, because tools are on by default.
    """
    is_state = any(covers_keys(pattern, keys) for pattern in _ENABLING)
    return not is_state and find_value_test(keys, "record") is not _none

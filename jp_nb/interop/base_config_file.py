"""`base_config.json` of a JP directory: the configuration at the beginning of a conversation.

JP is a command-line assistant. Each of its conversations is a directory with `metadata.json`,
`base_config.json`, and `events.json` (`directory_files.py`).

The file is the configuration itself, or `{"base": {…}, "init": [{…}, …]}`: then `init` has the
first configuration changes of the conversation, which `jp_nb` stores as its first entries.

The *spelling* of the file (`json_spelling.py`) is stored with the configuration. It keeps the order
of keys and the notation, so that an unchanged file is written back byte for byte. The *usual* value
is the one with its keys in the order of JP.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.interop.directory_files import BASE_CONFIG_FILE, require_object
from jp_nb.interop.jp_entries import decode_jp_entry, encode_jp_entry
from jp_nb.interop.json_comparison import same_json, sort_keys
from jp_nb.interop.json_spelling import apply_spelling, find_spelling
from jp_nb.interop.json_text import read_value
from jp_nb.json_values import JsonObject, as_object


@dataclass(frozen=True, slots=True)
class BaseConfig:
    """Content of the file.

    Attributes:
        config: The configuration.
        init: The changes in the file, as entries of the record.
        spelling: The rest, for `format_base_config`. It has these keys:
            `order`, `numbers`: the order of the keys, and unusual notations of numbers
            (`json_spelling.py`).
            `init`: the number of changes; null if the file has a key `base` and no key `init`;
            absent if the file is the configuration itself.
            `extra`: other keys.
            `text`: the whole text, if it cannot be made from the values. It is used as long as
            the values are the same; other values are written in the usual notation.
            `after`: unusual white space at the end.
    """

    config: JsonObject
    init: list[JsonObject]
    spelling: JsonObject


def read_base_config(text: str) -> BaseConfig:
    """Read the text of the file.

    Raises:
        StorageError: It is not a configuration.
    """
    source = read_value(text, BASE_CONFIG_FILE)  # the value, and its text without white space
    value = require_object(source.value, BASE_CONFIG_FILE)
    config = value
    init: list[JsonObject] = []
    spelling: JsonObject = {}

    if "base" in value:
        config = require_object(value["base"], f"{BASE_CONFIG_FILE} base")
        init = _read_init(value.get("init", []))
        spelling["init"] = len(init) if "init" in value else None

        extra = {key: item for key, item in value.items() if key not in ("base", "init")}
        if extra:
            spelling["extra"] = extra

    # The rest of the spelling is the notation of the value: the order of its keys and its numbers,
    # or its `text` if these cannot reproduce it.
    usual = sort_keys(_make_value(config, init, spelling))
    spelling |= find_spelling(source, usual)

    # The text of the value is without the white space around it, which is kept too.
    after = text[len(source.text) :]
    if "text" in spelling or not text.startswith(source.text):
        spelling["text"] = text
    elif after != "\n":
        spelling["after"] = after

    return BaseConfig(config, init, spelling)


def _read_init(changes: JsonValue) -> list[JsonObject]:
    """Return the changes under `init` as entries of the record."""
    if not isinstance(changes, list):
        raise StorageError("expected a list", place=f"{BASE_CONFIG_FILE} init")

    entries: list[JsonObject] = []
    for index, change in enumerate(changes):
        place = f"{BASE_CONFIG_FILE} init[{index}]"
        entry = require_object(change, place)
        if entry.get("type") != "config_delta":
            raise StorageError("expected a config_delta", place=place)
        entries.append(decode_jp_entry(entry))
    return entries


def count_init_entries(spelling: Mapping[str, JsonValue], entries: Sequence[JsonObject]) -> int:
    """Return the number of first `entries` that the file contains as its `init` changes.

    They are as many as were imported, unless one of them is no longer a change of configuration.
    """
    imported = spelling.get("init")
    limit = imported if isinstance(imported, int) else 0
    changes = takewhile(lambda entry: entry.get("type") == "config_delta", entries[: max(limit, 0)])
    return len(list(changes))


def format_base_config(
    config: JsonObject, init: Sequence[JsonObject], spelling: Mapping[str, JsonValue]
) -> str:
    """Return the text of the file, in its imported `spelling` as far as the values are the same.

    If a value has changed, the imported text is not used, and the usual notation is written.
    """
    text = spelling.get("text")
    if isinstance(text, str):
        with suppress(StorageError):
            imported = read_base_config(text)
            if same_json([imported.config, *imported.init], [config, *init]):
                return text

    after = spelling.get("after")
    if not isinstance(after, str) or after.strip(" \t\r\n"):
        after = "\n"

    value = sort_keys(_make_value(config, init, spelling))
    return apply_spelling(value, dict(spelling)) + after


def _make_value(
    config: JsonObject, init: Sequence[JsonObject], spelling: Mapping[str, JsonValue]
) -> JsonObject:
    """Return the value of the file: the configuration itself, or an object with `base`.

    A configuration with a key `base` would be read as the second form, so it always has that form.
    """
    is_config_itself = "init" not in spelling and "base" not in config
    if is_config_itself:
        return config

    # The spelling may come from someone else, so only this function writes `init`.
    extra = as_object(spelling.get("extra"))
    value: JsonObject = {key: item for key, item in extra.items() if key != "init"}
    value["base"] = config
    if spelling.get("init") is not None:
        value["init"] = [encode_jp_entry(entry) for entry in init]
    return value

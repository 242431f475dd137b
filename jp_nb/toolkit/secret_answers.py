"""Find secrets in a notebook, and hide them and secret answers in texts.

Source: `docs/notebook-tools.md`, `docs/record.md`.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.secrets import (
    MIN_SECRET_CHARS,
    NOT_SHOWN,
    SECRET_ANSWER,
    Redactor,
    find_api_keys,
    hide_secrets,
    is_secret,
    is_secret_name,
    redact,
)
from jp_nb.toolkit.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.toolkit.question import FormAnswer, Question
from jp_nb.values.base import Privacy, private
from jp_nb.values.containers import MAX_DEPTH
from jp_nb.values.custom import FAILURES, ClassTable
from jp_nb.values.data_path import hidden_rows, is_a, stored_attributes
from jp_nb.values.frames import label_names

SHORTEST_KNOWN: Final = 8
"""Minimum length of a secret that is hidden inside of words: a shorter one may be a word."""
MAX_EQUAL: Final = 50_000  # limit for the secrets that are compared with whole values
MAX_WALKED: Final = 100_000  # limit for the values of a notebook that are searched for secrets
MAX_ITEMS: Final = 10_000  # limit for the items of one container that are searched
MAX_CELLS: Final = 1_000  # limit for the objects in one column of a frame that are searched
MAX_LISTED: Final = 100
"""Limit for a container whose texts are all secrets: a longer one may be a column of words."""
MAX_BUFFER: Final = 1_000_000  # limit for the bytes of an array that is compared with secrets
LEAST_NUMBER: Final = 1000  # the smallest number that is hidden everywhere
ENVIRONMENT: Final = "the environment, without its values"
_NUMBERS = re.compile(r"(?<![\w.])\d{4,}(?:\.\d+)?(?![\w])")
_WORD = re.compile(r"[^\W\d_]+")


class NotebookSecrets(Privacy):
    """The secrets of a notebook, recognized by name, pattern, and value.

    The constructor reads the user's variables, so call it in the cell's thread.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        found = _SecretSearch()
        self._environment = dict(os.environ)
        with private(_NameRules()):
            for name, value in [*namespace.items()]:
                found.walk(name if type(name) is str else None, value)
        for name, value in self._environment.items():
            found.add_environment(name, value)
        # Each is searched in each text.
        self._texts = sorted(found.texts, key=lambda text: (-len(text), text))[:500]
        self._equal = found.equal
        self._all = "\0".join(self._texts)
        short = sorted(x for x in found.equal if type(x) is str and len(x) < SHORTEST_KNOWN)
        # A word matches only in quotes, any other secret only as a whole word.
        patterns = [
            re.escape(repr(text)) if _WORD.fullmatch(text) else rf"(?<!\w){re.escape(text)}(?!\w)"
            for text in short[:100]  # the pattern must stay small
        ]
        self._short = re.compile("|".join(patterns)) if patterns else None
        self._has_numbers = any(type(known) in (int, float) for known in found.equal)

    def __call__(self, text: str, *, code: bool = False) -> str:
        """Return `text` without secrets. The number of lines stays. `code` means Python code."""
        for secret in self._texts:
            text = text.replace(secret, redact(secret))
        return hide_secrets(text, code=code)

    def name(self, name: str, value: object) -> str | None:
        """Return the replacement if the part is a secret by its name or form; else None.

        A part that is equal to the environment variable `name` is hidden too.
        """
        variable = self._environment.get(name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if variable and type(value) is str and value == variable:
            return NOT_SHOWN
        return NOT_SHOWN if is_secret(name, value) else None

    def value(self, value: object) -> str | None:
        """Return the replacement if the value is a secret, a part of one, or the environment.

        None for other values. For the environment, the replacement lists the names of variables.
        """
        if is_environment(value):
            return f"{ENVIRONMENT}: {', '.join(sorted(os.environ))}"
        return NOT_SHOWN if self._is_known(value) else None

    def text(self, text: str) -> str:
        """Return `text` without secrets, including short ones and numbers."""
        if not text:
            return text
        if self._short is not None:
            text = self._short.sub(NOT_SHOWN, text)
        if self._has_numbers:
            text = _NUMBERS.sub(self._number, text)
        return self(text)

    def _number(self, found: re.Match[str]) -> str:
        value = float(found[0]) if "." in found[0] else int(found[0][:4000])
        return NOT_SHOWN if value in self._equal else found[0]

    def _is_known(self, value: object) -> bool:
        kind = type(value)
        if kind in (int, float):
            return value in self._equal
        is_list = kind in (list, tuple)
        text = _join_characters(value) if is_list else _text_of(value)  # type: ignore[arg-type]
        if text is None:
            return False
        part = text.strip()
        if part in self._equal:
            return True
        if kind in (bytes, bytearray) or issubclass(kind, str):
            return len(part) >= SHORTEST_KNOWN and part in self._all
        return self(text) != text


class _NameRules(Privacy):
    """Rules during the search, when the values of the secrets are not yet known."""

    def name(self, name: str, value: object) -> str | None:
        return NOT_SHOWN if is_secret_name(name) else None


def is_environment(value: object) -> bool:
    """Return True for the mappings of environment variables, such as `os.environ`."""
    raw = sys.modules[os.name].__dict__.get("environ")  # of the module `posix` or `nt`
    known = (os.environ, getattr(os, "environb", None), raw)
    return any(value is each for each in known if each is not None) or is_a(value, "os", "_Environ")


def _text_of(value: object) -> str | None:
    # The text of a string, of bytes, of a buffer, or of pydantic's secret types.
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if kind in (bytes, bytearray):
        return bytes(value).decode(errors="replace")  # type: ignore[call-overload, no-any-return]
    if is_a(value, "pydantic", "SecretStr") or is_a(value, "pydantic", "SecretBytes"):
        return _text_of(object.__getattribute__(value, "_secret_value"))
    if kind is memoryview or is_a(value, "array", "array") or is_a(value, "numpy", "ndarray"):
        return _decode_buffer(value)
    return None


def _decode_buffer(value: Any) -> str | None:
    try:
        kind = getattr(value, "dtype", None)
        if kind is not None and (kind.kind not in "uibSU" or kind.itemsize > 64):
            return None
        if getattr(value, "nbytes", len(value)) > MAX_BUFFER:
            return None
        encoding = "utf-32-le" if kind is not None and kind.kind == "U" else "utf-8"
        if kind is not None and kind.kind in "ui" and kind.itemsize > 1:
            return None
        return str(value.tobytes(), encoding, "replace").replace("\0", "")
    except FAILURES:
        return None


def _join_characters(value: list[object] | tuple[object, ...]) -> str | None:
    if not 1 < len(value) <= MAX_ITEMS:
        return None
    if all(type(item) is str and len(item) == 1 for item in value):
        return "".join(value)  # type: ignore[arg-type]
    if all(type(item) is int and 0 <= item < 256 for item in value):
        return bytes(value).decode(errors="replace")  # type: ignore[arg-type]
    return None


# --- searching ---------------------------------------------------------------------------------


class _SecretSearch:
    """Search for the secrets of a notebook. It runs no properties and consumes no iterators.

    Attributes:
        texts: Secrets that are hidden inside of texts.
        equal: Secrets that are hidden if a whole value is equal.
    """

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.equal: set[str | int | float] = set()
        self._left = MAX_WALKED
        self._seen: dict[int, object] = {}
        self._readers: dict[type, _PartsReader] = {}

    def _reader(self, value: object) -> _PartsReader:
        kind = type(value)
        if kind not in self._readers:
            self._readers[kind] = _READERS.find(value) or _read_object
        return self._readers[kind]

    def add_environment(self, name: str, value: str) -> None:
        if is_secret_name(name):
            self._add_text(value, alone=True)
        elif len(value) >= SHORTEST_KNOWN and not _is_path(value):
            self.equal.add(value.strip())
            if _looks_random(value):
                self.texts.add(value.strip())

    def walk(self, name: str | None, value: object) -> None:
        """Collect the secrets in the variable `name`."""
        todo: deque[tuple[str | None, object, int]] = deque([(name, value, 0)])
        while todo and self._left > 0:
            name, value, depth = todo.popleft()
            self._left -= 1
            if type(value) in _PLAIN and name is None:
                continue
            if name is not None and is_secret(name, value):
                self._add_secret(name, value)
            elif type(value) is str:
                if len(value) >= _SHORTEST_KEY:
                    self.texts.update(find_api_keys(value[:MAX_BUFFER]))
            elif (reader := self._reader(value)) is _read_secret_type:
                self._add_secret("", next(iter(reader(value, True)))[1])
            elif depth < MAX_DEPTH and id(value) not in self._seen and not is_environment(value):
                self._seen[id(value)] = value
                try:
                    todo.extend((key, part, depth + 1) for key, part in reader(value, False))
                except FAILURES:
                    continue  # another thread changed the container, or its code raised

    def _add_secret(self, name: str, value: object) -> None:
        # All texts and numbers in the value of a secret name. `tokens` may also be words.
        is_words = re.search("token", name, re.IGNORECASE) is not None
        todo: deque[tuple[object, bool]] = deque([(value, True)])
        seen: dict[int, object] = {}
        while todo and self._left > 0:
            value, alone = todo.popleft()
            self._left -= 1
            text = _text_of(value)
            if text is not None:
                is_name = text.lower() == name.lower()  # for example in the header of a table
                if not is_name and (alone or not is_words or _looks_random(text)):
                    self._add_text(text, alone=alone)
            elif type(value) in (int, float):
                if abs(value) >= LEAST_NUMBER and (alone or not is_words):  # type: ignore[arg-type]
                    self.equal.add(value)  # type: ignore[arg-type]
                    with suppress(ValueError):  # more digits than `sys.get_int_max_str_digits()`
                        self.equal.add(str(value))
            elif type(value) not in _PLAIN and id(value) not in seen:
                seen[id(value)] = value
                try:
                    items = [part for _, part in self._reader(value)(value, True)]
                except FAILURES:
                    continue
                few = len(items) <= MAX_LISTED and alone and not is_words
                todo.extend((item, few) for item in items)

    def _add_text(self, text: str, *, alone: bool) -> None:
        text = text.strip()
        if len(text) < MIN_SECRET_CHARS or len(self.equal) > MAX_EQUAL:
            return
        self.equal.add(text)
        if len(text) >= SHORTEST_KNOWN and (alone or not _WORD.fullmatch(text)):
            self.texts |= {text, text.encode().decode("latin-1")}
            self.texts.update(line for line in map(str.strip, text.split("\n")) if len(line) > 15)


_SHORTEST_KEY: Final = 16
_PLAIN: Final = frozenset((bool, int, float, complex, type(None)))


def _looks_random(text: str) -> bool:
    if len(text) < SHORTEST_KNOWN or re.search(r"[\s/:]", text):
        return False
    return 2 <= sum(map(str.isdigit, text)) < len(text)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", ".")) or (os.name == "nt" and text[1:3] == ":\\")


Parts = Iterator[tuple[str | None, object]]
"""Parts of a value with their names. None means that a part has no name."""


_PartsReader = Callable[[Any, bool], Parts]
"""Function that reads the parts of a value, or with False all but the plain cells of a frame."""


def _read_secret_type(value: Any, whole: bool) -> Parts:
    if is_a(value, "ipywidgets", "Password"):
        yield None, vars(value).get("_trait_values", {}).get("value")
    else:
        yield None, object.__getattribute__(value, "_secret_value")


def _read_partial(value: Any, whole: bool) -> Parts:
    yield from value.keywords.items()
    yield from ((None, each) for each in value.args)


def _read_object(value: Any, whole: bool) -> Parts:
    if (attributes := stored_attributes(value)) is not None:
        yield from list(attributes.items())
        return
    # Of an object of a library, only stored texts with the name of a secret.
    try:
        stored = object.__getattribute__(value, "__dict__")
    except FAILURES:
        return
    if type(stored) is dict and not isinstance(value, type):
        for name, part in list(stored.items()):
            if type(name) is str and type(part) in (str, bytes) and is_secret_name(name):
                yield name, part


def _read_mapping(value: Any, whole: bool) -> Parts:
    for key in list(islice(value, MAX_ITEMS)):
        name = key.decode(errors="replace") if isinstance(key, bytes) else key
        if type(key) is tuple:
            name = next((each for each in key if type(each) is str and is_secret_name(each)), None)
        yield name if type(name) is str else None, value[key]


def _read_dict(value: Any, whole: bool) -> Parts:
    return _read_mapping(dict(islice(dict.items(value), MAX_ITEMS)), whole)


def _read_view(value: Any, whole: bool) -> Parts:
    return _read_mapping(value.mapping, whole)


def _read_sequence(value: Any, whole: bool) -> Parts:
    items = list(islice(value, MAX_ITEMS))
    if len(items) == 2 and type(items[0]) is str:
        yield items[0], items[1]  # a pair of a name and its value
    header = items[0] if items and type(items[0]) in (list, tuple) else ()
    columns = [n for n, name in enumerate(header) if type(name) is str and is_secret_name(name)]
    for item in items:
        yield None, item
        if type(item) in (list, tuple) and len(item) == len(header) > 1:
            yield from ((header[n], item[n]) for n in columns)  # a table with a header


def _read_tuple(value: Any, whole: bool) -> Parts:
    fields = stored_attributes(value)
    return iter(fields.items()) if fields is not None else _read_sequence(value, whole)


def _read_pandas_frame(value: Any, whole: bool) -> Parts:
    for number, name in enumerate(value.columns):
        yield from _read_pandas_column(name, value.iloc[:MAX_ITEMS, number], whole)
    yield from _read_pandas_rows(value)


def _read_pandas_series(value: Any, whole: bool) -> Parts:
    yield from _read_pandas_column(value.name, value[:MAX_ITEMS], whole)
    yield from _read_pandas_rows(value)


def _read_pandas_rows(value: Any) -> Parts:
    for number in hidden_rows(value.index):
        row = value.iloc[number]
        yield _secret_name(value.index[number]), row if row.ndim == 0 else row.tolist()
    yield from _read_pandas_index(value.index, False)


def _read_pandas_column(name: object, column: Any, whole: bool) -> Parts:
    secret = _secret_name(name)
    if secret is not None or whole:
        yield secret, column.tolist()
    elif column.dtype == object:
        yield from _read_objects(column[:MAX_CELLS].tolist())


def _read_pandas_index(value: Any, whole: bool) -> Parts:
    if whole:
        yield None, value[:MAX_ITEMS].tolist()
    elif (secret := _secret_name(label_names(value))) is not None:
        yield secret, value[:MAX_ITEMS].tolist()


def _read_polars_frame(value: Any, whole: bool) -> Parts:
    for column in value[:MAX_ITEMS].get_columns():
        yield from _read_polars_series(column, whole)


def _read_polars_series(value: Any, whole: bool) -> Parts:
    secret = _secret_name(value.name)
    if secret is not None or whole:
        yield secret, value[:MAX_ITEMS].to_list()
    elif value.dtype.is_nested() or str(value.dtype) == "Object":
        yield from _read_objects(value[:MAX_CELLS].to_list())


def _read_array(value: Any, whole: bool) -> Parts:
    if value.dtype.names:
        for name in value.dtype.names:
            part = value[name]
            if part.dtype.names:
                yield None, part
            elif whole or is_secret_name(name):
                yield name, part.ravel()[:MAX_ITEMS].tolist() if part.shape else part.item()
    elif whole or value.dtype.kind == "O":
        yield from ((None, cell) for cell in value.ravel()[:MAX_ITEMS].tolist())


def _read_objects(cells: list[object]) -> Parts:
    return ((None, cell) for cell in cells if type(cell) is not str and type(cell) not in _PLAIN)


def _secret_name(name: object) -> str | None:
    # The first part of a label that is the name of a secret.
    names = name if type(name) is tuple else (name,)
    return next((each for each in names if isinstance(each, str) and is_secret_name(each)), None)


_READERS: Final = ClassTable[_PartsReader](
    (
        ("pydantic", "SecretStr", _read_secret_type),
        ("pydantic", "SecretBytes", _read_secret_type),
        ("ipywidgets", "Password", _read_secret_type),
        ("functools", "partial", _read_partial),
        ("pandas", "DataFrame", _read_pandas_frame),
        ("pandas", "Series", _read_pandas_series),
        ("pandas", "Index", _read_pandas_index),
        ("polars", "DataFrame", _read_polars_frame),
        ("polars", "Series", _read_polars_series),
        ("numpy", "ndarray", _read_array),
        ("numpy", "void", _read_array),
        ("sqlite3", "Row", lambda value, _: zip(value.keys(), value, strict=True)),
        ("builtins", "dict", _read_dict),
        ("types", "MappingProxyType", _read_mapping),
        ("collections", "UserDict", _read_mapping),
        ("collections", "ChainMap", _read_mapping),
        ("builtins", "tuple", _read_tuple),
        ("builtins", "list", _read_sequence),
        ("builtins", "set", _read_sequence),
        ("builtins", "frozenset", _read_sequence),
        ("collections", "deque", _read_sequence),
        ("_collections_abc", "dict_keys", _read_view),
        ("_collections_abc", "dict_items", _read_view),
        ("_collections_abc", "dict_values", _read_view),
    )
)


MAY_NOT_BE_STORED = "it contains the answer to a secret question, which must not be stored"
MAY_NOT_BE_OFFERED = "The tool put a secret into a required part of a question: {}"


class SecretAnswers(Redactor):
    """The secret answers of a session, only in memory. Thread-safe, as `Redactor` is."""

    def __init__(self) -> None:
        super().__init__(SECRET_ANSWER)

    def add_answer(self, question: Question, answer: JsonValue) -> None:
        """Hide the secret parts of the answer to `question` in later texts."""
        for secret in question.answer_type.secrets(answer):
            if isinstance(secret, str):
                self.add(secret)

    def hide_in_outcome(self, outcome: Outcome) -> Outcome:
        """Return `outcome` without secrets. A configuration change with a secret is rejected.

        The result is a `Failure` if a question has a secret in its id or in its options.
        """
        if not self._forms:
            return outcome
        match outcome:
            case Success(config=config, unset=unset, malformed=malformed):
                hidden: dict[str, Any] = {
                    "content": self.hide(outcome.content),
                    "structured": self._drop_secret(outcome.structured),
                    "images": tuple(  # the pixels are not searched
                        replace(image, name=self.hide(image.name)) for image in outcome.images
                    ),
                }
                if self._has_secret([config, *unset]):
                    hidden |= {"config": None, "unset": (), "malformed": MAY_NOT_BE_STORED}
                elif malformed is not None:
                    hidden["malformed"] = self.hide(malformed)
            case Failure(message=message, trace=trace):
                hidden = {"message": self.hide(message), "trace": tuple(map(self.hide, trace))}
                hidden["structured"] = self._drop_secret(outcome.structured)
            case NeedsInput(questions=questions):
                for question in questions:
                    if self._has_secret([question.id, *question.answer_type.fixed_texts()]):
                        return Failure(MAY_NOT_BE_OFFERED.format(self.hide(question.text)))
                hidden = {"questions": tuple(map(self.hide_in_question, questions))}
        return outcome.model_copy(update=hidden)

    def hide_in_question(self, question: Question) -> Question:
        """Return `question` without secrets in its displayed texts and defaults."""
        if not self._forms:
            return question
        return self._drop_secret_defaults(question.reworded(self.hide))

    def _drop_secret_defaults(self, question: Question) -> Question:
        kind = question.answer_type
        if isinstance(kind, FormAnswer):
            fields = tuple(map(self._drop_secret_defaults, kind.fields))
            kind = kind.model_copy(update={"fields": fields})
        default = self._drop_secret(question.default)
        return question.model_copy(update={"answer_type": kind, "default": default})

    def _drop_secret(self, value: JsonValue) -> JsonValue:
        return None if self._has_secret(value) else value

    def _has_secret(self, value: Any) -> bool:
        if isinstance(value, dict):
            value = [*value, *value.values()]
        if isinstance(value, (list, tuple)):
            return any(map(self._has_secret, value))
        if value is None or isinstance(value, bool):
            return False
        return self.hide(str(value)) != str(value)

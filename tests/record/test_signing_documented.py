"""The signature, checked by an implementation of `docs/record.md` alone."""

from __future__ import annotations

import hmac
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.notebook_record import NotebookRecord
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.kit.texts import write_text
from tests.record.keyring import Keyring

PAGE = Path(__file__).resolve().parents[2] / "docs" / "record.md"
KEY = bytes(range(32))
SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", '"': '"', "\\": "\\"}


# --- as documented -----------------------------------------------------------------------------


def form(value: Any) -> str:
    """The canonical form."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return text(value)
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, list):
        return "[" + ",".join(form(item) for item in value) + "]"
    pairs = sorted((whole(key), item) for key, item in value.items())
    return "{" + ",".join(f"{text(key)}:{form(item)}" for key, item in pairs) + "}"


def whole(value: str) -> str:
    units = value.encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def text(value: str) -> str:
    return '"' + "".join(character(c) for c in whole(value)) + '"'


def character(c: str) -> str:
    if c in SHORT:
        return "\\" + SHORT[c]
    if " " <= c <= "~":
        return c
    code = ord(c)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def number(value: float) -> str:
    try:
        double = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0.0"
    sign, digits, exponent = fewest(double)
    if -4 <= exponent < 16:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        digits = digits.ljust(exponent + 1, "0")
        return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :] or '0'}"
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def fewest(double: float) -> tuple[str, str, int]:
    """Sign, the fewest digits that read back, and the exponent of the first."""
    found = Decimal(repr(abs(double))).normalize().as_tuple()
    digits = "".join(map(str, found.digits))
    return ("-" if double < 0 else ""), digits, len(digits) - 1 + int(found.exponent)


def verified(notebook: dict[str, Any], key: bytes) -> bool:
    record = notebook["metadata"]["jp"]
    lines = ["jp_nb record 2", record["conversation"]["id"], record["base_config"]]
    lines += record["events"]
    signed = "".join(form(line) + "\n" for line in lines)
    return bool(
        record["signature"] == "2:" + hmac.digest(key, signed.encode("ascii"), "sha256").hex()
    )


# --- as implemented ----------------------------------------------------------------------------


def notebook() -> dict[str, Any]:
    """A notebook that was signed, and whose metadata a page wrote."""
    base = {"user": {"name": "Zoë"}, "assistant": {"name": "x"}}
    notebook = NotebookRecord(keys=Keyring(KEY), base_config=base)
    stream = notebook.stream
    stream.start_turn(
        new_event("chat_request", content='a "quoted"\n\u2028 \U0001f600 \x7f \x00 \ud83d\ude00')
    )
    stream.append(
        new_event("tool_call_request", id="1", name="f", arguments={"b": 1, "a": [0.1, 1e16, -0.0]})
    )
    stream.append(new_event("tool_call_response", id="1", content="\\", is_error=False))
    stream.append(
        new_event("chat_response", data={"x": 2**53 + 1, "y": 1e-7, "z": None, "w": [True]})
    )
    return {"metadata": {"jp": notebook.stored}}


def test_signed_notebook_verifies_as_documented() -> None:
    assert verified(notebook(), KEY)
    assert not verified(notebook(), KEY[::-1])


def test_notebook_with_a_changed_entry_does_not_verify() -> None:
    for index in range(5):
        changed = notebook()
        changed["metadata"]["jp"]["events"][index]["timestamp"] = "2026-01-01 00:00:00.0"
        assert not verified(changed, KEY)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_documented_form_is_the_canonical_form(value: Any) -> None:
    assert form(value) == write_text("canonical_json", value)


def test_documented_form_at_the_borders(subtests: pytest.Subtests) -> None:
    surrogates = ["\ud800", "\udc00\ud800", "a\ud83d\ude00"]
    numbers = [10**400, 1e15, 1e16, 1e-4, 1e-5, 5e-324]
    rows: list[Any] = [*surrogates, *numbers]
    for value in rows:
        with subtests.test(value=value):
            assert form(value) == write_text("canonical_json", value)


def test_every_event_type_is_documented() -> None:
    titles = " ".join(re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.M))
    assert all(f"`{kind}`" in titles for kind in RecordView.event_kinds())

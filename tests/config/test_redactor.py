"""No secret is left in a text, however it is encoded and cut into pieces."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jp_nb.config.redactor import Redactor

ENCODERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda s: json.dumps(s)[1:-1],
    "JSON in UTF-8": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "JSON twice": lambda s: json.dumps(json.dumps(s))[3:-3],
    "repr": lambda s: repr(s)[1:-1],
    "bytes": lambda s: repr(s.encode())[2:-1],
    "repr in JSON": lambda s: json.dumps(repr(s)[1:-1])[1:-1],
    "URL": lambda s: quote(s, safe=""),
    "URL twice": lambda s: quote(quote(s, safe=""), safe=""),
    "form": quote_plus,
    "JSON in a form": lambda s: quote_plus(json.dumps(s))[3:-3],
    "each character in JSON": lambda s: json.dumps("".join(f"\\u{ord(c):04x}" for c in s))[1:-1],
    "each character in HTML": lambda s: "".join(f"&#{ord(c)};" for c in s),
}
characters = st.sampled_from("abcdfnrtuxzEU019_-.~/+ \"'\\%&#;:\n\tßé\u20ac")
secrets = st.text(characters, min_size=8, max_size=40).filter(lambda s: s == s.strip())
secrets = secrets.filter(lambda s: sum(c not in '\\"' for c in s) > 7)
# No hexadecimal digits: after a `%` of the secret, they could be an escape.
around = st.text(st.sampled_from("yz \"'{}[],:\n\\"), max_size=20)


@example("JSON in a form", '"00000000', "y", "z")  # the escape of its beginning is `%5C%22`
@given(st.sampled_from([*ENCODERS]), secrets, around, around)
def test_encoded_secret_is_hidden(encoder: str, secret: str, begin: str, end: str) -> None:
    if encoder.startswith("each"):  # no encoder escapes all characters: it is an attack on a key
        secret = secret.translate({ord(char): "-" for char in "\\%&"})
    encoded = ENCODERS[encoder](secret)
    shown = Redactor("[gone]", secret).hide(begin + encoded + end)
    assert "[gone]" in shown
    assert encoded not in shown
    if not (set(begin + end + secret) & set("\\")):
        assert shown == f"{begin}[gone]{end}"


def hide_in_pieces(secret: str, text: str, sizes: list[int]) -> str:
    stream = Redactor("[gone]", secret).stream()
    shown = ""
    at = 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        shown += stream.feed(text[at : at + size])
        at += size
    return shown + stream.finish()


piece_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=9)


@given(st.sampled_from([*ENCODERS]), secrets, around, around, piece_sizes)
def test_secret_in_pieces_is_hidden(
    encoder: str, secret: str, begin: str, end: str, sizes: list[int]
) -> None:
    if encoder.startswith("each"):
        secret = secret.translate({ord(char): "-" for char in "\\%&"})
    encoded = ENCODERS[encoder](secret)
    shown = hide_in_pieces(secret, begin + encoded + end, sizes)
    assert "[gone]" in shown
    assert encoded not in shown


@given(secrets, around, piece_sizes)
def test_pieces_without_the_secret_are_unchanged(secret: str, text: str, sizes: list[int]) -> None:
    secret = secret.replace("\n", "-")  # a long line of a secret is hidden alone
    text += secret + text
    assert hide_in_pieces(secret + "§", text, sizes) == text


@given(secrets, around)
def test_secret_in_a_value_is_hidden(secret: str, text: str) -> None:
    redactor = Redactor("[gone]", secret)
    hidden = redactor.hide_value({secret: [text + secret, 1, None], "b": {"c": json.dumps(secret)}})
    assert redactor.hide(json.dumps(hidden)) == json.dumps(hidden)
    assert "[gone]" in json.dumps(hidden)


@given(secrets, st.binary(max_size=9), st.binary(max_size=9))
def test_secret_in_base64_is_hidden(secret: str, begin: bytes, end: bytes) -> None:
    encoded = b64encode(begin + secret.encode() + end).decode()
    shown = Redactor("[gone]", secret).hide(encoded)
    assert "[gone]" in shown
    assert len(shown) <= len("[gone]") + (4 * (len(begin) + len(end)) // 3 + 12)


@given(secrets, around)
def test_text_without_the_secret_is_unchanged(secret: str, text: str) -> None:
    assert Redactor("[gone]", secret + "§").hide(text) == text
    assert Redactor("[gone]").hide(secret) == secret


# Python, JSON, URLs, and HTML can escape any character.
ESCAPES: tuple[Callable[[str], str], ...] = (
    str,
    str,
    lambda c: "".join(f"%{byte:02x}" for byte in c.encode()),
    lambda c: "".join(f"%25{byte:02X}" for byte in c.encode()),
    lambda c: f"\\u{ord(c):04x}",
    lambda c: f"\\\\u{ord(c):04x}",
    lambda c: f"&#{ord(c)};",
)
percent_parts = st.lists(st.sampled_from(["%", "%4", "%41", "%6e", "1", "a", "z"]), min_size=4)


@given(percent_parts.map(lambda parts: "".join(["w0rd", *parts])), around, around, st.data())
def test_any_mixture_of_escapes_is_hidden(
    secret: str, begin: str, end: str, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(ESCAPES), min_size=9, max_size=9))
    encoded = "".join(chosen[at % 9](char) for at, char in enumerate(secret))
    shown = Redactor("[gone]", secret).hide(begin + encoded + end)
    assert "[gone]" in shown
    assert encoded not in shown


def test_later_escape_does_not_repeat_text_that_was_shown() -> None:
    stream = Redactor("[gone]", "sk-nine99tape").stream()
    pieces = ["sk-", "\\n", "ine99tape", " and ", "%6e", " end"]
    shown = "".join(map(stream.feed, pieces)) + stream.finish()
    # With `%6e`, the text may have escapes: then `\\n` counts as the letter of the secret.
    assert shown == "".join(pieces)


def test_raw_digits_after_an_escaped_percent_sign_are_hidden() -> None:
    encoded = "x%\\u00341y%42%7A, w0rd"
    assert Redactor("[gone]", "x%41y%42z, w0rd").hide(encoded) == "[gone]"


def test_digits_may_follow_a_percent_sign_that_is_encoded_twice() -> None:
    secret = "pa55 w0rd%"
    text = quote(quote(secret, safe=""), safe="") + "41"
    assert Redactor("[gone]", secret).hide(text) == "[gone]41"


@pytest.mark.parametrize("unit", ["\\", "%", "%25", "%5C", "&#", "\\u0", "\\u0061", "a", "\n"])
def test_work_is_linear(unit: str) -> None:
    redactor = Redactor("[gone]", "aaaaaaaaaa\\\\\\\\b%%%%\n\na", "\\" * 20 + "b")
    redactor.hide(unit * 300_000)  # a quadratic search would take hours


@pytest.mark.parametrize("unit", ["\\", "%", "%25", "%5C", "&#", "\\u0", "\\u0061", "a", "\n"])
def test_work_for_pieces_is_linear(unit: str) -> None:
    stream = Redactor("[gone]", "aaaaaaaaaa\\\\\\\\b%%%%\n\na", "\\" * 20 + "b").stream()
    stream.feed("aaaaaaaaaa")
    for _ in range(1000):
        stream.feed(unit * 5)
    stream.feed(unit * 300_000)

"""The forms in which a text can have a secret: plain, as Latin-1, in a URL, and in Base64.

In a text, the characters of a form may also be escaped: `unescaped_text.py` removes escapes.
`redactor.py` searches the forms.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote

_SHORTEST_BASE64 = 8
"""Shorter Base64 of a secret is not searched: it could be a part of any text."""


def iter_encoded_forms(secret: str) -> Iterator[str]:
    """Yield the forms in which texts can have `secret`. They may repeat."""
    data = secret.encode(errors="replace")

    # Escapes in a URL or in a Python `bytes` give Latin-1, and those of JSON give surrogates.
    as_latin1 = data.decode("latin-1")
    units = secret.encode("utf-16-be", "surrogatepass")
    as_surrogates = "".join(chr(a << 8 | b) for a, b in zip(units[::2], units[1::2], strict=True))

    for text in (secret, as_latin1, as_surrogates):
        yield text
        yield text.replace(" ", "+")  # in the query of a URL

    quoted = quote(data, safe="")
    yield quoted
    # The removal of escapes cannot tell digits of the secret after a percent sign from the digits
    # of the escape of this sign: of `a%41` in a URL, `a%2541`, it makes `aA`. Of a short secret,
    # too little may be left to search for. Texts that are quoted three times are rare.
    if "%" in secret:
        yield quote(quoted, safe="")

    yield from _iter_base64_forms(data)


def _iter_base64_forms(data: bytes) -> Iterator[str]:
    """Yield the Base64 of `data` inside of longer data.

    There are three forms, which depend on the number of bytes before it. The characters at the ends
    also depend on the neighbors, so they are omitted.
    """
    for bytes_before in range(3):
        encoded = b64encode(b"\0" * bytes_before + data + b"\0\0").decode()

        # Each character has 6 bits. The first and the last one only count if all bits are ours.
        first = -(-8 * bytes_before // 6)  # rounded up
        end = 8 * (bytes_before + len(data)) // 6
        core = encoded[first:end]
        if len(core) >= _SHORTEST_BASE64:
            yield core
            yield core.translate({ord("+"): "-", ord("/"): "_"})  # in URLs

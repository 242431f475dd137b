"""A URL is shown as a browser reads it, and has no link if that is not certain."""

from __future__ import annotations

import time

import pytest

from jp_nb.toolkit.question_types.web_address import read_web_address
from tests.kit.texts import write_text

HAS_LOOKALIKES = "The host contains letters that may look like others. Browsers also write it as {}"
IS_AN_ADDRESS = "The host is a number, not a name"
MAX_URL_CHARS = 4000
NAMES_A_USER = "The text before @ is not the host: the address leads to {}"
NO_LINK = "This is no web address that a browser certainly opens as it is shown"
NOT_ENCRYPTED = "The connection is not encrypted (http)"


@pytest.mark.parametrize(
    ("url", "host", "warnings"),
    [
        ("https://github.com/login?x=1#y", "github.com", ()),
        ("HTTPS://GitHub.com:8443", "GitHub.com", ()),
        ("http://example.org/", "example.org", (NOT_ENCRYPTED,)),
        ("https://github.com@evil.example/", "evil.example",
         (NAMES_A_USER.format("evil.example"),)),
        ("https://a.example#@b.example", "a.example", ()),
        ("https://127.0.0.1:80/x", "127.0.0.1", (IS_AN_ADDRESS,)),
        ("https://2130706433/", "2130706433", (IS_AN_ADDRESS,)),
        ("https://0x7f.1/", "0x7f.1", (IS_AN_ADDRESS,)),
        ("https://[::1]/", "[::1]", (IS_AN_ADDRESS,)),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com",
         (HAS_LOOKALIKES.format("xn--pple-43d.com"),)),
        ("https://\u0430pple.com/", "\u0430pple.com", (HAS_LOOKALIKES.format("xn--pple-43d.com"),)),
        ("https://a.example\u3002b.example/", "a.example\u3002b.example",
         (HAS_LOOKALIKES.format("a.example.b.example"),)),
    ],
)  # fmt: skip
def test_host_is_marked_with_the_reasons_to_be_careful(
    url: str, host: str, warnings: tuple[str, ...]
) -> None:
    found = read_web_address(url)
    assert (found.host, found.warnings) == (host, warnings)
    assert found.text == url
    assert found.link is not None
    assert found.link.isascii()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vscode://x",
        "https:evil.example",
        "https:/evil.example",
        "//evil.example",
        " https://a.example",
        "https://a.example/\n",
        "https://a.exa\tmple/",
        "https://good.example\\@evil.example/",
        "https://a%2eexample/",
        "https://a.example:99999/",
        "https://a.example:x/",
        "https://a@b@c.example/",
        'https://a.example/"onclick="x',
        "https://a.example/<script>",
        "https://a.example/\u202egpj.exe",
        "https://",
        "https:///x",
        "",
        "https://a.example/" + "x" * MAX_URL_CHARS,
    ],
)
def test_text_that_browsers_may_read_differently_has_no_link(url: str) -> None:
    found = read_web_address(url)
    assert (found.link, found.host, found.warnings) == (None, "", (NO_LINK,))
    assert found.text == url


def test_recorded_url_has_no_query_fragment_or_user() -> None:
    url = "https://ada:pw@a.example:1/path?code=1#token=2"
    assert write_text("recorded_url", url) == "https://a.example:1/path"
    assert write_text("recorded_url", "https://a.example#x?y") == "https://a.example"


def test_long_text_is_read_at_once() -> None:
    began = time.monotonic()
    for text in ("https://" + "a." * 500_000, "https://" + "@" * 1_000_000, "//" * 500_000):
        read_web_address(text)
        write_text("recorded_url", text)
    assert time.monotonic() - began < 5

"""Hide known secrets in texts, and recognize other secrets by their names or their form.

The configuration contains the names of environment variables instead of the API keys of providers.
But a user or a model may write a secret into an option of a tool, an answer, an argument, or a
command.
"""

from __future__ import annotations

import re
import sys
from array import array
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

NOT_SHOWN = "(set, not shown)"
"""Replaces a secret value in settings and texts."""
SECRET_ANSWER = "(secret)"
"""Replaces the answer to a secret question."""
PROVIDER_KEY_MARK = "[key]"
"""Replaces a provider's key in the response of a server."""
MIN_SECRET_CHARS = 4
"""Shorter values are not hidden: they occur in many texts."""
_SHORTEST_LINE = 8  # minimum length of a line of a secret that is also hidden alone
_SHORTEST_BASE64 = 8
_SHORTEST_FORM = 3  # minimum length of a secret without backslashes
_MIN_PARTIAL_CHARS = 4
"""Characters of a secret that may be shown before the rest is recognized in a stream."""


class Redactor:
    """Replaces known secrets in texts. Thread-safe: `_adding` guards changes.

    Recognizes a secret as it is, in the escapes of JSON, Python, HTML, and URLs, also repeated or
    mixed, and its Base64 after any other text. The `repr` does not contain the secrets.
    """

    def __init__(self, replacement: str, *secrets: str) -> None:
        self._replacement = replacement
        self._forms: frozenset[str] = frozenset()
        self._unescaped: frozenset[str] = frozenset()
        self._words: frozenset[str] = frozenset()  # one of each secret that encoders escape
        self._adding = Lock()

        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide `secret` in later texts, and each of its longer lines."""
        parts = {secret, secret.strip()} if len(secret.strip()) >= MIN_SECRET_CHARS else set()

        lines = map(str.strip, secret.splitlines())
        parts |= {line for line in lines if len(line) >= _SHORTEST_LINE}

        with self._adding:
            special = [part for part in parts if not _WORD.fullmatch(part)]
            self._words |= {max(_WORD.findall(part), key=len, default="") for part in special}
            self._forms = self._forms.union(*map(_encode, parts))
            unescaped = (form for f in self._forms for form, _ in _unescape_all(f))
            self._unescaped = frozenset(form for form in unescaped if len(form) >= _SHORTEST_FORM)

    def hide(self, text: str) -> str:
        """Return `text` with the replacement in place of each secret."""
        if not self.may_be_in(text):
            return text  # the usual case
        shown = []

        end = 0
        for start, stop in sorted(self._find(text)):
            if start >= end:
                shown += [text[end:start], self._replacement]
            end = max(end, stop)

        return "".join([*shown, text[end:]]) if shown else text

    def may_be_in(self, text: str) -> bool:
        """Return False if there is certainly no secret in `text`. It is faster than `hide`."""
        for form in self._forms:
            if form in text:
                return True
        return bool(self._forms) and self._may_escape(text)

    def hide_value(self, value: JsonValue) -> JsonValue:
        """Return `value` without secrets in its names and texts."""
        match value:
            case str():
                return self.hide(value)
            case list():
                return [self.hide_value(each) for each in value]
            case dict():
                return {self.hide(key): self.hide_value(each) for key, each in value.items()}
        return value

    def stream(self) -> RedactedStream:
        """Return a stream that hides the secrets known now."""
        return RedactedStream(self, self._forms)

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        for form in self._forms:
            yield from _find_all(form, text)
        if self._may_escape(text):
            for unescaped, starts in _unescape_all(text):
                for form in self._unescaped:
                    for start, stop in _find_all(form, unescaped):
                        yield starts[start], starts[stop]

    def _may_escape(self, text: str) -> bool:
        # Finding a character is much faster than the pattern.
        is_likely = "\\" in text or "%" in text or "&#" in text
        if is_likely and _WITH_ESCAPED_WORD.search(text) is not None:
            return True
        return any(word in text for word in self._words)


class RedactedStream:
    """Removes secrets from a text that arrives in pieces.

    Only the beginning of a secret is held back. Up to three characters of a secret may be shown,
    and the rest is removed.
    """

    def __init__(self, redactor: Redactor, forms: frozenset[str]) -> None:
        self._redactor = redactor
        self._forms = forms
        beginnings = {re.escape(form[:_MIN_PARTIAL_CHARS]) for form in forms}
        self._beginning = re.compile("|".join(sorted(beginnings)) or "(?!)")
        self._longest = max(map(len, forms), default=0)
        self._tail = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the next part of the redacted text."""
        before = len(self._tail)
        text = self._tail + self._held + piece
        if self._beginning.search(text) is None:  # the usual case
            self._tail = text[1 - _MIN_PARTIAL_CHARS :]
            self._held = ""
            return text[before:]

        places = map(text.find, self._forms)
        found = [place for place in places if place >= 0]
        if found:
            text = text[before : min(found)] + self._redactor.hide(text[min(found) :])
            before = 0

        sizes = range(min(self._longest - 1, len(text)), _MIN_PARTIAL_CHARS - 1, -1)
        partial = (n for n in sizes if any(f.startswith(text[-n:]) for f in self._forms))
        held = min(next(partial, 0), len(text) - before)

        shown = text[before : len(text) - held]
        self._held = text[len(text) - held :]
        self._tail = (self._tail + shown)[1 - _MIN_PARTIAL_CHARS :]
        return shown

    def finish(self) -> str:
        """Return the rest of the text."""
        held = self._held
        self._held = ""
        return held


def _encode(secret: str) -> Iterator[str]:
    data = secret.encode(errors="replace")
    units = secret.encode("utf-16-be", "surrogatepass")
    surrogates = "".join(chr(a << 8 | b) for a, b in zip(units[::2], units[1::2], strict=True))

    for text in (secret, data.decode("latin-1"), surrogates):  # as URLs, bytes, or JSON have it
        yield text
        yield text.replace(" ", "+")

    quoted = quote(data, safe="")
    yield quoted  # also found if it is in pieces
    if "%" in secret:  # decoding cannot tell digits after its escape from digits of the escape
        yield quote(quoted, safe="")

    for before in range(3):
        bits = 8 * (before + len(data))
        encoded = b64encode(b"\0" * before + data + b"\0\0").decode()
        core = encoded[-(-8 * before // 6) : bits // 6]
        if len(core) >= _SHORTEST_BASE64:
            yield core
            yield core.translate({ord("+"): "-", ord("/"): "_"})


def _find_all(part: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))


_WORD: Final = re.compile(r"[\w.~-]+", re.ASCII)  # no encoder needs to escape these characters
_WITH_ESCAPED_WORD: Final = re.compile(r"\\(?:u00|U0000|x|/)|%[2-7]|&\#")
_ESCAPED: Final = (  # any number of backslashes, which depends on the levels of quotation
    r"{backslash}++(?:x(?P<byte>[\da-fA-F]{{2}})|u(?P<short>[\da-fA-F]{{4}})"
    r"|U(?P<long>[\da-fA-F]{{8}})|(?P<char>[^%&]))?|(?P<break>[\n\r\t\b\f])"
    r"|&\#[xX](?P<html>[\da-fA-F]{{1,12}});?|&\#(?P<decimal>\d{{1,12}});?"
)
_ESCAPES: Final = (  # without and with those of URLs
    re.compile(_ESCAPED.format(backslash=r"\\"), re.ASCII),
    re.compile(
        _ESCAPED.format(backslash=r"(?:\\|%(?:25){0,4}5[cC])")
        + r"|%(?:25){0,4}(?P<percent>[\da-fA-F]{2})",
        re.ASCII,
    ),
)
_LETTERS: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\\": ""}


_MAX_PASSES: Final = 4  # an escape of an escape needs one more; the work stays linear


def _unescape_all(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    # The text without escapes except those of URLs, and after each pass that removes all of them.
    yield _unescape(text, _ESCAPES[0])

    starts: Sequence[int] = range(len(text) + 1)
    for _ in range(_MAX_PASSES):
        if "%" not in text:
            break
        before = len(text)
        text, places = _unescape(text, _ESCAPES[1])
        if len(text) == before:
            break
        starts = [starts[place] for place in places]
        yield text, starts


def _unescape(text: str, escapes: re.Pattern[str]) -> tuple[str, array[int]]:
    # The text without escapes of any level, and the index in `text` of each character and the end.
    # Backslashes are removed, and a line break is the letter of its escape.
    pieces: list[str] = []
    starts = array("Q")
    at = 0

    begin = -1
    for found in escapes.finditer(text):
        if begin < 0 or found.start() > at:  # otherwise, backslashes before it belong to it
            begin = found.start()
        pieces.append(text[at : found.start()])
        starts.extend(range(at, found.start()))
        at = found.end()

        if (kind := found.lastgroup) is not None:
            if (char := found[kind]) and kind not in ("char", "break"):
                base = 10 if kind == "decimal" else 16
                char = chr(min(int(char, base), sys.maxunicode))
            pieces.append(_LETTERS.get(char, char))
            starts.extend(begin for _ in pieces[-1])
            begin = -1

    starts.extend(range(at, len(text) + 1))
    return "".join([*pieces, text[at:]]), starts


SECRET_WORDS = (
    *("secret", "password", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "pin", "otp"),
    *("token", "credential", "cred", "authorization", "bearer", "cookie", "jwt", "apikey"),
)
"""Last words of secret names, singular or plural; `QUALIFIERS` may follow."""
NO_PLURAL = ("pass", "pw", "token")
"""Secret words whose plural is not secret: `max_tokens` is a number.

After a word of `KEY_QUALIFIERS`, as in `api_tokens`, the plural is secret.
"""
ALWAYS_SECRET_WORDS = (
    *("secret", "password", "passwd", "passphrase", "passcode", "pwd", "credential"),
    *("authorization", "bearer", "jwt", "apikey"),
)
"""Words that make a name secret in any position, unless one of `DESCRIPTION_WORDS` follows."""
KEY_QUALIFIERS = (
    *("api", "access", "secret", "private", "auth", "signing", "encryption", "master", "session"),
    *("shared", "ssh", "client", "account", "service", "deploy", "storage", "refresh", "bearer"),
    *("id", "user", "bot", "personal", "license", "webhook"),
)
"""Words before `key` or `token` in secret names."""
VENDORS = frozenset(
    (
        *("airtable", "algolia", "alpaca", "amazon", "anthropic", "assemblyai", "atlassian", "aws"),
        *("azure", "bedrock", "binance", "bing", "bitbucket", "brave", "cerebras", "circleci"),
        *("claude", "cloudflare", "codecov", "cohere", "coinbase", "confluence", "databricks"),
        *("datadog", "deepgram", "deepl", "deepseek", "digitalocean", "discord", "docker"),
        *("dockerhub", "dropbox", "elevenlabs", "facebook", "finnhub", "firebase", "fireworks"),
        *("gcp", "gemini", "gh", "github", "gitlab", "google", "grafana", "grok", "groq", "heroku"),
        *("hf", "hubspot", "huggingface", "jina", "jira", "kaggle", "kraken", "langchain"),
        *("langsmith", "linkedin", "linode", "llm", "mailgun", "mapbox", "mistral", "mistralai"),
        *("netlify", "newrelic", "ngc", "notion", "npm", "nvidia", "okta", "ollama", "openai"),
        *("openrouter", "openweather", "openweathermap", "pagerduty", "paypal", "perplexity"),
        *("pinecone", "plaid", "pypi", "qdrant", "quandl", "reddit", "replicate", "salesforce"),
        *("sendgrid", "sentry", "serpapi", "serper", "shopify", "slack", "snowflake", "sonar"),
        *("spotify", "stability", "stripe", "supabase", "tavily", "telegram", "together"),
        *("travis", "twilio", "twitter", "vault", "vercel", "voyage", "wandb", "weaviate", "xai"),
        *("youtube", "zendesk", "zenodo"),
    )
)
"""Services whose name together with `key` or `token` names a secret."""
QUALIFIERS = frozenset(
    (
        *("prod", "production", "dev", "development", "test", "testing", "stage", "staging"),
        *("live", "sandbox", "local", "ci", "cd", "qa", "uat", "demo", "main", "default", "backup"),
        *("old", "new", "prev", "previous", "current", "next", "temp", "tmp", "value", "str"),
        *("val", "string", "raw", "plain", "plaintext", "cleartext", "bytes", "encoded"),
        *("encrypted", "base", "b", "hex", "copy", "v", "rw", "ro", "readonly", "admin", "root"),
    )
)
"""Words after the last word of a secret name that leave it secret: `token_ci`, `pin_value`."""
DESCRIPTION_WORDS = frozenset(
    (
        *("hint", "env", "count", "counts", "length", "len", "size", "min", "max", "policy"),
        *("rule", "rules", "name", "names", "file", "files", "path", "paths", "dir", "folder"),
        *("url", "uri", "endpoint", "type", "types", "kind", "field", "fields", "label", "labels"),
        *("column", "columns", "index", "ids", "format", "pattern", "regex", "limit", "budget"),
        *("usage", "expiry", "expires", "expired", "expiration", "ttl", "age", "date", "time"),
        *("prompt", "reset", "strength", "required", "manager", "store", "provider", "form"),
        *("help", "description", "error", "errors", "callback", "function", "validator"),
    )
)
"""Words after a secret word that make a name harmless: `password_policy`, `api_key_name`."""
SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "credential", "apikey")
"""Endings of words in secret names, such as `dbpassword`."""
MISPLACED_SECRET_KEYS = ("api_key_env", "base_url", "variables")
"""Settings that hold no secret, but in which a user may write one by mistake."""

_LAST = re.compile(
    rf"(?:.* )?(?:(?:{'|'.join(SECRET_WORDS)})"
    rf"|(?:{'|'.join(word for word in SECRET_WORDS if word not in NO_PLURAL)})s"
    rf"|(?:{'|'.join(KEY_QUALIFIERS)}) ?(?:key|token)s?)"
    rf"|.*(?:{'|'.join(SECRET_ENDINGS)})s?"
)
_ANY = re.compile(
    rf"\b(?:(?:{'|'.join(ALWAYS_SECRET_WORDS)}|\w*(?:{'|'.join(SECRET_ENDINGS)}))s?"
    rf"|(?:{'|'.join(KEY_QUALIFIERS)}) ?(?:key|token)s?)\b"
)
_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SEPARATORS = re.compile(r"[.\[\]\"]+")
_HINTS = frozenset(("key", "keys", "token", "auth", "sig", "signature", "sas", "salt", "webhook"))
_RANDOM = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}")
_LONGEST_NAME = 500


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return True if a value with this name is usually secret."""
    if _TRIGGER.search(name) is None:
        return False

    words = _words(name)
    if words == ["tokens"]:
        return True

    while words and words[-1] in QUALIFIERS:
        words.pop()
    if _LAST.fullmatch(" ".join(words)):
        return True

    return _names_vendor_key(words) or any(
        DESCRIPTION_WORDS.isdisjoint(" ".join(words)[found.end() :].split())
        for found in _ANY.finditer(" ".join(words))
    )


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name[:_LONGEST_NAME])]


def _names_vendor_key(words: list[str]) -> bool:
    joined = {*words, *map("".join, pairwise(words))}  # `OpenAI` is split into two words
    keys = [place for place, word in enumerate(words) if word in ("key", "keys", "token")]
    if not keys or not DESCRIPTION_WORDS.isdisjoint(words[keys[-1] + 1 :]):
        return False
    return not VENDORS.isdisjoint(joined)


def is_secret(name: str, value: object) -> bool:
    """Return True if `name` is the name of a secret, or `value` has the form of an API key.

    If the name mentions a key or a token, a random text such as `f3a9c1…` is also a secret.
    """
    if is_secret_name(name):
        return True

    if type(value) is not str or not _SHORTEST_KEY <= len(value) <= _LONGEST_KEY:
        return False

    is_hinted = not _HINTS.isdisjoint(_words(name))
    return (is_hinted and _RANDOM.search(value) is not None) or find_api_keys(value) == [
        value.strip()
    ]


_TRIGGER = re.compile("key|token|pass|pw|pin|otp|secret|cred|auth|bearer|cookie|jwt", re.I)
"""Each secret name contains one of these parts. The check of most other names ends here."""
_SHORTEST_KEY = 16
_LONGEST_KEY = 4096
_SPOKEN = re.compile(
    rf"\b(?:(?:{'|'.join((*SECRET_ENDINGS, 'passphrase', 'passcode', 'apikey'))})s?"
    rf"|(?:{'|'.join(KEY_QUALIFIERS)})[ _-]?(?:key|token)s?)\b",
    re.IGNORECASE,
)


def mentions_secret(text: str) -> bool:
    """Return True if `text`, a name or a sentence, mentions a secret such as a password."""
    words = " ".join(_WORDS.findall(text))
    return is_secret_name(text) if " " not in text.strip() else _SPOKEN.search(words) is not None


def may_hold_secret(path: str) -> bool:
    """Return True if the setting at `path` may contain a secret, also by mistake."""
    keys = _SEPARATORS.split(path)
    return any(key in MISPLACED_SECRET_KEYS or is_secret_name(key) for key in keys)


_CREDENTIALS = re.compile(  # without shell operators: the user must see the command that runs
    r"(?P<kept>\bBearer\s+)[\w.~+/=-]+"  # a header
    r"|(?P<name>://[^\s/?#:@'\"]*:)[^\s/?#'\"$`(){};|&<>]+(?=@)"  # an address
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(
    r"//[^/\s]*@|:[^/\s@]+@|\b(sk|pk|rk|gsk)[-_]\w"
    r"|\b(sk|pk|ghp|gho|xai|key|AIza)[-_A-Za-z0-9]{12,}"
    r"|(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}",
    re.IGNORECASE,
)


def looks_like_secret(text: str) -> bool:
    """Return True if a part of `text` may be a key or a password.

    It has many false positives, so only error messages use it.
    """
    return _LOOKS_SECRET.search(text) is not None


def hide_credentials(text: str) -> str:
    """Return `text`, such as a command line, with `NOT_SHOWN` in place of keys and passwords."""
    return _CREDENTIALS.sub(lambda at: f"{at['kept'] or at['name'] or ''}{NOT_SHOWN}", text)


_KEYS_IN_TEXTS = re.compile(  # without backtracking over long runs: it is fast for any text
    r"\b(?:gh[oprsu]_\w{20,}|github_pat_\w{20,}|hf_\w{20,}|gsk_\w{20,}|xai-\w{20,}|npm_\w{30,}"
    r"|(?:sk|pk|rk)_(?:live|test)_\w{8,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|glpat-[\w-]{16,}"
    r"|pypi-[\w-]{30,}|xox[a-z]-[\w-]{10,})"
    r"|(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*"  # a JSON web token
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}"
    r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
_CERTAIN_KEYS = re.compile(
    rf"{_KEYS_IN_TEXTS.pattern}"
    r"|\bsk-(?=[A-Za-z_-]{0,200}[0-9])[\w-]{20,}"
    r"|\bBearer[ \t]+(?=[A-Za-z_.~+/=-]{0,200}[0-9])[\w.~+/=-]{20,}"
)
_QUOTED = (
    r'[bfruBFRU]{0,2}(?:"""(?:[^"\\]|\\.|"(?!"")){1,5000}"""|'
    r"'''(?:[^'\\]|\\.|'(?!'')){1,5000}'''"
    r'|"(?:[^"\\\n]|\\.){1,5000}"|' + r"'(?:[^'\\\n]|\\.){1,5000}')"
)
_BARE = r"[^\s\"'(),;\[\]{}<>=]{4,1000}(?![\w(.\[])"
_NAME = r"(?<![\w-])(?P<name>[A-Za-z_][\w-]{0,99})"
_TO = r"(?P<to>[\"']?\]?(?:[ \t]{0,8}:[ \t]{0,8}[\w.|\[\], ]{1,60}?)?[ \t]{0,8}[=:][ \t]{0,8})"
_SET_IN_CODE = re.compile(f"{_NAME}{_TO}(?P<value>{_QUOTED})", re.DOTALL)
_SET_IN_TEXT = re.compile(f"{_NAME}{_TO}(?P<value>{_QUOTED}|{_BARE})", re.DOTALL)
_MAGICS = re.compile(r"^[ \t]*[%!#].*", re.MULTILINE)
_QUOTES = re.compile(r"(?P<open>[bfruBFRU]{0,2}(?:\"\"\"|'''|[\"']))(?s:.*)")


def hide_secrets(text: str, *, code: bool = False) -> str:
    """Return `text` without API keys and the values of secret names, as in `password = "…"`.

    `NOT_SHOWN` replaces each of them. The number of lines stays the same.

    Args:
        text: Any text, such as the output of a cell.
        code: True for Python code: `token = read()` is kept, `token = "…"` is not.
    """
    text = _KEYS_IN_TEXTS.sub(lambda key: redact_secret(key[0]), hide_credentials(text))
    if not code:
        return _SET_IN_TEXT.sub(_without_value, text)
    lines = _MAGICS.sub(lambda line: _SET_IN_TEXT.sub(_without_value, line[0]), text)
    return _SET_IN_CODE.sub(_without_value, lines)


def find_api_keys(text: str) -> list[str]:
    """Return the parts of `text` that are almost certainly API keys, by their form."""
    return [found[0] for found in _CERTAIN_KEYS.finditer(text)]


def hide_api_keys(text: str) -> str:
    """Return `text` without the parts that `find_api_keys` returns."""
    return _CERTAIN_KEYS.sub(lambda key: redact_secret(key[0]), text)


def _without_value(found: re.Match[str]) -> str:
    name = found["name"]
    value = found["value"]
    if name.lower().endswith("tokens") or not is_secret_name(name) or NOT_SHOWN.startswith(value):
        return found[0]

    opening = _QUOTES.fullmatch(value)
    quote = opening["open"] if opening else ""
    return f"{name}{found['to']}{quote}{redact_secret(value)}{quote.lstrip('bfruBFRU')}"


def redact_secret(secret: str) -> str:
    """Return the replacement for `secret`, with the same number of line breaks."""
    return NOT_SHOWN + "\n" * secret.count("\n")

"""Recognize secrets by their names or their form, and hide them in texts.

The configuration contains the names of environment variables instead of the API keys of providers.
But a user or a model may write a secret into an option of a tool, an answer, an argument, or a
command. `jp_nb/config/redactor.py` hides the secrets that the program knows.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

NOT_SHOWN = "(set, not shown)"
"""Replaces a secret value in settings and texts."""
SECRET_ANSWER = "(secret)"
"""Replaces the answer to a secret question."""
PROVIDER_KEY_MARK = "[key]"
"""Replaces a provider's key in the response of a server."""
SECRET_WORDS = (
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pass",
    "pwd",
    "pw",
    "pin",
    "otp",
    "token",
    "credential",
    "cred",
    "authorization",
    "bearer",
    "cookie",
    "jwt",
    "apikey",
)
"""Last words of secret names, singular or plural; `QUALIFIERS` may follow."""
NO_PLURAL = ("pass", "pw", "token")
"""Secret words whose plural is not secret: `max_tokens` is a number.

After a word of `KEY_QUALIFIERS`, as in `api_tokens`, the plural is secret.
"""
ALWAYS_SECRET_WORDS = (
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "credential",
    "authorization",
    "bearer",
    "jwt",
    "apikey",
)
"""Words that make a name secret in any position, unless one of `DESCRIPTION_WORDS` follows."""
KEY_QUALIFIERS = (
    "api",
    "access",
    "secret",
    "private",
    "auth",
    "signing",
    "encryption",
    "master",
    "session",
    "shared",
    "ssh",
    "client",
    "account",
    "service",
    "deploy",
    "storage",
    "refresh",
    "bearer",
    "id",
    "user",
    "bot",
    "personal",
    "license",
    "webhook",
)
"""Words before `key` or `token` in secret names."""
VENDORS = frozenset(
    (
        "airtable",
        "algolia",
        "alpaca",
        "amazon",
        "anthropic",
        "assemblyai",
        "atlassian",
        "aws",
        "azure",
        "bedrock",
        "binance",
        "bing",
        "bitbucket",
        "brave",
        "cerebras",
        "circleci",
        "claude",
        "cloudflare",
        "codecov",
        "cohere",
        "coinbase",
        "confluence",
        "databricks",
        "datadog",
        "deepgram",
        "deepl",
        "deepseek",
        "digitalocean",
        "discord",
        "docker",
        "dockerhub",
        "dropbox",
        "elevenlabs",
        "facebook",
        "finnhub",
        "firebase",
        "fireworks",
        "gcp",
        "gemini",
        "gh",
        "github",
        "gitlab",
        "google",
        "grafana",
        "grok",
        "groq",
        "heroku",
        "hf",
        "hubspot",
        "huggingface",
        "jina",
        "jira",
        "kaggle",
        "kraken",
        "langchain",
        "langsmith",
        "linkedin",
        "linode",
        "llm",
        "mailgun",
        "mapbox",
        "mistral",
        "mistralai",
        "netlify",
        "newrelic",
        "ngc",
        "notion",
        "npm",
        "nvidia",
        "okta",
        "ollama",
        "openai",
        "openrouter",
        "openweather",
        "openweathermap",
        "pagerduty",
        "paypal",
        "perplexity",
        "pinecone",
        "plaid",
        "pypi",
        "qdrant",
        "quandl",
        "reddit",
        "replicate",
        "salesforce",
        "sendgrid",
        "sentry",
        "serpapi",
        "serper",
        "shopify",
        "slack",
        "snowflake",
        "sonar",
        "spotify",
        "stability",
        "stripe",
        "supabase",
        "tavily",
        "telegram",
        "together",
        "travis",
        "twilio",
        "twitter",
        "vault",
        "vercel",
        "voyage",
        "wandb",
        "weaviate",
        "xai",
        "youtube",
        "zendesk",
        "zenodo",
    )
)
"""Services whose name together with `key` or `token` names a secret."""
QUALIFIERS = frozenset(
    (
        "prod",
        "production",
        "dev",
        "development",
        "test",
        "testing",
        "stage",
        "staging",
        "live",
        "sandbox",
        "local",
        "ci",
        "cd",
        "qa",
        "uat",
        "demo",
        "main",
        "default",
        "backup",
        "old",
        "new",
        "prev",
        "previous",
        "current",
        "next",
        "temp",
        "tmp",
        "value",
        "str",
        "val",
        "string",
        "raw",
        "plain",
        "plaintext",
        "cleartext",
        "bytes",
        "encoded",
        "encrypted",
        "base",
        "b",
        "hex",
        "copy",
        "v",
        "rw",
        "ro",
        "readonly",
        "admin",
        "root",
    )
)
"""Words after the last word of a secret name that leave it secret: `token_ci`, `pin_value`."""
DESCRIPTION_WORDS = frozenset(
    (
        "hint",
        "env",
        "count",
        "counts",
        "length",
        "len",
        "size",
        "min",
        "max",
        "policy",
        "rule",
        "rules",
        "name",
        "names",
        "file",
        "files",
        "path",
        "paths",
        "dir",
        "folder",
        "url",
        "uri",
        "endpoint",
        "type",
        "types",
        "kind",
        "field",
        "fields",
        "label",
        "labels",
        "column",
        "columns",
        "index",
        "ids",
        "format",
        "pattern",
        "regex",
        "limit",
        "budget",
        "usage",
        "expiry",
        "expires",
        "expired",
        "expiration",
        "ttl",
        "age",
        "date",
        "time",
        "prompt",
        "reset",
        "strength",
        "required",
        "manager",
        "store",
        "provider",
        "form",
        "help",
        "description",
        "error",
        "errors",
        "callback",
        "function",
        "validator",
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

    words = _split_words(name)
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


def _split_words(name: str) -> list[str]:
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

    is_hinted = not _HINTS.isdisjoint(_split_words(name))
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

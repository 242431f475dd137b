"""The table of secrets: their names, their look in texts, and what stands in their place.

Keys of providers are never configured, only the names of the variables that hold them; but options
of a tool, answers, arguments and commands are anybody's.
"""

from __future__ import annotations

import re

NOT_SHOWN = "(set, not shown)"
"""In place of a configured value."""
SECRET_ANSWER = "(secret)"
"""In place of the answer to a secret question."""
PROVIDER_KEY = "[key]"
"""In place of a provider's key, where a server says it."""
SHORTEST = 4
"""Characters. Whatever is shorter is in every text, and no secret."""

# --- names -------------------------------------------------------------------------------------

ALONE = (
    *("secret", "password", "passwd", "passphrase", "passcode", "pass", "pwd", "pw", "pin", "otp"),
    *("token", "credential", "cred", "authorization", "cookie", "jwt", "apikey"),
)
"""The last word of a name of a secret, in the singular or in the plural."""
NO_PLURAL = ("pass", "pw", "token")
"""As a plural, `tokens` counts what a model reads, unless a word of `KEYS` is before it."""
KEYS = (
    *("api", "access", "secret", "private", "auth", "signing", "encryption", "master", "session"),
    *("shared", "ssh", "client", "account", "service", "deploy", "storage", "refresh", "bearer"),
    *("id", "user", "bot", "personal"),
)
"""The word before `key` or `token` in a name of a secret."""
ENDINGS = ("password", "passwd", "passphrase", "secret", "credential")
"""What a name of a secret ends in, also in the middle of a word: `dbpassword`."""
MISTAKEN = ("api_key_env", "base_url", "variables")
"""Settings that hold no secret, but into which a person may write one."""

_SECRET = re.compile(
    rf"(?:.* )?(?:(?:{'|'.join(ALONE)})"
    rf"|(?:{'|'.join(word for word in ALONE if word not in NO_PLURAL)})s"
    rf"|(?:{'|'.join(KEYS)}) ?(?:key|token)s?)"
    rf"|tokens|.*(?:{'|'.join(ENDINGS)})s?"
)
_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SEPARATORS = re.compile(r"[.\[\]\"]+")


def names_secret(name: str) -> bool:
    """Return True if what is called `name` is usually secret."""
    words = " ".join(word.lower() for word in _WORDS.findall(name))
    return bool(_SECRET.fullmatch(words))


_SPOKEN = re.compile(
    rf"\b(?:(?:{'|'.join((*ENDINGS, 'passphrase', 'passcode', 'apikey'))})s?"
    rf"|(?:{'|'.join(KEYS)})[ _-]?(?:key|token)s?)\b",
    re.IGNORECASE,
)


def speaks_of_secret(text: str) -> bool:
    """Return True if `text`, a name or a sentence, names something that is usually secret."""
    words = " ".join(_WORDS.findall(text))
    return names_secret(text) if " " not in text.strip() else _SPOKEN.search(words) is not None


def may_hold_secret(path: str) -> bool:
    """Return True if a person may have written a secret at `path`, or by mistake below it."""
    keys = _SEPARATORS.split(path)
    return any(key in MISTAKEN or names_secret(key) for key in keys)


# --- texts -------------------------------------------------------------------------------------

_CREDENTIALS = re.compile(  # no part of a shell's language, or it would hide what runs
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


def looks_secret(text: str) -> bool:
    """Return True if something in `text` may be a key or a password. For errors: too often."""
    return _LOOKS_SECRET.search(text) is not None


def without_credentials(text: str) -> str:
    """Return `text`, such as a command line, without keys and passwords in it."""
    return _CREDENTIALS.sub(lambda at: f"{at['kept'] or at['name'] or ''}{NOT_SHOWN}", text)


_KEYS_IN_TEXTS = re.compile(  # each run of characters is looked at once: no text makes this slow
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
_NO_PYTHON = re.compile(r"^[ \t]*[%!#].*", re.MULTILINE)
_AROUND = re.compile(r"(?P<open>[bfruBFRU]{0,2}(?:\"\"\"|'''|[\"']))(?s:.*)")


def without_secrets(text: str, *, code: bool = False) -> str:
    """Return `text` without what looks like a key, and without what a secret's name is set to.

    It keeps its number of lines.

    Args:
        text: Any text, such as what a cell printed.
        code: It is Python: `token = read()` stays, `token = "…"` does not.
    """
    text = _KEYS_IN_TEXTS.sub(lambda key: not_shown(key[0]), without_credentials(text))
    if not code:
        return _SET_IN_TEXT.sub(_without_value, text)
    lines = _NO_PYTHON.sub(lambda line: _SET_IN_TEXT.sub(_without_value, line[0]), text)
    return _SET_IN_CODE.sub(_without_value, lines)


def keys_in(text: str) -> list[str]:
    """Return what in `text` has the shape of a key, and of hardly anything else."""
    return [found[0] for found in _CERTAIN_KEYS.finditer(text)]


def without_keys(text: str) -> str:
    """Return `text` without what `keys_in` finds."""
    return _CERTAIN_KEYS.sub(lambda key: not_shown(key[0]), text)


def _without_value(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if name.lower().endswith("tokens") or not names_secret(name) or NOT_SHOWN.startswith(value):
        return found[0]
    quoted = _AROUND.fullmatch(value)
    quote = quoted["open"] if quoted else ""
    return f"{name}{found['to']}{quote}{not_shown(value)}{quote.lstrip('bfruBFRU')}"


def not_shown(secret: str) -> str:
    """Return what stands in place of `secret`, with as many line breaks as it has."""
    return NOT_SHOWN + "\n" * secret.count("\n")

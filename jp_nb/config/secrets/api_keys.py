"""Recognize API keys and passwords by their form, whatever their name is.

There are four patterns, from few to many false positives:

- `KEY_WITH_PREFIX`: keys that begin as those of one service do.
- `_CERTAIN_KEY`: these, and keys with a beginning that several services use.
- `_CREDENTIAL`: keys and passwords in a command line or an address, where they have a fixed place.
- `_POSSIBLE_SECRET`: anything that may be a key, for error messages.

`jp_nb/config/redactor.py` hides the secrets that the program knows.
"""

from __future__ import annotations

import re

from jp_nb.config.secrets.replacements import NOT_SHOWN, redact_secret

KEY_WITH_PREFIX = re.compile(  # without backtracking over long runs: it is fast for any text
    r"\b(?:gh[oprsu]_\w{20,}|github_pat_\w{20,}|hf_\w{20,}|gsk_\w{20,}|xai-\w{20,}|npm_\w{30,}"
    r"|(?:sk|pk|rk)_(?:live|test)_\w{8,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|glpat-[\w-]{16,}"
    r"|pypi-[\w-]{30,}|xox[a-z]-[\w-]{10,})"
    r"|(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*"  # a JSON web token
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}"
    r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
"""A key that begins as only keys of one service do, a JSON web token, or a private key."""

_CERTAIN_KEY = re.compile(
    rf"{KEY_WITH_PREFIX.pattern}"
    r"|\bsk-(?=[A-Za-z_-]{0,200}[0-9])[\w-]{20,}"
    r"|\bBearer[ \t]+(?=[A-Za-z_.~+/=-]{0,200}[0-9])[\w.~+/=-]{20,}"
)

_CREDENTIAL = re.compile(  # without shell operators: the user must see the command that runs
    r"(?P<before_token>\bBearer\s+)[\w.~+/=-]+"  # a header
    r"|(?P<before_password>://[^\s/?#:@'\"]*:)[^\s/?#'\"$`(){};|&<>]+(?=@)"  # an address
    r"|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)

_POSSIBLE_SECRET = re.compile(
    r"//[^/\s]*@|:[^/\s@]+@|\b(sk|pk|rk|gsk)[-_]\w"
    r"|\b(sk|pk|ghp|gho|xai|key|AIza)[-_A-Za-z0-9]{12,}"
    r"|(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}",
    re.IGNORECASE,
)


def find_api_keys(text: str) -> list[str]:
    """Return the parts of `text` that are almost certainly API keys, by their form."""
    return [key[0] for key in _CERTAIN_KEY.finditer(text)]


def hide_api_keys(text: str) -> str:
    """Return `text` with the parts redacted that `find_api_keys` returns."""
    return _CERTAIN_KEY.sub(lambda key: redact_secret(key[0]), text)


def hide_credentials(text: str) -> str:
    """Return `text`, such as a command line, with `NOT_SHOWN` in place of keys and passwords."""
    return _CREDENTIAL.sub(_hide_credential, text)


def _hide_credential(credential: re.Match[str]) -> str:
    shown_part = credential["before_token"] or credential["before_password"] or ""
    return f"{shown_part}{NOT_SHOWN}"


def looks_like_secret(text: str) -> bool:
    """Return True if a part of `text` may be a key or a password.

    It has many false positives, so only error messages use it.
    """
    return _POSSIBLE_SECRET.search(text) is not None

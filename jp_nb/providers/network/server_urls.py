"""Addresses of servers: join a base and a path, recognize local ones, and hide their secrets.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit

from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.config.secrets.secret_names import is_secret_name


def join_url(base: str, path: str) -> str:
    """Join `base` and `path`. `base` may end in the first segments of `path`.

    For example, `http://localhost/v1` and `/v1/models` are joined to `http://localhost/v1/models`.
    """
    base = base.rstrip("/")
    segments = path.strip("/").split("/")
    for count in range(len(segments), 0, -1):
        if base.endswith("/" + "/".join(segments[:count])):
            segments = segments[count:]
            break
    return "/".join([base, *segments])


def is_local(url: str) -> bool:
    """Return True if `url` is an address of this machine or of a private network."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:  # a name, such as `localhost` or `server.lan`
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


def redact_url(url: str) -> str:
    """Return an http or https `url` without user, password, and query values of secret names."""
    address, question_mark, query = url.partition("?")
    shown_query = "&".join(map(_redact_parameter, query.split("&")))

    scheme, slashes, host_and_path = address.partition("://")
    user_and_host, slash, path = host_and_path.partition("/")
    user, at, host = user_and_host.rpartition("@")
    shown_user = NOT_SHOWN if user else ""

    return f"{scheme}{slashes}{shown_user}{at}{host}{slash}{path}{question_mark}{shown_query}"


def _redact_parameter(parameter: str) -> str:
    """Return a parameter of a query, such as `key=abc`, without the value of a secret."""
    name, _, value = parameter.partition("=")
    is_secret = bool(value) and is_secret_name(unquote(name))
    return f"{name}={NOT_SHOWN}" if is_secret else parameter

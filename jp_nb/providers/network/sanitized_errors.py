"""Remove the key from an error of a provider and from its causes, and add advice for the user.

An error may quote a server that has sent the key back. Also, the frames of its traceback belong to
the HTTP library, whose local variables contain the header with the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jp_nb.errors import ProviderError
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.network.error_advice import format_advice


def sanitize_provider_error(
    error: ProviderError, endpoint: Endpoint, hide: Callable[[str], str]
) -> ProviderError:
    """Return `error`, which is changed: it has no key, no traceback, and advice in its message.

    All exceptions that led to it are changed as well. `hide` removes the key from a text.
    """
    for exception in iter_causes(error):
        exception.__traceback__ = None
        exception.args = tuple(_hide_argument(arg, hide) for arg in exception.args)

    if advice := format_advice(error, endpoint):
        error.args = (f"{str(error).rstrip('. ')}. {advice}.",)
    error.address = endpoint.url  # lets `error` leave the address out where it must not be shown
    return error


def iter_causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield `exc`, and all exceptions that led to it or are grouped in it."""
    waiting: list[BaseException] = [exc]
    seen: set[int] = set()

    while waiting:
        exception = waiting.pop()
        if id(exception) in seen:
            continue
        seen.add(id(exception))
        yield exception

        causes = (exception.__cause__, exception.__context__)
        waiting += [cause for cause in causes if cause is not None]
        if isinstance(exception, BaseExceptionGroup):
            waiting += exception.exceptions


def _hide_argument(arg: object, hide: Callable[[str], str]) -> object:
    """Return an argument of an exception, or its text without the key if that contains it."""
    text = arg if isinstance(arg, str) else repr(arg)
    shown = hide(text)
    return arg if shown == text else shown

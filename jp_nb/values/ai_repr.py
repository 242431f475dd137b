"""Descriptions by `_ai_repr_`, a method that a class may have, also one of a library.

The method returns a text, or data by MIME type, and may be `async`.

Source: `docs/values.md`, https://github.com/jupyter/enhancement-proposals/pull/129.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.daemon_threads import start_thread
from jp_nb.image_headers import MEDIA_TYPES, PDF
from jp_nb.images import Image
from jp_nb.values.base import Description, ValueBudget
from jp_nb.values.class_facts import find_method, name_type
from jp_nb.values.cut_text import to_one_line
from jp_nb.values.registered_describers import convert_image

AI_REPR: Final = "_ai_repr_"
AI_REPR_SECONDS: Final = 10.0
"""Time limit for an `async` `_ai_repr_`."""
_TEXTS: Final = ("text/markdown", "text/plain", "text/html", "application/json")
"""Kinds of texts in a MIME bundle. The first that it has is used."""


def has_ai_repr(value: object) -> bool:
    """Return True if the type of `value` has a method `_ai_repr_`."""
    return _is_method(find_method(value, AI_REPR))


def _is_method(member: object) -> bool:
    return callable(member) or isinstance(member, classmethod | staticmethod)


def call_ai_repr(value: object, budget: ValueBudget) -> Description | None:
    """Return the description by the method `_ai_repr_` of the type of `value`, or None."""
    method = find_method(value, AI_REPR)
    if not _is_method(method):
        return None
    if hasattr(type(method), "__get__"):  # bind it, as an access by the instance does
        method = method.__get__(value, type(value))

    # Keyword arguments for the method. The proposal has no fixed set, so a method may accept only
    # some of them.
    hints: dict[str, object] = {"multimodal": budget.images > 0, "max_chars": budget.chars}
    parameters = inspect.signature(method).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not takes_all:
        hints = {name: hint for name, hint in hints.items() if name in parameters}

    result = method(**hints)
    if inspect.isawaitable(result):
        result = _wait_for(result)
    return _read_bundle(result)


def _wait_for(awaitable: Any) -> object:
    """Return the result of `awaitable`, within the time limit.

    It runs in another thread, because this one, the cell's, already runs an event loop.
    """

    async def wait() -> object:
        return await asyncio.wait_for(awaitable, AI_REPR_SECONDS)

    try:
        return start_thread(lambda: asyncio.run(wait()), AI_REPR).result(AI_REPR_SECONDS + 1)
    except TimeoutError:
        raise TimeoutError(f"no answer within {AI_REPR_SECONDS:g} s") from None


def _read_bundle(bundle: Any) -> Description | None:
    """Return the description in the result of `_ai_repr_`: a text, or data by MIME type."""
    if isinstance(bundle, tuple) and bundle and isinstance(bundle[0], Mapping):
        bundle = bundle[0]  # IPython allows a tuple of data and metadata

    if bundle is None:
        return None
    if isinstance(bundle, str):
        return Description(bundle)
    if not isinstance(bundle, Mapping):
        raise TypeError(f"it returned {name_type(type(bundle))}: expected a MIME bundle (a dict)")

    kinds = [kind for kind in MEDIA_TYPES if kind in bundle]
    if not kinds and PDF in bundle:  # beside an image, it is another form of it
        kinds = [PDF]
    images = tuple(_read_image(bundle[kind]) for kind in kinds)
    text = next((bundle[kind] for kind in _TEXTS if kind in bundle), None)

    if text is None and not images:
        listed = to_one_line(", ".join(map(str, list(bundle)[:5])), 100) or "none"
        raise TypeError(f"its MIME bundle has no text, image, or PDF (kinds: {listed})")

    if text is not None and not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    return Description(text or "", images)


def _read_image(content: Any) -> Image:
    if isinstance(content, str):
        try:
            content = base64.b64decode(content, validate=False)
        except ValueError as exc:
            raise TypeError("its image is not Base64") from exc
    return convert_image(content)

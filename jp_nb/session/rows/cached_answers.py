"""Read answers from the cache file, unless they no longer fit the schema.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import JsonValue

from jp_nb.json_values import compact_json, encode_utf8
from jp_nb.session.rows.completion_cache import CompletionCache, read_cached_usage
from jp_nb.session.rows.completions import Completion
from jp_nb.session.turns.structured import AnswerForm
from jp_nb.toolkit.arguments.misfits import list_misfits

log = logging.getLogger(__name__)


def find_cached(cache: CompletionCache, key: str, form: AnswerForm | None) -> Completion | None:
    """Return the answer with this `key`; None if there is none, or if it does not fit the form."""
    stored = cache.find(key)
    return None if stored is None else _read_cached(stored, form)


def _read_cached(stored: dict[str, Any], form: AnswerForm | None) -> Completion | None:
    """Return the answer of a stored line; None if it does not fit the form."""
    model = str(stored.get("model", ""))
    usage = read_cached_usage(stored.get("usage"))

    if form is None:
        text = stored.get("text")
        if not isinstance(text, str):
            return None
        return Completion(text, usage=usage, model=model, cached=True)

    if "json" not in stored:
        return None
    data: JsonValue = stored["json"]
    if list_misfits(data, form.schema):
        return None
    value: Any = data
    if form.type is not None:
        try:
            value = form.type.validate_json(encode_utf8(compact_json(data)))
        except Exception:  # a validator is the user's code; the model is asked again
            log.debug("a cached answer does not fit its type", exc_info=True)
            return None
    return Completion(compact_json(data), value, data, usage, model, cached=True)

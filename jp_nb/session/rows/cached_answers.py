"""Find the answers to prompts in the cache file, unless they no longer fit the schema.

The key of an answer is the digest of all that it depends on: the prompt, the model, its settings,
and the schema. So a changed prompt or setting asks the model again.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict
from typing import Any

from pydantic import JsonValue

from jp_nb.json_writing import compact_json, sorted_json
from jp_nb.record.entries.token_usage import USAGE_FIELDS, Usage
from jp_nb.session.rows.completion_cache import CompletionCache
from jp_nb.session.rows.completions import Completion
from jp_nb.session.rows.single_completion import CompletionTask, RowPrompt
from jp_nb.session.turns.structured import AnswerForm
from jp_nb.storable_json import encode_utf8
from jp_nb.toolkit.arguments.misfits import list_misfits

log = logging.getLogger(__name__)


def make_cache_key(task: CompletionTask, prompt: RowPrompt) -> str:
    """Return the digest of everything that the answer depends on."""
    model = task.model
    parameters = json.dumps(asdict(model.parameters), default=str)
    basis: dict[str, JsonValue] = {
        "model": model.full_name,
        "system": list(model.system),
        "parameters": json.loads(parameters),
        "schema": None if task.form is None else task.form.schema,
        "prompt": prompt.text,
        "images": [image.digest for image in prompt.images],
    }
    return hashlib.sha256(encode_utf8(sorted_json(basis))).hexdigest()


def find_cached(cache: CompletionCache, key: str, form: AnswerForm | None) -> Completion | None:
    """Return the answer with this `key`; None if there is none, or if it does not fit the form."""
    stored = cache.find(key)
    return None if stored is None else _read_cached(stored, form)


def _read_cached(stored: dict[str, Any], form: AnswerForm | None) -> Completion | None:
    """Return the answer of a stored line; None if it does not fit the form."""
    model = str(stored.get("model", ""))
    usage = _read_usage(stored.get("usage"))

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
            # As JSON, a date may be a text, also in strict types.
            value = form.type.validate_json(encode_utf8(compact_json(data)))
        except Exception:  # a validator is the user's code; the model is asked again
            log.debug("a cached answer does not fit its type", exc_info=True)
            return None

    text = compact_json(data)
    return Completion(text, data=value, json=data, usage=usage, model=model, cached=True)


def _read_usage(stored: JsonValue) -> Usage:
    """Return the numbers of tokens of a stored line."""
    if not isinstance(stored, dict):
        return Usage()
    counts = {name: stored.get(name) for name in USAGE_FIELDS}
    return Usage(**{name: count for name, count in counts.items() if isinstance(count, int)})

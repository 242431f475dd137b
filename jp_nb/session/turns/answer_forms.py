"""The types of the structured answers of a session.

A request has only the JSON schema of its answer. The session remembers the type of each schema,
such as a pydantic model: `%jp retry` and `%jp resume` make a value of the same type.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.json_writing import canonical_json

if TYPE_CHECKING:  # most turns have no schema
    from jp_nb.session.turns.answer_reader import AnswerReader
    from jp_nb.session.turns.structured import AnswerForm

MAX_ANSWER_FORMS: Final = 20
"""Maximum number of types of structured answers that are remembered, for `%jp retry`."""


class AnswerForms:
    """Remembers the type of each schema, so that an answer becomes a value of it."""

    def __init__(self) -> None:
        self._forms: dict[str, AnswerForm] = {}  # by schema; the last one was used last

    def read_schema(self, schema: object, namespace: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return the JSON schema of `schema`, and remember its type for the answer."""
        from jp_nb.session.turns.structured import read_answer_form

        form = read_answer_form(schema, namespace)
        key = canonical_json(form.schema)
        self._forms.pop(key, None)
        self._forms[key] = form

        if len(self._forms) > MAX_ANSWER_FORMS:
            oldest = next(iter(self._forms))
            del self._forms[oldest]
        return form.schema

    def make_reader(self, schema: Mapping[str, JsonValue]) -> AnswerReader:
        """Return the reader of an answer that has to fit `schema`, or its type if it is known."""
        from jp_nb.session.turns.answer_reader import AnswerReader
        from jp_nb.session.turns.structured import AnswerForm

        known = self._forms.get(canonical_json(schema))
        return AnswerReader(known or AnswerForm(dict(schema)))

"""Hides secret answers that tools repeat in what is stored, shown and sent to models.

Source: `docs/record.md`, which lets a result repeat a secret; here it
does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from threading import Lock
from typing import Any
from urllib.parse import quote, quote_plus

from pydantic import JsonValue

from jp_nb.config.secret_names import SECRET_ANSWER, SHORTEST
from jp_nb.image import Image
from jp_nb.tooling.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.tooling.question import FormAnswer, Question

SHORTEST_LINE = 8
"""Characters of a line that is hidden without the others of its secret."""
MAY_NOT_BE_STORED = "it contains the answer to a secret question, which must not be stored"
MAY_NOT_BE_OFFERED = "The tool put a secret into a required part of a question: {}"


class Secrets:
    """The secret answers of a session; in memory alone. Safe from every thread."""

    def __init__(self) -> None:
        self._texts: tuple[str, ...] = ()  # longest first
        self._adding = Lock()

    def add(self, answer: JsonValue) -> None:
        """Hide `answer` from now on, also where it is quoted as JSON, Python or a URL does."""
        if not isinstance(answer, str):
            return
        lines = [line.strip() for line in answer.splitlines()]
        plain = {text for text in (answer, answer.strip()) if len(text.strip()) >= SHORTEST}
        plain |= {line for line in lines if len(line) >= SHORTEST_LINE}
        # Twice: a program's traceback, which quotes it, is sent on as JSON.
        once = {text for each in plain for text in _quoted(each)}
        twice = {text for each in once for text in _quoted(each)}
        with self._adding:
            known = {*self._texts, *plain, *once, *twice}
            self._texts = tuple(sorted(known, key=len, reverse=True))

    def answered(self, question: Question, answer: JsonValue) -> None:
        """Hide `answer` from now on, if `question` says that it is secret."""
        for secret in question.answer_type.secrets(answer):
            self.add(secret)

    def hide(self, text: str) -> str:
        """Return `text` with `(secret)` in place of each secret."""
        for secret in self._texts:
            text = text.replace(secret, SECRET_ANSWER)
        return text

    def hide_in(self, outcome: Outcome) -> Outcome:
        """Return `outcome` without secrets; a configuration change that holds one is malformed."""
        if not self._texts:
            return outcome
        match outcome:
            case Success(content=content, config=config, unset=unset, malformed=malformed):
                hidden: dict[str, Any] = {"content": self.hide(content)}
                hidden |= self._dropped(outcome.structured)
                hidden["images"] = tuple(map(self._hide_in_name, outcome.images))
                if self._is_in([config, *unset]):
                    hidden |= {"config": None, "unset": (), "malformed": MAY_NOT_BE_STORED}
                elif malformed is not None:
                    hidden["malformed"] = self.hide(malformed)
                return outcome.model_copy(update=hidden)
            case Failure(message=message, trace=trace):
                hidden = {"message": self.hide(message), "trace": tuple(map(self.hide, trace))}
                hidden |= self._dropped(outcome.structured)
                return outcome.model_copy(update=hidden)
            case NeedsInput(questions=questions):
                for question in questions:
                    if self._is_in([question.id, *question.answer_type.verbatim()]):
                        return Failure(MAY_NOT_BE_OFFERED.format(self.hide(question.text)))
                shown = tuple(map(self.hide_in_question, questions))
                return outcome.model_copy(update={"questions": shown})

    def _hide_in_name(self, image: Image) -> Image:
        """Return `image` without secrets in its name; what its pixels show, nobody looks at."""
        return replace(image, name=self.hide(image.name))

    def _dropped(self, structured: JsonValue) -> dict[str, Any]:
        """Return what takes the place of `structured`, if it holds a secret: nothing."""
        return {"structured": None} if self._is_in(structured) else {}

    def hide_in_question(self, question: Question) -> Question:
        """Return `question` as it may be shown; what it is answered with stays as it is."""
        if not self._texts:
            return question
        return self._without_default(question.reworded(self.hide))

    def _without_default(self, question: Question) -> Question:
        """Return `question`, and its fields, without a default that holds a secret."""
        kind = question.answer_type
        if isinstance(kind, FormAnswer):
            fields = tuple(map(self._without_default, kind.fields))
            kind = kind.model_copy(update={"fields": fields})
        default = None if self._is_in(question.default) else question.default
        return question.model_copy(update={"answer_type": kind, "default": default})

    def _is_in(self, value: Any) -> bool:
        """Return True if some text, key or number in `value` holds a secret."""
        if isinstance(value, dict):
            return any(self._is_in(key) or self._is_in(each) for key, each in value.items())
        if isinstance(value, (list, tuple)):
            return any(self._is_in(each) for each in value)
        if value is None or isinstance(value, bool):
            return False
        return self.hide(str(value)) != str(value)


def _quoted(text: str) -> Iterator[str]:
    """Yield `text` as it stands in JSON, in what Python shows, and in URLs."""
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    shown = repr(text)[1:-1].replace("\\'", "'")
    for each in (shown, ascii(text)[1:-1].replace("\\'", "'")):
        yield each
        yield each.replace("'", "\\'")
    encoded = text.encode(errors="replace")
    yield repr(encoded)[2:-1]
    yield quote(encoded, safe="")
    yield quote_plus(encoded)

"""Secret answers that tools repeat: what comes of a tool is stored, shown and sent to models.

Source: `spec/conversation-stream.md` section 4.8, which lets a result repeat a secret; here it
does not.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import JsonValue

from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success
from jp_nb.tools.question import Question, SelectAnswer

HIDDEN = "(secret)"
SHORTEST = 4
"""Characters. Whatever is shorter is in every text, and no secret."""
MAY_NOT_BE_STORED = "it holds an answer to a secret question, which may not be stored"


class Secrets:
    """The secret answers of a turn."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def add(self, answer: JsonValue) -> None:
        """Hide `answer` from now on."""
        if isinstance(answer, str) and len(answer) >= SHORTEST:
            escaped = {json.dumps(answer, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)}
            self._texts |= {answer, repr(answer)[1:-1], *escaped}

    def hide(self, text: str) -> str:
        """`text` with `(secret)` in place of each secret."""
        for secret in sorted(self._texts, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def hide_in(self, outcome: Outcome) -> Outcome:
        """`outcome` without secrets; a configuration change that holds one is malformed."""
        if not self._texts:
            return outcome
        match outcome:
            case Success(content=content, config=config, unset=unset):
                hidden: dict[str, Any] = {"content": self.hide(content)}
                if self._walk([config, *unset]) != [config, *unset]:
                    hidden |= {"config": None, "unset": (), "malformed": MAY_NOT_BE_STORED}
                return outcome.model_copy(update=hidden)
            case Failure(message=message, trace=trace):
                lines = tuple(self.hide(line) for line in trace)
                return outcome.model_copy(update={"message": self.hide(message), "trace": lines})
            case NeedsInput(question=question):
                return outcome.model_copy(update={"question": self._hide_in_question(question)})

    def _hide_in_question(self, question: Question) -> Question:
        shown: dict[str, Any] = {
            "text": self.hide(question.text),
            "context": self._walk(question.context),
            "default": self._walk(question.default),
        }
        if isinstance(question.answer_type, SelectAnswer):
            options = tuple(self.hide(option) for option in question.answer_type.options)
            shown["answer_type"] = SelectAnswer(options=options)
        return question.model_copy(update=shown)

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide(key): self._walk(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._walk(each) for each in value]
        return value

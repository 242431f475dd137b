"""Overrides of the conversation's own assistant where a model answers a tool's question.

From the lowest up: `assistant`, `conversation.inquiry.assistant`, the table in
`conversation.tools.<tool>.questions.<id>.target`. They merge like layers, field by field: texts,
the model and limits replace, parameters merge by name, sections and instructions append.

Source: `docs/turns.md` (RFD 034), `docs/configuration.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.config.partial import Partial, merge
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.assistant_config import Assistant, AssistantOverrides, QuestionAssistant
from jp_nb.config.tree.compaction_config import SummaryConfig
from jp_nb.config.tree.model_config import Model, Request

PATH: Final = "conversation.inquiry.assistant.model"
RETRIES: Final = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}
"""Retries of a request that nobody watches, unless an override says otherwise."""


def target_path(tool: str, question_id: str) -> str:
    """The path of what a user says about who answers a question."""
    return f"conversation.tools.{tool}.questions.{question_id}.target"


def background_request() -> Request:
    """The limits of a request that nobody watches."""
    return Request(**RETRIES)


def for_inquiries(config: AppConfig) -> Assistant:
    """The assistant that answers questions without overrides of their own.

    A ceiling of 0 bytes means the conversation's here.
    """
    own = config.assistant
    quiet = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes = _changes(config.conversation.inquiry.assistant)
    request = changes.get("request")
    if isinstance(request, dict) and request.get("max_response_bytes") == 0:
        del request["max_response_bytes"]
    return _over(quiet, changes)


def for_question(base: Assistant, target: QuestionAssistant) -> Assistant:
    """The assistant that answers one question: what `target` sets, over `base`.

    A ceiling of 0 bytes means none here.
    """
    return _over(base, _changes(target))


def for_summary(config: AppConfig, summary: SummaryConfig) -> Assistant:
    """The assistant that sums up turns: the conversation's own, with the model that `summary` says.

    Parameters merge by name where it says no other model; another one has its own alone.
    """
    own = config.assistant
    quiet = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes: Partial = summary.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if summary.model.id is None:
        return _over(quiet, {"model": changes} if changes else {})
    return quiet.model_copy(update={"model": Model.model_validate(changes)})


def _changes(overrides: AssistantOverrides) -> Partial:
    """Return what is set. Never a tool choice: who answers a question calls no tool."""
    changes: Partial = overrides.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    changes.pop("tool_choice", None)
    return changes


def _over(assistant: Assistant, changes: Partial) -> Assistant:
    if not changes:
        return assistant
    below = {"assistant": assistant.model_dump(mode="json")}
    return Assistant.model_validate(merge(below, {"assistant": changes})["assistant"])

"""Build the assistants of background requests: inquiries and summaries.

The assistant of an inquiry is merged from three sources. Later ones have priority:

1. `assistant`
2. `conversation.inquiry.assistant`
3. the table `conversation.tools.<tool>.questions.<id>.target`

A later text, model, or limit replaces the earlier one. Parameters are merged by name. Sections and
instructions are appended.

Source: `docs/turns.md` (RFD 034), `docs/decisions.md` D91.
"""

from __future__ import annotations

from typing import Final

from jp_nb.config.partial import Partial, merge
from jp_nb.config.tree.app import AppConfig, SummaryConfig
from jp_nb.config.tree.assistant import Assistant, AssistantOverrides, QuestionAssistant
from jp_nb.config.tree.models import Model, Request

INQUIRY_MODEL_PATH: Final = "conversation.inquiry.assistant.model"
RETRIES: Final = {"max_retries": 3, "base_backoff_ms": 1000, "max_backoff_secs": 30}
"""Default retries of background requests: inquiries and summaries."""


def target_path(tool: str, question_id: str) -> str:
    """Return the path of the setting that selects who answers a question."""
    return f"conversation.tools.{tool}.questions.{question_id}.target"


def background_request() -> Request:
    """Return the retries and limits of background requests."""
    return Request(**RETRIES)


def build_inquiry_assistant(config: AppConfig) -> Assistant:
    """Return the assistant for questions that have no settings of their own.

    A `max_response_bytes` of 0 in the overrides inherits the limit of the conversation.
    """
    own = config.assistant
    base = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes = _dump_overrides(config.conversation.inquiry.assistant)
    request = changes.get("request")
    if isinstance(request, dict) and request.get("max_response_bytes") == 0:
        del request["max_response_bytes"]
    return _merge_overrides(base, changes)


def build_question_assistant(base: Assistant, target: QuestionAssistant) -> Assistant:
    """Return the assistant that answers one question: `base` with the settings of `target`.

    A `max_response_bytes` of 0 in `target` removes the limit.
    """
    return _merge_overrides(base, _dump_overrides(target))


def build_summary_assistant(config: AppConfig, summary: SummaryConfig) -> Assistant:
    """Return the assistant that summarizes turns.

    It is the assistant of the conversation with the model of `summary`. Another model does not
    inherit the parameters of the conversation's model.
    """
    own = config.assistant
    base = own.model_copy(update={"request": own.request.model_copy(update=RETRIES)})
    changes: Partial = summary.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if summary.model.id is None:
        return _merge_overrides(base, {"model": changes} if changes else {})
    return base.model_copy(update={"model": Model.model_validate(changes)})


def _dump_overrides(overrides: AssistantOverrides) -> Partial:
    changes: Partial = overrides.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    changes.pop("tool_choice", None)  # a model that answers a question calls no tool
    return changes


def _merge_overrides(assistant: Assistant, changes: Partial) -> Assistant:
    if not changes:
        return assistant
    below = {"assistant": assistant.model_dump(mode="json")}
    return Assistant.model_validate(merge(below, {"assistant": changes})["assistant"])

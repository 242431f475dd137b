"""Assistants of background requests: inquiries and summaries.

An *inquiry* is a question of a tool that a model answers. A summary is written by a model for a
compaction. An *assistant* has the settings of such a request: system prompt, model, and limits.

The assistant of an inquiry is merged from `assistant`, `conversation.inquiry.assistant`, and the
table `conversation.tools.<tool>.questions.<id>.target`. A later text, model, or limit replaces
the earlier one. Parameters are merged by name. Sections and instructions are appended (D91).

Source: `docs/configuration.md`, `docs/turns.md`.
"""

from __future__ import annotations

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.assistant_settings import Assistant, AssistantOverrides, QuestionAssistant
from jp_nb.config.tree.compaction_settings import SummaryConfig
from jp_nb.config.tree.model_settings import Model
from jp_nb.config.tree.request_settings import BACKGROUND_RETRIES


def build_inquiry_assistant(config: AppConfig) -> Assistant:
    """Return the assistant for questions without a table `target`."""
    changes = _dump_overrides(config.conversation.inquiry.assistant)
    request = changes.get("request")
    # In the settings for all inquiries, 0 inherits the limit of the conversation.
    if isinstance(request, dict) and request.get("max_response_bytes") == 0:
        del request["max_response_bytes"]

    return _merge_overrides(_with_background_retries(config.assistant), changes)


def build_question_assistant(base: Assistant, target: QuestionAssistant) -> Assistant:
    """Return the assistant for a question with settings of its own, the table `target`.

    `base` is the assistant of the other inquiries. In `target`, a limit of 0 removes the limit.
    """
    return _merge_overrides(base, _dump_overrides(target))


def build_summary_assistant(config: AppConfig, summary: SummaryConfig) -> Assistant:
    """Return the assistant of the conversation with the model of `summary`.

    Another model does not inherit the parameters of the conversation's model.
    """
    base = _with_background_retries(config.assistant)
    changes: Partial = summary.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)

    if summary.model.id is None:
        overrides: Partial = {"model": changes} if changes else {}
        return _merge_overrides(base, overrides)
    return base.model_copy(update={"model": Model.model_validate(changes)})


def _with_background_retries(own: Assistant) -> Assistant:
    """Return `own` with the retries of background requests in place of its own."""
    return own.model_copy(update={"request": own.request.model_copy(update=BACKGROUND_RETRIES)})


def _dump_overrides(overrides: AssistantOverrides) -> Partial:
    """Return the settings that `overrides` has set, as a table that can be merged."""
    changes: Partial = overrides.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    changes.pop("tool_choice", None)  # a model that answers a question calls no tool
    return changes


def _merge_overrides(assistant: Assistant, changes: Partial) -> Assistant:
    if not changes:
        return assistant

    # `merge_partials` finds the merge rule of each setting by its path from the root.
    below = {"assistant": assistant.model_dump(mode="json")}
    return Assistant.model_validate(merge_partials(below, {"assistant": changes})["assistant"])

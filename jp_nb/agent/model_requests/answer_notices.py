"""Notices to the user about a response of the model: an incomplete end, or omitted parts.

An answer that reaches the token limit is continued by further requests. An `Attempt` is the last of
these requests with its response, and the `ContinuedAnswer` is all of them.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from jp_nb.agent.model_requests.answer_attempt import CALLS_SETTING, Attempt
from jp_nb.agent.model_requests.continued_answer import ContinuedAnswer
from jp_nb.agent.provider_events import OmittedFiles, PrefixLoss, PromptCut
from jp_nb.record.entries.events import Entry, is_reasoning

MAX_NAMED_FILES: Final = 5
"""Number of files that a notice about omitted files names."""


def describe_report(report: PrefixLoss | PromptCut | OmittedFiles) -> str:
    """Return the notice about a problem of the request that the provider reports."""
    match report:
        case PrefixLoss():
            return (
                f"⚠ Only {report.kept} % of the previous request is at the beginning of this one: "
                f"{report.part} changed. The provider's prompt cache does not cover the rest, see "
                "`%jp request --diff`."
            )
        case PromptCut():
            return (
                f"⚠ The server read only {report.read:,} tokens of a request with at least "
                f"{report.sent:,}: its context is too small, and it cut the rest. {report.advice}"
            )
        case OmittedFiles():
            return _describe_omitted_files(report)
        case _:
            assert_never(report)


def _describe_omitted_files(omitted: OmittedFiles) -> str:
    names = ", ".join(omitted.names[:MAX_NAMED_FILES])
    more = len(omitted.names) - MAX_NAMED_FILES
    if more > 0:
        names = f"{names}, and {more} more"

    notice = f"⚠ The model does not get {names}: {omitted.reason}."
    return f"{notice} {omitted.advice}".strip()


def list_end_notices(
    attempt: Attempt, answer: ContinuedAnswer, entries: Sequence[Entry]
) -> list[str]:
    """Return the notices at the end of `answer`.

    Args:
        attempt: Its last response, or its only one.
        answer: The whole answer.
        entries: The recorded entries of the last response.
    """
    return list(_iter_end_notices(attempt, answer, entries))


def _iter_end_notices(
    attempt: Attempt, answer: ContinuedAnswer, entries: Sequence[Entry]
) -> Iterator[str]:
    finished = attempt.builder.finished
    assert finished is not None  # the response is complete

    # The provider did not report the end of these calls, so they are not recorded.
    unfinished_calls = attempt.builder.list_unfinished_calls()
    incomplete_calls = [*unfinished_calls]

    # This one is recorded, but the token limit was reached within its arguments.
    truncated_call = attempt.find_truncated_call()
    if truncated_call is not None:
        incomplete_calls.append(truncated_call)
    for name in incomplete_calls:
        yield f"⚠ The call of {name} is incomplete and did not run"

    if 0 < attempt.max_tool_calls < attempt.call_count:  # 0 is no limit
        yield (
            f"⚠ Only the first {attempt.max_tool_calls} of {attempt.call_count} tool calls "
            f"in this answer run ({CALLS_SETTING})"
        )

    if finished.reason == "max_tokens":
        count = answer.continuation_count + 1
        times = f" {count} times" if count > 1 else ""
        yield f"⚠ The answer reached the token limit{times} and is incomplete"
    elif finished.reason == "other":
        reason = finished.detail or "no reason given"
        yield f"⚠ The model stopped: {reason}"

    # Reasoning alone is no answer. Of a continued answer, earlier responses have the text.
    has_output = not all(is_reasoning(entry) for entry in entries)
    is_empty = not (has_output or unfinished_calls or answer.continuation_count)
    if finished.reason == "completed" and is_empty:
        yield "⚠ The model returned an empty answer. `%jp retry` sends the request again"

"""Ask a model one prompt outside of a conversation, and read its answer.

Source: `docs/rows.md`, `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.agent.model_requests.answer_retries import MISFIT_MESSAGE
from jp_nb.agent.model_requests.chat_model import ChatModel
from jp_nb.agent.model_requests.complete_responses import request_once
from jp_nb.agent.model_requests.retries import compute_backoff, with_retries
from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import Retry
from jp_nb.errors import AnswerError, ProviderError
from jp_nb.images import Image
from jp_nb.json_writing import compact_json
from jp_nb.record.entries.events import ChatRequest, ChatResponse, Entry
from jp_nb.record.entries.token_usage import Usage
from jp_nb.record.reading.marks import make_schema_retry
from jp_nb.record.reading.turn_view import UNTYPED
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.session.rows.completions import Completion
from jp_nb.session.rows.request_pace import RequestPace
from jp_nb.session.turns.answer_reader import AnswerReader
from jp_nb.session.turns.structured import AnswerForm
from jp_nb.toolkit.arguments.misfits import excerpt

CountUsage = Callable[[str, Usage], None]
"""Receives the model and the tokens of each attempt."""


@dataclass(frozen=True, slots=True)
class RowPrompt:
    """A text for the model, and images or PDFs for it."""

    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionTask:
    """A model and how to ask it.

    Attributes:
        model: The model, with its provider, instructions, and parameters.
        pace: The pace of all requests to this provider, which it waits for.
        form: Form of a structured answer; None for text.
        conversation_id: The same for prompts whose requests begin alike, for the provider's cache.
        max_concurrent: Requests to this provider that may run at once.
        has_cassette: True if a cassette records the requests, or answers them.
    """

    model: ChatModel
    pace: RequestPace
    form: AnswerForm | None = None
    conversation_id: str = ""
    max_concurrent: float = float("inf")
    has_cassette: bool = False

    def make_request(self, prompt: RowPrompt) -> ModelRequest:
        """Return the request with `prompt` as its only message."""
        chat_request = ChatRequest(content=prompt.text)
        item = ContextItem(chat_request, self.model.provider_name, prompt.images)
        schema = None if self.form is None else self.form.schema
        return self.model.make_request(
            RequestContext([item]), schema=schema, conversation_id=self.conversation_id
        )


async def request_completion(
    task: CompletionTask, prompt: RowPrompt, count: CountUsage
) -> Completion:
    """Return the model's answer to `prompt`. `count` receives the tokens of each attempt.

    A structured answer that does not fit its schema goes back to the model, as in a turn.

    Raises:
        ProviderError: The requests failed, or the model refused to answer (`RefusalError`).
        AnswerError: A structured answer is missing or does not fit.
    """
    model = task.model
    name = model.full_name
    used = Usage()

    def add_usage(usage: Usage) -> None:
        nonlocal used
        used += usage
        count(name, usage)

    request = task.make_request(prompt)
    if task.form is None:
        entries = await _request_entries(task, request, add_usage)
        return Completion(_join_texts(entries), usage=used, model=name)

    reader = AnswerReader(task.form)
    retry_count = 0
    while True:
        entries = await _request_entries(task, request, add_usage)
        problems = reader.check(entries)
        if reader.is_valid:
            return _make_structured(reader, entries, used, name)

        # Without problems, a validator failed, which the model cannot repair.
        if not problems or retry_count >= model.request.max_schema_retries:
            raise _make_answer_error(reader, entries, problems)

        retry_count += 1
        _append_retry(request, entries, problems, model.provider_name)


def _append_retry(
    request: ModelRequest, entries: Sequence[Entry], problems: Sequence[str], provider: str
) -> None:
    """Append the answer and its problems to the messages of `request`."""
    for answer in _list_answers(entries):
        request.context.items.append(ContextItem(answer, provider))

    listed = "\n".join(f"- {problem}" for problem in problems)
    message = make_schema_retry(MISFIT_MESSAGE.format(listed))
    request.context.items.append(ContextItem(message, provider))


def read_completion(task: CompletionTask, entries: Sequence[Entry], usage: Usage) -> Completion:
    """Return the answer that the `entries` of a response contain.

    Raises:
        AnswerError: A structured answer is missing or does not fit.
    """
    name = task.model.full_name
    if task.form is None:
        return Completion(_join_texts(entries), usage=usage, model=name)

    reader = AnswerReader(task.form)
    problems = reader.check(entries)
    if not reader.is_valid:
        raise _make_answer_error(reader, entries, problems)
    return _make_structured(reader, entries, usage, name)


def _make_structured(
    reader: AnswerReader, entries: Sequence[Entry], usage: Usage, model: str
) -> Completion:
    data = _find_data(entries)
    value = data if reader.value is UNTYPED else reader.value
    return Completion(compact_json(data), value, data, usage, model)


async def _request_entries(
    task: CompletionTask, request: ModelRequest, add: Callable[[Usage], None]
) -> list[Entry]:
    """Return the response to `request`, at the pace of the provider and with retries."""
    model = task.model

    async def attempt() -> list[Entry] | Retry:
        async with task.pace.running(task.max_concurrent):
            try:
                return await request_once(model.provider, request, add)
            except ProviderError as exc:
                if exc.kind == "rate_limit":
                    task.pace.hold(compute_backoff(model.request, 1, exc.retry_after))
                raise

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    if model.is_replayed:
        sleep = _continue_at_once
    return await with_retries(
        attempt, model=model.full_name, limits=model.request, waits=_show_nothing, sleep=sleep
    )


def _show_nothing(model: str, *, again: str = "", until: float | None = None) -> None:
    """Show no wait: the progress of all rows shows it."""


async def _continue_at_once(seconds: float) -> None:
    """Do not wait: a recorded response takes no time."""


def _list_answers(entries: Sequence[Entry]) -> list[ChatResponse]:
    return [entry for entry in entries if isinstance(entry, ChatResponse)]


def _join_texts(entries: Sequence[Entry]) -> str:
    texts = [entry.message for entry in _list_answers(entries) if entry.kind == "message"]
    return "\n\n".join(text for text in texts if text)


def _find_data(entries: Sequence[Entry]) -> JsonValue:
    """Return the last structured answer."""
    return [entry.data for entry in _list_answers(entries) if entry.kind == "structured"][-1]


def _make_answer_error(
    reader: AnswerReader, entries: Sequence[Entry], problems: Sequence[str]
) -> AnswerError:
    """Return the error about a structured answer that is missing, or does not fit."""
    answers = [entry.data for entry in _list_answers(entries) if entry.kind == "structured"]
    text = _join_texts(entries)

    if reader.failure is not None:
        failure = reader.failure
        reason = f"a validator of the schema failed: {type(failure).__name__}: {failure}"
    elif not answers:
        reason = "the model gave no structured answer"
        if text.strip():
            reason += f"; its text is {excerpt(text)}"
    else:
        reason = f"the answer does not fit the schema: {problems[0]}. It is {excerpt(answers[-1])}"

    data = answers[-1] if answers else None
    error = AnswerError(reason, data=data, text=text)
    error.__cause__ = reader.failure
    return error

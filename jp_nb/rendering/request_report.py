"""A request to a model as a person reads it: where it goes, what is in it, how much that is.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_events import Attachment, SentRequest
from jp_nb.agent.token_estimate import attachment_tokens, text_tokens, tool_tokens
from jp_nb.image import MEDIA_TYPES, Image, amount
from jp_nb.rendering.markdown import code_block
from jp_nb.rendering.report import Report, joined, table
from jp_nb.rendering.traced_request import Message, TracedRequest, parameters_in_words
from jp_nb.safe_text import escape_markdown, escape_unseen, one_line, plain

MAX_TEXT: Final = 160
"""Characters of a text, unless all of it is wanted."""
MAX_ROWS: Final = 40
"""Of system texts, attachments and tools, likewise."""
MESSAGE_COLUMNS: Final = ("#", "role", "content", "tokens")
FIRST: Final = 3
LAST: Final = 12
"""So many messages are shown at either end, likewise."""


def request_report(traced: TracedRequest, *, full: bool = False) -> Report:
    """Show `traced`; `full`: every message, every text whole."""
    parts = [
        line_report(f"request {traced.name} · {traced.model} · {traced.remarks[0]}", strong=True),
        table(("item", "value"), list(_facts(traced)), limit=2_000),
        *_system(traced, full=full),
        *_attachments(traced, full=full),
        *_tools(traced, full=full),
        *_messages(traced, full=full),
        line_report(tokens_in_words(traced)),
    ]
    if not full and _is_cut(traced):
        how = f"Show the full texts: `%jp request {traced.name} --full`"
        parts.append(Report(how, how))
    return joined(parts, between="\n\n")


def tokens_in_words(traced: TracedRequest) -> str:
    """Return how many tokens a model reads in `traced`, and in each part of it."""
    total = sum(traced.estimated.values())
    parts = ", ".join(f"{part} {count:,}" for part, count in traced.estimated.items() if count)
    words = f"estimated: about {total:,} tokens" + (f" ({parts})" if parts else "")
    if traced.measured is None:
        return words
    return f"{words}; the provider counted {traced.measured:,}"


# --- where it goes ---------------------------------------------------------------------------


def _facts(traced: TracedRequest) -> Iterator[tuple[str, str]]:
    sent = traced.sent
    for remark in traced.remarks[1:]:
        yield "note", remark
    yield "sent to", f"{sent.method} {sent.url}" if sent.method else sent.url
    if sent.key is not None:
        yield "key", key_in_words(sent)
    for name, value in sent.headers.items():
        yield name, value
    yield "body", f"{len(sent.body):,} bytes"
    if not sent.is_exact:
        yield "hidden", "secrets were replaced by placeholders"
    for name, parameter in traced.parameters.items():
        yield name, as_json(parameter)
    yield "tool choice", traced.shown.tool_choice
    if traced.shown.schema is not None:
        yield "response schema", as_json(dict(traced.shown.schema))
    for line in sent.left_out:
        yield "not sent", line


def key_in_words(sent: SentRequest) -> str:
    """Return where the key of `sent` goes, and where it comes from."""
    key = sent.key
    if key is None:
        return "none"
    state = "" if key.is_set else ", which is not set"
    return f"{key.header}: {key.before}(the variable {key.variable}{state})"


def as_json(value: JsonValue) -> str:
    """Return `value` as JSON in which every character is seen."""
    return escape_unseen(json.dumps(value, ensure_ascii=False))


# --- what is in it ---------------------------------------------------------------------------


def _system(traced: TracedRequest, *, full: bool) -> Iterator[Report]:
    texts = traced.shown.system
    if not texts:
        return
    yield _heading("system", len(texts), "text", traced.estimated["system"])
    if full:
        yield from (_whole(str(number), text) for number, text in enumerate(texts, start=1))
        return
    rows = [(str(n), bounded(text), f"{text_tokens(text):,}") for n, text in enumerate(texts, 1)]
    yield _rows(("#", "text", "tokens"), rows)


def _attachments(traced: TracedRequest, *, full: bool) -> Iterator[Report]:
    attachments = traced.shown.attachments
    if not attachments:
        return
    yield _heading("attachments", len(attachments), "file", traced.estimated["attachments"])
    if full:
        for each in attachments:
            text = each.content if isinstance(each.content, str) else attachment_in_words(each)
            yield _whole(each.source, text)
        return
    rows = [
        (each.source, attachment_in_words(each), _count(attachment_tokens(each)))
        for each in attachments
    ]
    yield _rows(("source", "content", "tokens"), rows)


def attachment_in_words(attachment: Attachment) -> str:
    """Return what `attachment` is: its text, or its kind and size, never its bytes."""
    if isinstance(attachment.content, str):
        return bounded(attachment.content)
    if attachment.media_type in MEDIA_TYPES:
        return f"[image: {Image(attachment.media_type, attachment.content).words_with_size}]"
    return f"[file {attachment.media_type} {amount(len(attachment.content))}]"


def _count(tokens: int) -> str:
    return f"{tokens:,}" if tokens else "not estimated"


def _tools(traced: TracedRequest, *, full: bool) -> Iterator[Report]:
    tools = traced.shown.tools
    if not tools:
        return
    yield _heading("tools", len(tools), "tool", traced.estimated["tools"])
    if full:
        for tool in tools:
            schema = as_json(dict(tool.parameters))
            yield _whole(tool.name, f"{tool.description}\n\n{schema}")
        return
    rows = [
        (
            tool.name,
            bounded(tool.description.strip().partition("\n")[0]),
            ", ".join(parameters_in_words(tool.parameters)) or "-",
            f"{tool_tokens(tool):,}",
        )
        for tool in tools
    ]
    yield _rows(("tool", "description", "parameters", "tokens"), rows)


def _messages(traced: TracedRequest, *, full: bool) -> Iterator[Report]:
    messages = traced.messages
    if not messages:
        yield line_report("no messages yet")
        return
    yield _heading("messages", len(messages), "message", traced.estimated["messages"])
    if full:
        for number, message in enumerate(messages, start=1):
            yield _whole(f"{number} · {message.role}", message.text)
        return
    yield _rows(MESSAGE_COLUMNS, list(_ends(messages)), limit=None)


def _ends(messages: Sequence[Message]) -> Iterator[tuple[str, str, str, str]]:
    left = len(messages) - FIRST - LAST
    for number, message in enumerate(messages, start=1):
        if left > 1 and FIRST < number <= FIRST + left:
            if number == FIRST + 1:
                tokens = sum(each.tokens for each in messages[FIRST : FIRST + left])
                yield "…", "…", f"… {left:,} messages not shown", f"{tokens:,}"
            continue
        yield message_row(number, message)


def message_row(number: int, message: Message) -> tuple[str, str, str, str]:
    """Return `message` as a row: its number, who, what, and its tokens."""
    return str(number), message.role, bounded(message.text) or "(empty)", f"{message.tokens:,}"


def _is_cut(traced: TracedRequest) -> bool:
    """Return True if something is left out unless all is wanted."""
    request = traced.shown
    texts = [*request.system, *(each.text for each in traced.messages)]
    texts += [each.content for each in request.attachments if isinstance(each.content, str)]
    return (
        any(len(text) > MAX_TEXT or "\n" in text for text in texts)
        or len(traced.messages) > FIRST + LAST + 1
        or bool(request.tools)
    )


# --- how it looks ----------------------------------------------------------------------------


def bounded(text: str, limit: int = MAX_TEXT) -> str:
    """Return the beginning of `text`, and how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _rows(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, limit: int | None = MAX_ROWS
) -> Report:
    if limit is not None and len(rows) > limit:
        more = ("…", f"… and {len(rows) - limit:,} more", *[""] * len(head))
        rows = [*rows[:limit], more[: len(head)]]
    return table(head, rows, limit=MAX_TEXT + 40)


def _heading(title: str, count: int, word: str, tokens: int) -> Report:
    many = f"{count:,} {word}{'' if count == 1 else 's'}"
    return line_report(f"{title}: {many}, about {tokens:,} tokens", strong=True)


def line_report(text: str, *, strong: bool = False) -> Report:
    """Show `text` in one line."""
    line = one_line(text, limit=1_000)
    shown = escape_markdown(line)
    return Report(f"**{shown}**" if strong else f"*{shown}*", line)


def _whole(title: str, text: str) -> Report:
    """Show `text` with all its lines, under `title`; no line of it passes for one of ours."""
    heading = line_report(title)
    return Report(f"{heading.markdown}\n\n{code_block(text)}", f"{heading.text}\n{inset(text)}")


def inset(text: str) -> str:
    """Return `text` made plain, farther in than anything of ours."""
    return "\n".join(f"    {line}" for line in plain(text).splitlines())


def lines_report(lines: Iterable[str], language: str) -> Report:
    """Show `lines` as a block of code."""
    text = "\n".join(lines)
    return Report(code_block(text, language), inset(text))

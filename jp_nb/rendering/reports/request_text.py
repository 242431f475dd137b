"""Report of one request to a model: `%jp request`.

The report has the facts of the request, and the system texts, attachments, tools, and messages. The
short form has the beginning of each text, the full form (`--full`) has all of it.

`TracedRequest.sent` has the request as it is sent, without the key: address, headers, and body.
`shown` has its texts, and the system texts, attachments, and tools in front of the messages. Those
that changed in the conversation may be sent as messages too, and are then among `messages`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.provider import SentRequest
from jp_nb.agent.token_estimates import (
    estimate_attachment_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from jp_nb.exact_form import escape_invisible
from jp_nb.json_values import as_object
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_block,
    make_heading,
    make_note,
    make_remark,
    make_table,
)
from jp_nb.rendering.reports.traced_request import MessageRow, TracedRequest, describe_file
from jp_nb.text import pluralize

MAX_MESSAGE_CHARS: Final = 160
"""Limit of characters of a text in the short report."""
MAX_SECTION_ROWS: Final = 40
"""Limit of system texts, of attachments, and of tools in the short report."""
MESSAGE_COLUMNS: Final = ("#", "role", "content", "tokens")
FIRST_MESSAGES: Final = 3
LAST_MESSAGES: Final = 12
"""Numbers of the first and the last messages that the short report shows."""


def render_request(traced: TracedRequest, *, full: bool = False) -> Report:
    """Return a report of `traced`. With `full`, it has all messages and full texts."""
    parts: list[Report | str] = [
        make_heading(f"request {traced.name} · {traced.model} · {traced.how_sent}"),
        make_table(("item", "value"), list(_list_facts(traced)), limit=2_000),
        *_list_content(traced, full=full),
        make_remark(format_token_estimate(traced)),
    ]
    if not full and _is_cut(traced):
        parts.append(f"Show the full texts: `%jp request {traced.name} --full`")

    return join_reports(parts, between="\n\n")


def render_token_count(traced: TracedRequest, count: int) -> Report:
    """Return the number of tokens that the server has counted for `traced`, and the estimate."""
    estimate = sum(traced.estimated_tokens.values())
    counted = f"The next request to `{traced.model}` has {count:,} input tokens."
    return make_note(
        f"{counted} The server has counted them, with a short placeholder for your next message. "
        f"The estimate of jp_nb is {estimate:,}: `%jp request next` shows its parts."
    )


def format_token_estimate(traced: TracedRequest) -> str:
    """Return the estimated tokens of the parts of `traced`, and the count that was reported."""
    counts = traced.estimated_tokens
    total = sum(counts.values())
    words = f"estimated: about {total:,} tokens"
    if parts := ", ".join(f"{part} {count:,}" for part, count in counts.items() if count):
        words = f"{words} ({parts})"

    if traced.reported_tokens is None:
        return words

    return f"{words}; the provider counted {traced.reported_tokens:,}"


def _list_facts(traced: TracedRequest) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of facts: address, key, headers, parameters, and schema."""
    # The first remark is `how_sent`, which is in the heading.
    for remark in traced.remarks[1:]:
        yield "note", remark

    sent = traced.sent
    address = f"{sent.method} {sent.url}" if sent.method else sent.url
    yield "sent to", address
    if sent.key is not None:
        yield "key", describe_key(sent)
    yield from sent.headers.items()

    yield "body", f"{len(sent.body):,} bytes"
    if not sent.is_exact:
        yield "hidden", "secrets were replaced by placeholders"
    for name, parameter in traced.parameters.items():
        yield name, _format_escaped_json(parameter)

    yield "tool choice", traced.shown.tool_choice
    if traced.shown.schema is not None:
        yield "response schema", _format_escaped_json(dict(traced.shown.schema))
    for line in sent.omitted:  # a setting, with the reason
        yield "not sent", line


def describe_key(sent: SentRequest) -> str:
    """Return the header and the source of the key: `authorization: Bearer (the variable API_KEY)`.

    The `before` of the key is the text before it in the header, such as `Bearer `.
    """
    key = sent.key
    if key is None:
        return "none"

    state = "" if key.is_set else ", which is not set"
    return f"{key.header}: {key.before}(the variable {key.variable}{state})"


def _format_escaped_json(value: JsonValue) -> str:
    return escape_invisible(json.dumps(value, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class _Section:
    """The texts of one part of a request.

    Attributes:
        part: The name of the part, as in `TracedRequest.estimated_tokens`.
        noun: The word for one of the texts.
        texts: Title and full text of each.
        columns: The heads of the table in the short report.
        rows: Its rows, one for each text.
    """

    part: str
    noun: str
    texts: list[tuple[str, str]]
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def _list_content(traced: TracedRequest, *, full: bool) -> Iterator[Report]:
    """Yield a heading for each part of the request, and its texts, or a table of short ones."""
    for section in (
        _read_system(traced),
        _read_attachments(traced),
        _read_tools(traced),
        _read_messages(traced),
    ):
        count = len(section.texts)
        if count:
            many = f"{count:,} {pluralize(section.noun, count)}"
            tokens = traced.estimated_tokens[section.part]
            yield make_heading(f"{section.part}: {many}, about {tokens:,} tokens")
        elif section.part == "messages":
            yield make_remark("no messages yet")

        if full:
            for title, text in section.texts:
                yield join_reports([make_remark(title), make_block(text)])
        elif section.rows:
            yield _make_short_table(section)


def _make_short_table(section: _Section) -> Report:
    rows = list(section.rows[:MAX_SECTION_ROWS])
    more = len(section.rows) - len(rows)
    if more:
        last_row = ("…", f"… and {more:,} more", "", "")
        rows.append(last_row[: len(section.columns)])

    # A cut text also has the number of its other characters (`shorten`).
    return make_table(section.columns, rows, limit=MAX_MESSAGE_CHARS + 40)


def _read_system(traced: TracedRequest) -> _Section:
    texts = [(str(number), text) for number, text in enumerate(traced.shown.system, start=1)]
    rows = [(number, shorten(text), f"{estimate_text_tokens(text):,}") for number, text in texts]
    return _Section("system", "text", texts, ("#", "text", "tokens"), rows)


def _read_attachments(traced: TracedRequest) -> _Section:
    texts = []
    rows = []
    for attachment in traced.shown.attachments:
        content = describe_file(attachment)
        texts.append((attachment.source, content))

        tokens = estimate_attachment_tokens(attachment)
        estimate = f"{tokens:,}" if tokens else "not estimated"
        rows.append((attachment.source, shorten(content), estimate))

    return _Section("attachments", "file", texts, ("source", "content", "tokens"), rows)


def _read_tools(traced: TracedRequest) -> _Section:
    texts = []
    rows = []
    for tool in traced.shown.tools:
        schema = _format_escaped_json(dict(tool.parameters))
        texts.append((tool.name, f"{tool.description}\n\n{schema}"))

        short = shorten(tool.description.strip().partition("\n")[0])
        parameters = ", ".join(_format_parameters(tool.parameters)) or "-"
        rows.append((tool.name, short, parameters, f"{estimate_tool_tokens(tool):,}"))

    return _Section("tools", "tool", texts, ("tool", "description", "parameters", "tokens"), rows)


def _format_parameters(schema: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the parameters, such as `city: string` or `days?: integer`."""
    listed = schema.get("required")
    required: Sequence[JsonValue] = listed if isinstance(listed, list) else ()

    for name, node in as_object(schema.get("properties")).items():
        kind = as_object(node).get("type")
        if not isinstance(kind, str):
            kind = "any"
        mark = "" if name in required else "?"
        yield f"{name}{mark}: {kind}"


def _read_messages(traced: TracedRequest) -> _Section:
    numbered = list(enumerate(traced.messages, start=1))
    texts = [(f"{number} · {message.role}", message.text) for number, message in numbered]
    rows = [format_message_row(number, message) for number, message in numbered]

    hidden_count = len(rows) - FIRST_MESSAGES - LAST_MESSAGES
    if hidden_count > 1:  # a line about one message would be as long
        hidden = slice(FIRST_MESSAGES, FIRST_MESSAGES + hidden_count)
        tokens = sum(message.tokens for message in traced.messages[hidden])
        rows[hidden] = [("…", "…", f"… {hidden_count:,} messages not shown", f"{tokens:,}")]

    return _Section("messages", "message", texts, MESSAGE_COLUMNS, rows)


def format_message_row(number: int, message: MessageRow) -> tuple[str, str, str, str]:
    """Return the cells of `MESSAGE_COLUMNS` for a message."""
    return str(number), message.role, shorten(message.text) or "(empty)", f"{message.tokens:,}"


def _is_cut(traced: TracedRequest) -> bool:
    """Return True if the short report omits something that the full one has."""
    request = traced.shown
    texts = [*request.system, *(message.text for message in traced.messages)]
    for attachment in request.attachments:
        if isinstance(attachment.content, str):
            texts.append(attachment.content)

    return (
        any(len(text) > MAX_MESSAGE_CHARS or "\n" in text for text in texts)
        or len(traced.messages) > FIRST_MESSAGES + LAST_MESSAGES + 1
        or max(len(request.system), len(request.attachments)) > MAX_SECTION_ROWS
        or bool(request.tools)  # the short report has no schemas
    )


def shorten(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return the first `limit` characters of `text`, and the number of the others."""
    if len(text) <= limit:
        return text

    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"

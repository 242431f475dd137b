"""Reports of requests to a model, and their curl commands.

Tokens are estimated: four bytes of text are one token, and the size of an image gives its tokens.
The count that the model reported is shown beside the estimate, if the record has it.

Source: `docs/guide.md`, https://docs.anthropic.com/en/docs/build-with-claude/vision,
https://curl.se/docs/manpage.html.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.provider import (
    AppendedChange,
    Attachment,
    ModelRequest,
    SentRequest,
    ToolDefinition,
    compare_parts,
)
from jp_nb.agent.token_estimates import (
    estimate_attachment_tokens,
    estimate_image_tokens,
    estimate_text_tokens,
    estimate_tool_tokens,
)
from jp_nb.config.schema import mask_secrets
from jp_nb.errors import UsageError
from jp_nb.images import MEDIA_TYPES, Image, format_bytes
from jp_nb.json_values import as_object, compact_json
from jp_nb.record.context import ContextItem
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.token_usage import read_usage
from jp_nb.rendering.report import (
    Report,
    join_reports,
    make_block,
    make_heading,
    make_note,
    make_remark,
    make_table,
)
from jp_nb.rendering.text_diff import compare_values, count_equal
from jp_nb.text import escape_invisible, one_line, pluralize

_CONTENT_KEYS: Final = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "attachments", "response_schema"}
    | {"response_format", "output_config"}
)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of a request: role, content with descriptions of images, and estimated tokens.

    `images` are the digests of its images.
    """

    role: str
    text: str
    tokens: int
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedRequest:
    """A request and its known details.

    Attributes:
        name: `3.1` or `next`.
        remarks: First, whether it was sent in this form; then its differences and other notes.
        answer: Metadata of the entries of the response.
    """

    name: str
    provider: str
    request: ModelRequest
    sent: SentRequest
    remarks: tuple[str, ...]
    answer: tuple[Mapping[str, JsonValue], ...] = ()

    @property
    def model(self) -> str:
        """The model's name as it is configured: `provider/name`."""
        return f"{self.provider}/{self.shown.model}"

    @cached_property
    def body(self) -> dict[str, JsonValue]:
        """The request body, with secret parameters masked."""
        body: dict[str, JsonValue] = json.loads(self.sent.body)
        content = _CONTENT_KEYS | self.sent.members

        for key, value in body.items():
            if key not in content:
                body[key] = mask_secrets(value, (key,))

        return body

    @cached_property
    def parameters(self) -> dict[str, JsonValue]:
        """Members of the body other than messages, tools and schemas."""
        content = _CONTENT_KEYS | self.sent.members
        found = {key: value for key, value in self.body.items() if key not in content}

        output = self.body.get("output_config")
        if isinstance(output, dict) and "effort" in output:
            found["effort"] = output["effort"]

        return found

    @cached_property
    def asked(self) -> ModelRequest:
        """The request without the API key, except `thread`; `messages` has its texts."""
        request = self.request
        hide = self.sent.hide
        if hide is str:  # the default, which hides nothing
            return request

        schema = request.schema
        if schema is not None:
            schema = _hide_in_json(schema, hide)

        return replace(
            request,
            model=hide(request.model),
            system=tuple(map(hide, request.system)),
            attachments=tuple(_hide_in(each, hide) for each in request.attachments),
            tools=tuple(_hide_in_tool(each, hide) for each in request.tools),
            tool_choice=hide(request.tool_choice),
            schema=schema,
        )

    @cached_property
    def shown(self) -> ModelRequest:
        """`asked` with the system texts, tools, and attachments in front of the messages."""
        front = self.sent.front
        hide = self.sent.hide
        if front is None:
            return self.asked

        return replace(
            self.asked,
            system=tuple(map(hide, front.system)),
            attachments=tuple(_hide_in(each, hide) for each in front.attachments),
            tools=tuple(_hide_in_tool(each, hide) for each in front.tools),
        )

    @cached_property
    def messages(self) -> list[MessageRow]:
        """The messages, oldest first: one for each entry of the context and appended change."""
        names: dict[str, str] = {}
        changes = deque(self.sent.changes)
        messages: list[MessageRow] = []

        for index, item in enumerate(self.request.context):
            while changes and changes[0].items <= index:
                messages.append(self._make_change_row(changes.popleft()))
            messages.append(self._make_message_row(item, names))

        return [*messages, *map(self._make_change_row, changes)]

    def _make_change_row(self, change: AppendedChange) -> MessageRow:
        role = f"{change.part} (appended)"
        content = change.content
        hide = self.sent.hide
        if isinstance(content, str):
            return MessageRow(hide(role), hide(content), estimate_text_tokens(content))

        content = _hide_in(content, hide)
        return MessageRow(hide(role), _describe_file(content), estimate_attachment_tokens(content))

    def _make_message_row(self, item: ContextItem, names: dict[str, str]) -> MessageRow:
        entry = item.entry
        hide = self.sent.hide

        match entry:
            case ChatRequest():
                role = "user"
                text = entry.content
            case ToolCallRequest():
                names[entry.id] = entry.name
                role = f"assistant calls {entry.name}"
                text = compact_json(entry.arguments)
            case ToolCallResponse():
                kind = "error" if entry.is_error else "result"
                name = names.get(entry.id, "a call")
                role = f"{kind} of {name}"
                text = entry.content
            case ChatResponse(reasoning=str(text)):
                role = "assistant (reasoning)"
            case ChatResponse(message=str(text)):
                role = "assistant"
            case ChatResponse():
                role = "assistant (data)"
                text = compact_json(entry.data)

        text = hide(text)
        shown = [text] if text else []
        tokens = estimate_text_tokens(text)
        for image in item.images:
            shown.append(hide(f"[{image.noun}: {image.words_with_size}]"))
            tokens += estimate_image_tokens(image.size)

        digests = tuple(image.digest for image in item.images)
        return MessageRow(hide(role), " ".join(shown), tokens, digests)

    @cached_property
    def reported_tokens(self) -> int | None:
        """Input tokens counted by the provider; None if the record has no count.

        Failed attempts before the response are included.
        """
        responses = chain.from_iterable(map(read_usage, self.answer))
        reported = (used.tokens.input_tokens for used in responses)
        counts = [count for count in reported if count is not None]
        return sum(counts) if counts else None

    @cached_property
    def estimated_tokens(self) -> dict[str, int]:
        """Estimated number of tokens of each part."""
        shown = self.shown
        schema_tokens = 0
        if shown.schema is not None:
            schema_tokens = estimate_text_tokens(compact_json(shown.schema))

        return {
            "tools": sum(map(estimate_tool_tokens, shown.tools)),
            "system": sum(map(estimate_text_tokens, shown.system)),
            "attachments": sum(map(estimate_attachment_tokens, shown.attachments)),
            "messages": sum(message.tokens for message in self.messages),
            "schema": schema_tokens,
        }


def _hide_in(attachment: Attachment, hide: Callable[[str], str]) -> Attachment:
    content = attachment.content
    if isinstance(content, str):
        content = hide(content)

    return replace(attachment, source=hide(attachment.source), content=content)


def _hide_in_tool(tool: ToolDefinition, hide: Callable[[str], str]) -> ToolDefinition:
    parameters = _hide_in_json(tool.parameters, hide)
    return ToolDefinition(hide(tool.name), hide(tool.description), parameters)


def _hide_in_json(
    value: Mapping[str, JsonValue], hide: Callable[[str], str]
) -> dict[str, JsonValue]:
    hidden: dict[str, JsonValue] = json.loads(hide(json.dumps(dict(value), ensure_ascii=False)))
    return hidden


def _format_parameters(schema: Mapping[str, JsonValue]) -> Iterator[str]:
    # Such as `city: string` or `days?: integer`.
    required = schema.get("required")
    demanded: Sequence[JsonValue] = required if isinstance(required, list) else ()

    for name, node in as_object(schema.get("properties")).items():
        kind = as_object(node).get("type")
        if not isinstance(kind, str):
            kind = "any"
        mark = "" if name in demanded else "?"
        yield f"{name}{mark}: {kind}"


MAX_MESSAGE_CHARS: Final = 160
"""Limit of characters of a text in the short report."""
MAX_MESSAGE_ROWS: Final = 40
"""Limit of system texts, attachments and tools in the short report."""
MESSAGE_COLUMNS: Final = ("#", "role", "content", "tokens")
FIRST_MESSAGES: Final = 3
LAST_MESSAGES: Final = 12
"""Numbers of the first and the last messages that the short report shows."""


def render_request(traced: TracedRequest, *, full: bool = False) -> Report:
    """Return a report of `traced`. With `full`, it has all messages and full texts."""
    parts: list[Report | str] = [
        make_heading(f"request {traced.name} · {traced.model} · {traced.remarks[0]}"),
        make_table(("item", "value"), list(_list_facts(traced)), limit=2_000),
        *_list_content(traced, full=full),
        make_remark(_format_tokens(traced)),
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


def _format_tokens(traced: TracedRequest) -> str:
    counts = traced.estimated_tokens
    total = sum(counts.values())
    words = f"estimated: about {total:,} tokens"
    if parts := ", ".join(f"{part} {count:,}" for part, count in counts.items() if count):
        words = f"{words} ({parts})"

    if traced.reported_tokens is None:
        return words

    return f"{words}; the provider counted {traced.reported_tokens:,}"


def _list_facts(traced: TracedRequest) -> Iterator[tuple[str, str]]:
    sent = traced.sent
    yield from (("note", each) for each in traced.remarks[1:])

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
    for line in sent.omitted:
        yield "not sent", line


def describe_key(sent: SentRequest) -> str:
    """Return the header and the source of the key of `sent`."""
    key = sent.key
    if key is None:
        return "none"

    state = "" if key.is_set else ", which is not set"
    return f"{key.header}: {key.before}(the variable {key.variable}{state})"


def _format_escaped_json(value: JsonValue) -> str:
    return escape_invisible(json.dumps(value, ensure_ascii=False))


class _Section(NamedTuple):
    """Texts of one kind in a request: titles and full texts, and a table of short ones."""

    part: str
    word: str
    columns: tuple[str, ...]
    texts: list[tuple[str, str]]
    rows: Sequence[tuple[str, ...]]


def _list_content(traced: TracedRequest, *, full: bool) -> Iterator[Report]:
    for read in (_read_system, _read_attachments, _read_tools, _read_messages):
        part, noun, columns, texts, rows = read(traced)

        if texts:
            many = f"{len(texts):,} {pluralize(noun, len(texts))}"
            yield make_heading(f"{part}: {many}, about {traced.estimated_tokens[part]:,} tokens")
        elif read is _read_messages:
            yield make_remark("no messages yet")

        if full:
            for title, text in texts:
                yield join_reports([make_remark(title), make_block(text)])
        elif rows:
            more = ("…", f"… and {len(rows) - MAX_MESSAGE_ROWS:,} more", "", "")[: len(columns)]
            shown = [*rows[:MAX_MESSAGE_ROWS], more] if len(rows) > MAX_MESSAGE_ROWS else rows
            yield make_table(columns, shown, limit=MAX_MESSAGE_CHARS + 40)


def _read_system(traced: TracedRequest) -> _Section:
    texts = [(str(number), text) for number, text in enumerate(traced.shown.system, start=1)]
    rows = [(number, _shorten(text), f"{estimate_text_tokens(text):,}") for number, text in texts]
    return _Section("system", "text", ("#", "text", "tokens"), texts, rows)


def _read_attachments(traced: TracedRequest) -> _Section:
    texts = []
    rows = []
    for each in traced.shown.attachments:
        content = _describe_file(each)
        texts.append((each.source, content))

        tokens = estimate_attachment_tokens(each)
        estimate = f"{tokens:,}" if tokens else "not estimated"
        rows.append((each.source, _shorten(content), estimate))

    return _Section("attachments", "file", ("source", "content", "tokens"), texts, rows)


def _describe_file(attachment: Attachment) -> str:
    if isinstance(attachment.content, str):
        return attachment.content
    if attachment.media_type in MEDIA_TYPES:
        return f"[image: {Image(attachment.media_type, attachment.content).words_with_size}]"
    return f"[file {attachment.media_type} {format_bytes(len(attachment.content))}]"


def _read_tools(traced: TracedRequest) -> _Section:
    texts = []
    rows = []
    for tool in traced.shown.tools:
        schema = _format_escaped_json(dict(tool.parameters))
        texts.append((tool.name, f"{tool.description}\n\n{schema}"))

        short = _shorten(tool.description.strip().partition("\n")[0])
        parameters = ", ".join(_format_parameters(tool.parameters)) or "-"
        rows.append((tool.name, short, parameters, f"{estimate_tool_tokens(tool):,}"))

    return _Section("tools", "tool", ("tool", "description", "parameters", "tokens"), texts, rows)


def _read_messages(traced: TracedRequest) -> _Section:
    numbered = list(enumerate(traced.messages, start=1))
    texts = [(f"{number} · {message.role}", message.text) for number, message in numbered]
    rows = [_format_message_row(number, message) for number, message in numbered]

    left = len(rows) - FIRST_MESSAGES - LAST_MESSAGES
    if left > 1:
        hidden = slice(FIRST_MESSAGES, FIRST_MESSAGES + left)
        tokens = sum(each.tokens for each in traced.messages[hidden])
        rows[hidden] = [("…", "…", f"… {left:,} messages not shown", f"{tokens:,}")]

    return _Section("messages", "message", MESSAGE_COLUMNS, texts, rows)


def _format_message_row(number: int, message: MessageRow) -> tuple[str, str, str, str]:
    return str(number), message.role, _shorten(message.text) or "(empty)", f"{message.tokens:,}"


def _is_cut(traced: TracedRequest) -> bool:
    request = traced.shown
    texts = [*request.system, *(each.text for each in traced.messages)]
    texts += [each.content for each in request.attachments if isinstance(each.content, str)]

    return (
        any(len(text) > MAX_MESSAGE_CHARS or "\n" in text for text in texts)
        or len(traced.messages) > FIRST_MESSAGES + LAST_MESSAGES + 1
        or bool(request.tools)  # the short report has no schemas
    )


def _shorten(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    if len(text) <= limit:
        return text

    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


END_OF_BODY: Final = "END_OF_BODY"
NOT_EXACT: Final = "# Secrets were replaced by placeholders: insert them before you send it."
_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_HEADER_CHARS: Final = 2_000


def format_body(traced: TracedRequest) -> str:
    """Return the body as JSON in one line, with secrets masked and invisible characters escaped."""
    return escape_invisible(compact_json(traced.body))


def format_curl_command(traced: TracedRequest) -> str:
    """Return the command line that sends `traced` again.

    Raises:
        UsageError: The request is not sent over HTTP.
    """
    sent = traced.sent
    if not sent.method:
        raise UsageError(
            f"request {traced.name} is sent to {one_line(sent.url)}, not over HTTP: "
            "`%jp request --json` shows its content"
        )

    is_masked = compact_json(traced.body).encode("utf-8", "replace") != sent.body
    lines = [NOT_EXACT] if not sent.is_exact or is_masked else []
    lines.append(" \\\n  ".join(_list_curl_arguments(sent)))

    # JSON escapes line breaks, so the body cannot contain the end marker.
    return "\n".join([*lines, format_body(traced), END_OF_BODY])


def _list_curl_arguments(sent: SentRequest) -> Iterator[str]:
    # -g: curl must not expand brackets in the address.
    yield f"curl -gsSN -X {sent.method} {shlex.quote(one_line(sent.url, limit=_HEADER_CHARS))}"
    for name, value in sent.headers.items():
        header = one_line(f"{name}: {value}", limit=_HEADER_CHARS)
        yield f"-H {shlex.quote(header)}"

    if (key := sent.key) is not None:
        if not _VARIABLE.fullmatch(key.variable):
            raise UsageError(
                f"a shell cannot read the variable {one_line(key.variable, limit=60)!r}, which "
                "holds the API key: choose another name and set it in `api_key_env`"
            )
        # In double quotes, the shell replaces the variable with the key.
        yield f'-H "{key.header}: {key.before}${key.variable}"'

    yield f"--data-binary @- <<'{END_OF_BODY}'"


# --- two requests ----------------------------------------------------------------------


def render_request_difference(before: TracedRequest, after: TracedRequest) -> Report:
    """Report the differences between two requests, and their common prefix."""
    parts = [
        make_heading(f"request {before.name} → request {after.name}"),
        *_report_values(before, after),
        *_report_parts(before, after),
        *_report_messages(before, after),
    ]
    if len(parts) == 1:
        parts.append(make_remark("no differences"))

    parts.append(make_remark(describe_shared_prefix(before, after)))
    for each in (before, after):
        parts.append(make_remark(f"{each.name}: {_format_tokens(each)}; {each.remarks[0]}"))

    return join_reports(parts, between="\n\n")


def _report_values(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    is_same_form = before.sent.members == after.sent.members
    if not is_same_form:
        yield make_remark(
            "the bodies have different forms, so only their content is compared; see each with "
            f"`%jp request {before.name} --json` and `%jp request {after.name} --json`"
        )

    old = _list_values(before, is_same_form=is_same_form)
    new = _list_values(after, is_same_form=is_same_form)
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield from _report_change(key, old.get(key), new.get(key))

    then, now = _select_compared(before, after)
    if then.system != now.system:
        old_text = "\n\n".join(then.system) or None
        new_text = "\n\n".join(now.system) or None
        yield from _report_change("system", old_text, new_text)


def _list_values(traced: TracedRequest, *, is_same_form: bool) -> dict[str, JsonValue]:
    values: dict[str, JsonValue] = {"model": traced.model, "sent to": traced.sent.url}
    if is_same_form:
        values.update(traced.sent.headers)
        values.update(traced.parameters)

    schema = traced.shown.schema
    values["tool choice"] = traced.shown.tool_choice
    values["response schema"] = None if schema is None else dict(schema)
    return values


def _report_change(label: str, old: JsonValue, new: JsonValue) -> Iterator[Report]:
    about, lines = compare_values(label, old, new, limit=400)
    yield make_remark(about)
    if lines:
        yield make_block("\n".join(lines), "diff")


def _select_compared(
    before: TracedRequest, after: TracedRequest
) -> tuple[ModelRequest, ModelRequest]:
    # Bodies of one form append the same parts, which are among the messages.
    if before.sent.members == after.sent.members:
        return before.shown, after.shown

    return before.asked, after.asked


def _report_parts(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    then, now = _select_compared(before, after)
    yield from _report_members("attachment", _index_attachments(then), _index_attachments(now))

    old_tools = {tool.name: tool.to_json() for tool in then.tools}
    new_tools = {tool.name: tool.to_json() for tool in now.tools}
    yield from _report_members("tool", old_tools, new_tools)

    old_names = [tool.name for tool in then.tools]
    new_names = [tool.name for tool in now.tools]
    if old_names != new_names and sorted(old_names) == sorted(new_names):
        yield make_remark("tools: the same in another order")


def _index_attachments(request: ModelRequest) -> dict[str, JsonValue]:
    contents: dict[str, JsonValue] = {}
    for each in request.attachments:
        content = each.content
        if isinstance(content, str):
            contents[each.source] = content
        else:
            contents[each.source] = f"{each.media_type}, {format_bytes(len(content))}"

    return contents


def _report_members(
    label: str, old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]
) -> Iterator[Report]:
    removed = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    for word, names in (("removed", removed), ("added", added)):
        if names:
            listed = _shorten(", ".join(names), 1_000)
            yield make_remark(f"{label}s {word}: {listed}")

    for name, value in old.items():
        if name in new and value != new[name]:
            yield from _report_change(f"{label} {name}", value, new[name])


def _report_messages(before: TracedRequest, after: TracedRequest) -> Iterator[Report]:
    old = before.messages
    new = after.messages
    same = count_equal(old, new)
    if same == len(old) == len(new):
        return

    yield make_remark(
        f"messages: {same:,} identical, then {len(old) - same:,} in {before.name} and "
        f"{len(new) - same:,} in {after.name}"
    )

    for traced, messages in ((before, old), (after, new)):
        rest = messages[same : same + 10]  # from the first difference on
        rows = [_format_message_row(number, each) for number, each in enumerate(rest, same + 1)]
        if more := len(messages) - same - len(rest):
            rows.append(("…", "…", f"… and {more:,} more", ""))

        if rows:
            yield make_remark(f"from message {same + 1} on in {traced.name}:")
            yield make_table(MESSAGE_COLUMNS, rows)

    if same < min(len(old), len(new)) and old[same].role == new[same].role:
        yield from _report_change(f"message {same + 1}", old[same].text, new[same].text)


def describe_shared_prefix(before: TracedRequest, after: TracedRequest) -> str:
    """Return a line about the common prefix of two requests, which a prompt cache can serve."""
    begins = "shared prefix for a prompt cache:"
    if before.model != after.model:
        return f"{begins} none, because each model has its own cache"
    if not (before.sent.parts and after.sent.parts):
        return f"{begins} unknown, because this provider does not list the parts of its requests"

    shared = compare_parts(before.sent.parts, after.sent.parts)
    if not shared.part:
        return f"{begins} all of request {before.name}"

    kept = f"{shared.percent} % of request {before.name}; then" if shared.kept else "none;"
    return f"{begins} {kept} {shared.part} differs"

"""Provider that replays the replies of a script, without network or key.

A *script* is a file with prepared replies, for demonstrations and tests (`script_format.py`). The
replies are given in order. An entry of the record stores the number of its reply, so the script
continues at the right place in another kernel.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.compacting.summarizer import SUMMARY_KEY
from jp_nb.agent.inquiries.llm_inquiry import INQUIRY_KEY
from jp_nb.agent.model_info import ModelInfo, ModelList
from jp_nb.agent.provider import Attachment, ModelRequest, SentRequest
from jp_nb.agent.provider_events import Finished, ProviderEvent, TextPart
from jp_nb.config.tree.provider_settings import Scripted
from jp_nb.errors import ConfigError, ProviderError
from jp_nb.json_writing import compact_json
from jp_nb.providers.scripts.reply_events import make_inquiry_events, make_reply_events
from jp_nb.providers.scripts.script_files import ReadScript, list_scripts, load_script, read_script
from jp_nb.providers.scripts.script_format import SCRIPTED_NAME, Reply, Script
from jp_nb.record.entries.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.storable_json import encode_utf8

POSITION_KEY: Final = "scripted_reply"
"""Metadata key of an entry of a reply: `SCRIPT:NUMBER`, so that another kernel can continue."""
_EXCERPT: Final = 400
"""Maximum length of the quoted end of a request in an error."""


class ScriptedProvider:
    """Answers with the replies of a script, in order for each conversation.

    Without a `script` for all models, `MODEL.toml` is searched in `folders` and the package. `read`
    reads the files of the folders. If it refuses one, the search continues in the next folder, and
    at last in the package.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        folders: Sequence[Path] = (),
        read: ReadScript = read_script,
    ) -> None:
        self._script = script
        self._folders = folders
        self._read_file = read
        # The number of the last reply, by conversation and script. It counts replies that are an
        # error: these have no entry in the record.
        self._last_numbers: dict[tuple[str, str], int] = {}

    def get_script(self, model: str) -> Script:
        """Return the script of `model`, read again if the file has changed.

        Raises:
            ConfigError: The script is missing or malformed, or its file must not be used.
        """
        if self._script is not None:
            return self._script
        return load_script(model, self._folders, read=self._read_file)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """Stream the next reply; see `Provider`.

        Raises:
            ConfigError: The script is missing or malformed.
            ProviderError: No reply is left, the reply expects another request, or is an error.
        """
        script = self.get_script(request.model)

        # Metadata of the last request tells what it asks for, besides the next reply.
        last = request.context.items[-1].entry if len(request.context) else None
        metadata_of_request = last.metadata if isinstance(last, ChatRequest) else {}

        # The model answers a question of a tool.
        question = metadata_of_request.get(INQUIRY_KEY)
        if isinstance(question, str) and question:
            for event in make_inquiry_events(script, question, request):
                yield event
            return

        # The model summarizes the conversation.
        if script.summary is not None and SUMMARY_KEY in metadata_of_request:
            for event in make_reply_events(Reply(text=script.summary), 0, {}):
                yield event
            yield Finished()
            return

        number = self._find_reply(script, request)
        reply = script.replies[number - 1]
        _check_expected(reply, request, f"reply {number} of the script {script.name!r}")
        self._last_numbers[request.conversation_id, script.name] = number
        metadata: dict[str, JsonValue] = {POSITION_KEY: f"{script.name}:{number}"}

        for event in make_reply_events(reply, number, metadata, request.schema):
            if reply.chunk_ms is not None and isinstance(event, TextPart):
                await asyncio.sleep(reply.chunk_ms / 1000)
            yield event

        if reply.error is not None:
            raise reply.error.to_error()

        yield Finished(reply.finish)

    def _find_reply(self, script: Script, request: ModelRequest) -> int:
        """Return the number, from 1, of the next reply for the last entries of `request`.

        Raises:
            ProviderError: No reply is left.
        """
        latest = _format_latest(request.context)
        used = self._count_used(script, request)

        for number, reply in enumerate(script.replies[used:], start=used + 1):
            if all(text in latest for text in reply.when):
                return number

        raise ProviderError(
            f"the script {script.name!r} has no reply left (of "
            f"{len(script.replies)}) for this request: {_format_excerpt(latest)}. A "
            "script answers only its own notebook. Start again with `%jp new`, "
            "or choose a model with `%%jp -m`"
        )

    def _count_used(self, script: Script, request: ModelRequest) -> int:
        """Return how many replies of `script` come before those for `request`."""
        used = count_used_replies(request.context, script.name)
        if script.requests:  # each turn begins with the first reply
            begins_turn = isinstance(request.context.items[-1].entry, ChatRequest)
            return 0 if begins_turn else used

        return max(used, self._last_numbers.get((request.conversation_id, script.name), 0))

    def preview(self, request: ModelRequest) -> SentRequest:
        """Return the parts of the request that the script can use; see `Provider`."""
        body = {
            "model": request.model,
            "system": list(request.system),
            "attachments": [attachment.source for attachment in request.attachments],
            "messages": [
                {"type": item.entry.type, "text": _format_item(item)} for item in request.context
            ],
            "tools": [tool.name for tool in request.tools],
            "tool_choice": request.tool_choice,
            "response_schema": request.schema,
        }
        fields = {key: value for key, value in body.items() if value not in ([], None)}
        return SentRequest("", f"the script {request.model}", {}, encode_utf8(compact_json(fields)))

    @property
    def address(self) -> str:
        """The empty string, because nothing is sent; see `Provider`."""
        return ""

    def check_ready(self, model: str, text: str) -> None:
        """Raise if the script is missing, or does not answer the request.

        Raises:
            ConfigError: The script is missing, or its `requests` do not contain `text`.
        """
        script = self.get_script(model)
        if script.requests and not any(accepted in text for accepted in script.requests):
            raise ConfigError(
                f"No model is configured. `{SCRIPTED_NAME}/{model}` is a script that only "
                "answers the requests of the quickstart notebook.",
                kind="no_model",
            )

    async def count_tokens(self, request: ModelRequest, *, seconds: float) -> int:
        """Raise, because a script has no tokens; see `Provider`."""
        raise ProviderError(
            f"{SCRIPTED_NAME} does not count tokens: a script replaces the model. "
            "`%jp request next` shows an estimate."
        )

    async def models(self, *, seconds: float) -> ModelList:
        """List the scripts; see `Provider`."""
        names = list_scripts(self._folders) if self._script is None else [self._script.name]
        return ModelList(tuple(map(ModelInfo, names)))

    def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Accept every schema; see `Provider`."""

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""


def create(name: str, config: Scripted) -> ScriptedProvider:
    """Return the provider that searches the folders of `config` for scripts."""
    return ScriptedProvider(folders=[Path(folder) for folder in config.folders])


def count_used_replies(context: RequestContext, script: str) -> int:
    """Return the number of replies of `script` that `context` has used.

    Entries store the number of their reply. A response without a number, such as an interrupted
    one, counts as the next reply.
    """
    used = 0
    for is_response, items in groupby(context, key=_is_response):
        if not is_response:
            continue

        response = list(items)
        positions = [item.entry.metadata.get(POSITION_KEY) for item in response]
        names_and_numbers = [text.rpartition(":") for text in positions if isinstance(text, str)]

        numbers = [int(number) for name, _, number in names_and_numbers if name == script]
        if numbers:
            used = max(numbers)
        elif not names_and_numbers and response[0].provider == SCRIPTED_NAME:
            used += 1  # an interrupted reply; not one of another script, which has its numbers
    return used


def _is_response(item: ContextItem) -> bool:
    """Return True if the entry is part of a response of the model."""
    return isinstance(item.entry, ChatResponse | ToolCallRequest)


def _check_expected(reply: Reply, request: ModelRequest, name: str) -> None:
    """Raise unless `request` has the texts that the reply with this `name` expects."""
    if not reply.expect:
        return
    attached = (_format_attachment(attachment) for attachment in request.attachments)
    context = map(_format_item, request.context)
    sent = "\n".join([*request.system, *attached, *context])

    for text in reply.expect:
        if text not in sent:
            latest = _format_excerpt(_format_latest(request.context))
            raise ProviderError(
                f"{name} expects {text!r} in the request, but the request ends with: {latest}"
            )


def _format_latest(context: RequestContext) -> str:
    """Return the texts of the entries after the last response."""
    start = 0
    for position, item in enumerate(context):
        if _is_response(item):
            start = position + 1
    return "\n".join(map(_format_item, context.since(start)))


def _format_excerpt(text: str) -> str:
    if len(text) > _EXCERPT:
        text = f"{text[:_EXCERPT]}…"
    return repr(text)


def _format_attachment(attachment: Attachment) -> str:
    content = attachment.content
    return f"{attachment.source}\n{content}" if isinstance(content, str) else attachment.source


def _format_item(item: ContextItem) -> str:
    """Return the text of an entry, in which a script searches."""
    match item.entry:
        case ChatRequest() | ToolCallResponse() as entry:
            images = [f"[{image.noun}: {image.words}]" for image in item.images]
            return "\n".join([entry.content, *images])
        case ToolCallRequest() as entry:
            return f"{entry.name} {json.dumps(entry.arguments, ensure_ascii=False)}"
        case ChatResponse() as entry:
            text = entry.message if entry.message is not None else entry.reasoning
            return text if text is not None else json.dumps(entry.data, ensure_ascii=False)

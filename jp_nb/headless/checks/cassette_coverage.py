"""Find the requests of a notebook that its cassette lacks.

The requests of cells and of the record of a headless run must be on the cassette, but only a replay
shows that the cassette is complete.

A request begins with its *head*: the parts that are not messages, such as the system prompt and the
definitions of the tools (`RequestHead`). The record has the head of the first request, and its
later changes.

A cassette stores the *parts* of requests, such as a message or the definition of a tool, once each,
by their kind and id. The id is a digest of the content; that of a message also covers all messages
before it. `RequestNormalizer` makes the same parts of a request here, so a part is recorded if the
cassette has its kind and id. If one message differs, all later ones are missing: the first is
reported.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jp_nb.agent.model_requests.request_normalizer import RequestNormalizer
from jp_nb.agent.provider import ModelRequest
from jp_nb.errors import ConfigError, StorageError
from jp_nb.headless.checks.key_search import Finding, KeySearch
from jp_nb.headless.files import read_notebook
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.events import ChatRequest, ChatResponse, Compaction
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.request_context.head_marks import read_request_head
from jp_nb.record.request_context.request_head import RequestHead
from jp_nb.storage.cassettes.cassette_content import CassetteContent
from jp_nb.storage.cassettes.cassette_file import read_cassette
from jp_nb.text import one_line

MAGIC: Final = "%%jp"
EACH_OPTION: Final = "--each"
TOOL_PART: Final = "tool"
"""Kind of the parts of a cassette that are definitions of tools."""
NOTE: Final = "\n["
"""Start of the notes on images that follow a request (`record/entries/events.py`)."""
SKIP_TAG: Final = "skip-execution"  # tag of a cell that Jupyter's runners skip
VALUE_MARK: Final = "{{"  # start of a `{{name}}` that only a kernel can replace
MAX_PROVIDERS: Final = 8  # maximum number of providers whose messages are compared
RECORD_AGAIN: Final = "record it again (`jp-nb run NB --record`, `pytest --jp-record`)"


def check_up_to_date(notebook: Path, cassette: Path, keys: KeySearch) -> Iterator[Finding]:
    """Yield the requests of the notebook, and of its last headless run, that the cassette lacks.

    Yields no problem of one file alone: the other checks find these.
    """
    try:
        content = read_cassette(cassette)
        stored_notebook = read_notebook(notebook)
    except StorageError:
        return

    for number in _find_unrecorded_cells(stored_notebook.get("cells"), content):
        message = f"the request of this cell is not in {cassette.name}: {RECORD_AGAIN}"
        yield Finding(f"cells[{number}]", message)

    unrecorded = _find_unrecorded_request(stored_notebook.metadata, content)
    if unrecorded is not None:
        request = one_line(keys.hide(unrecorded), limit=100)
        message = f"a message after the request {request!r} of the last run is not in"
        yield Finding("metadata.jp", f"{message} {cassette.name}: {RECORD_AGAIN}")

    for name in _find_changed_tools(stored_notebook.metadata, content):
        tool = one_line(keys.hide(name), limit=100)
        message = f"the definition of the tool {tool} in the last request differs from those on"
        yield Finding("metadata.jp", f"{message} {cassette.name}: {RECORD_AGAIN}")


def _find_unrecorded_cells(cells: Any, content: CassetteContent) -> Iterator[int]:
    """Yield the positions of the cells with a request that is not on the cassette."""
    parts = [part.value for part in content.parts.values()]
    users = [part for part in parts if part.get("role") == "user"]
    recorded = sorted(str(part.get("text", "")).strip() for part in users)

    for number, cell in enumerate(cells if isinstance(cells, list) else []):
        text = _find_request(cell) if isinstance(cell, Mapping) else ""
        if text and VALUE_MARK not in text and not _is_recorded(text, recorded):
            yield number


def _find_changed_tools(metadata: Any, content: CassetteContent) -> list[str]:
    """Return the tools of the last request that have other definitions on the cassette.

    A tool of a server changes with the server, so nothing in the notebook shows it. A tool that the
    cassette does not name is no change: the user may have used it once in a live notebook.
    """
    try:
        stream = Document.load(carrier.read_carrier(metadata), clock=utc_now).conversation
    except StorageError:
        return []

    # Each entry may have changed the head: the last one is that of the last request.
    head: RequestHead | None = None
    for entry in stream.entries:
        head = read_request_head(entry, head)
    if head is None:
        return []

    # The id of a part is a digest of its content, so a changed definition has another id.
    request = ModelRequest("", RequestContext(), tools=head.tools)
    parts = RequestNormalizer("").normalize(request).tools
    unrecorded = [part for part in parts if (TOOL_PART, part.id) not in content.parts]

    tools = [part.value for (kind, _), part in content.parts.items() if kind == TOOL_PART]
    recorded_names = {tool.get("name") for tool in tools}

    names = [part.value.get("name") for part in unrecorded]
    return [str(name) for name in names if name in recorded_names]


def _find_request(cell: Any) -> str:
    """Return the request of a `%%jp` cell that a runner executes; "" for any other cell."""
    tags = cell.get("metadata", {}).get("tags")
    if isinstance(tags, list) and SKIP_TAG in tags:
        return ""
    if cell.get("cell_type") != "code" or not isinstance(source := cell.get("source"), str):
        return ""

    first_line, _, request = source.strip().partition("\n")
    words = first_line.split()
    options = [word.partition("=")[0] for word in words]  # `--each=rows` or `--each rows`
    if words[:1] != [MAGIC] or EACH_OPTION in options:  # the text of `--each` is a template
        return ""
    return request.strip()


def _is_recorded(text: str, recorded: list[str]) -> bool:
    """Return True if the sorted requests `recorded` have `text`, alone or with notes on images."""
    index = bisect_left(recorded, text)
    if index < len(recorded) and recorded[index] == text:
        return True

    beginning = text + NOTE
    index = bisect_left(recorded, beginning)
    return index < len(recorded) and recorded[index].startswith(beginning)


def _find_unrecorded_request(metadata: Any, content: CassetteContent) -> str | None:
    """Return the request of the first turn with a message that is not on the cassette.

    Returns None if there is none, or the record is damaged, compacted, or not of a headless run.
    """
    try:
        document = Document.load(carrier.read_carrier(metadata), clock=utc_now)
    except StorageError:
        return None

    stream = document.conversation
    is_headless = stream.properties.get("made") == "headless"
    if not is_headless or any(isinstance(entry, Compaction) for entry in stream.entries):
        return None

    # The provider at the beginning and after each change of the configuration, by the record alone:
    # no layers of settings are below it.
    try:
        providers = Projection(stream, below=lambda: ()).providers()
    except ConfigError:
        return None

    context = build_context(stream, providers)

    # Each item of the context is one message, which has another form for each provider. One form on
    # the cassette is enough.
    recorded: set[int] = set()  # indexes of items in `context`
    for name in list(dict.fromkeys(providers))[:MAX_PROVIDERS]:
        request = RequestNormalizer(name).normalize(ModelRequest(model="", context=context))
        for index, part in enumerate(request.messages):
            if (part.kind, part.id) in content.parts:
                recorded.add(index)

    for index, chat_request in _iter_sent(context):
        if index not in recorded:
            return chat_request.content
    return None


def _iter_sent(context: RequestContext) -> Iterator[tuple[int, ChatRequest]]:
    """Yield the index of each item that was sent, and the user's request to which it belongs."""
    items = [item.entry for item in context]
    while items and isinstance(items[-1], ChatResponse):
        items.pop()  # the last answer was not sent

    request: ChatRequest | None = None
    for index, entry in enumerate(items):
        if isinstance(entry, ChatRequest):
            request = entry
        if request is not None:
            yield index, request

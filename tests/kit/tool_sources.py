"""A source that discovers tools, as a server does, without a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.config.tree.tool_settings import ToolConfig
from jp_nb.errors import ToolSourceError
from jp_nb.session.resolution import resolver
from jp_nb.toolkit.base import Tool, ToolSource


@contextmanager
def discovered_source(*pages: str) -> Iterator[Any]:
    """Let sessions have the source `mcp.books` in the block, with a tool for each of the `pages`.

    The result has `happened`, the names of the operations so far, and `threads`, the names of their
    threads. If `failure` is set, the source does not start. If `is_required` is set, the turn then
    ends.
    """
    source = _Books(pages)
    with pytest.MonkeyPatch.context() as patch:
        sources = (*resolver.LOCAL_TOOL_SOURCES, source)
        patch.setattr(resolver, "LOCAL_TOOL_SOURCES", sources)
        yield source


class _Page(Tool):
    """A tool that returns its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema = {"type": "object", "properties": {"page": {"type": "integer"}}}

    async def run(
        self, arguments: Mapping[str, JsonValue], context: jp.ToolContext, cell: Any
    ) -> jp.Outcome:
        return jp.Success(f"{self.name}: page {arguments.get('page')}")


@dataclass(eq=False)
class _Books(ToolSource):
    pages: tuple[str, ...]
    failure: str = ""
    happened: list[str] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    name = "mcp.books"
    discovers = True

    def _note(self, operation: str) -> None:
        self.happened.append(operation)
        self.threads.add(threading.current_thread().name)

    async def start(self) -> None:
        self._note("start")
        if self.failure:
            raise ToolSourceError(self.failure)

    async def discover(self) -> Any:
        return {
            f"books__{page}": {
                "source": f"mcp.books.{page}",
                "toolset": "mcp.books",
                "description": f"How to {page}.",
            }
            for page in self.pages
        }

    def may_have(self, name: str) -> bool:
        return name.startswith("books__")

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        own = {name: (tool.source or "").rpartition(".")[2] for name, tool in wanted.items()}
        return {name: _Page(page) for name, page in own.items() if page in self.pages}

    async def close(self) -> None:
        self._note("close")

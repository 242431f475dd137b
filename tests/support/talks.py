"""Conversations with a loopback server, which another kernel can continue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import LoopbackServer, Reply
from tests.support.sessions import Notebook

MODELS = {  # and the dialect of the provider
    "anthropic": ("anthropic/claude-opus-5-5", ""),
    "chat": ("openai/gpt-4.1", "chat"),
    "responses": ("openai/gpt-6.2", "responses"),
    "llamacpp": ("llamacpp/m", ""),
    "interactions": ("google/gemini-3.8-flash", "interactions"),
    "generate": ("google/gemini-3.8-flash", "generate"),
}


@dataclass
class Talk:
    """A notebook whose model is on `server`. `reopen` reads it again, as another kernel does."""

    dialect: str
    folder: Path
    server: LoopbackServer
    stack: ExitStack
    settings: tuple[str, ...] = ()

    def open(self, stored: Any = None) -> Notebook:
        model, dialect = MODELS[self.dialect]
        settings = [
            f'[assistant.model]\nid = "{model}"',
            f"[providers.llm.{model.partition('/')[0]}]",
            f'base_url = "{self.server.url}"\napi_key_env = "PREFIX_KEY"',
            *([f'dialect = "{dialect}"'] if dialect else []),
            *self.settings,
        ]
        (self.folder / ".jp" / "config.toml").write_text("\n".join(settings))
        home = FakeHome(self.folder / "trip.ipynb", stored=stored)
        notebook = Notebook(self.folder, host=FakeHost(home=home))
        self.stack.callback(notebook.session.close)
        return notebook

    def reopen(self, notebook: Notebook) -> Notebook:
        stored = notebook.session.document.to_json()
        return self.open(json.loads(json.dumps(stored, sort_keys=True)))


@contextmanager
def open_talks(dialect: str, folder: Path) -> Iterator[Callable[..., Talk]]:
    """Yield a function that starts a server with these replies. The key is in PREFIX_KEY."""
    with ExitStack() as stack:

        def start(*replies: Reply | str) -> Talk:
            (folder / "notes.md").write_text("Notes of a trip.")
            server = stack.enter_context(LoopbackServer(list(replies)))
            return Talk(dialect, folder, server, stack)

        yield start

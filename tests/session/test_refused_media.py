"""A file that a server refuses is left out, so that the conversation stays usable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.images import figure, pdf, pdf_bytes
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall
from tests.support.prefixes import LISTS, notices_in
from tests.support.sessions import Notebook

MODELS = {  # and the dialect of the provider
    "anthropic": ("anthropic/claude-opus-5-5", ""),
    "chat": ("openai/gpt-4.1", "chat"),
    "responses": ("openai/gpt-6.2", "responses"),
    "interactions": ("google/gemini-3.8-flash", "interactions"),
    "generate": ("google/gemini-3.8-flash", "generate"),
}
BAD = pdf("bad", title="bad")
GOOD = pdf("good", title="good")
PLOT = figure("plot")
NEWER = figure("newer", shade=9)
VALUES = {"bad": BAD, "good": GOOD, "plot": PLOT, "newer": NEWER}
OMITTED = re.compile(r"\[PDF: [^\]]*, not sent: the server refused it[^\]]*\]")
UNNAMED = "A maximum of 100 PDF pages may be provided."


@pytest.fixture(autouse=True)
def tool() -> Iterator[None]:
    @jp.tool
    def report() -> jp.Image:
        """Return the report."""
        return BAD

    yield
    jp.remove_tool("report")


@dataclass
class Strict:
    """A server that refuses requests with one of the files, with `message`, and a status.

    `{place}` in the message is the place of the file in the request: a message, or with `{part}` a
    part of it.
    """

    refused: tuple[jp.Image, ...] = (BAD,)
    message: str = UNNAMED
    status: int = 400
    calls: int = 0
    received: list[Received] = field(default_factory=list)

    def __call__(self, request: Received) -> Reply | str:
        self.received.append(request)
        name = LISTS[request.protocol]
        for index, message in enumerate(request.body[name]):
            if any(image.text in json.dumps(message) for image in self.refused):
                parts = message.get("content", message.get("parts", ()))
                part = next(
                    (n for n, x in enumerate(parts) if self.refused[0].text in json.dumps(x)), 0
                )
                text = self.message.replace("{place}", f"{name}[{index}]")
                text = text.replace("{part}", f"{name}.{index}.content.{part}.parts.{part}.source")
                return Reply(status=self.status, message=text)
        if self.calls:
            self.calls -= 1
            return Reply(text="Hm.", tool_calls=(ToolCall("report", {}),))
        return "Fine."

    def take(self) -> list[str]:
        """Return the bodies that arrived since the last call."""
        bodies = [json.dumps(request.body, ensure_ascii=False) for request in self.received]
        self.received.clear()
        return bodies


Open = Callable[..., Notebook]


@pytest.fixture(params=MODELS)
def open_notebook(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Return a function that opens a notebook whose model is this server."""
    monkeypatch.setenv("REFUSED_KEY", "k-0123456789abcdef0123")
    model, dialect = MODELS[request.param]
    with ExitStack() as stack:

        def start(server: Strict, stored: Any = None) -> Notebook:
            loopback = stack.enter_context(LoopbackServer(server))
            lines = [
                f'[assistant.model]\nid = "{model}"',
                f"[providers.llm.{model.partition('/')[0]}]",
                f'base_url = "{loopback.url}"\napi_key_env = "REFUSED_KEY"',
                *([f'dialect = "{dialect}"'] if dialect else []),
            ]
            (folder / ".jp" / "config.toml").write_text("\n".join(lines))
            home = FakeHome(folder / "trip.ipynb", stored=stored)
            notebook = Notebook(folder, host=FakeHost(home=home))
            notebook.session.host.namespace.update(VALUES)
            stack.callback(notebook.session.close)
            return notebook

        yield start


def record_of(notebook: Notebook) -> Any:
    return json.loads(json.dumps(notebook.session.document.to_json(), sort_keys=True))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, UNNAMED),
        (400, "{place}.content: The PDF specified was not valid."),
        (413, "The document is too large"),
        (422, "invalid base64 in '{place}'"),
    ],
)
def test_refused_file_of_a_request_is_left_out(
    open_notebook: Open, status: int, message: str
) -> None:
    server = Strict(message=message, status=status)
    notebook = open_notebook(server)
    notebook.ask("See {{good}} and {{plot}}.")
    server.take()

    assert notebook.ask("Read {{bad}}.") == "Fine."
    refused, sent = server.take()
    assert BAD.text in refused
    assert BAD.text not in sent
    assert GOOD.text in sent
    assert PLOT.text in sent
    line = f"[PDF: {BAD.words}, not sent: the server refused it: "
    assert line in sent
    assert f"sent again without PDF ({BAD.words})" in notices_in(notebook)

    assert notebook.ask("And now?") == "Fine."
    (later,) = server.take()
    assert line in later
    assert f"{BAD.noun} ({BAD.words}): the server refused it" in notebook.jp("request")
    images = [event for event in record_of(notebook)["events"] if event["type"] == "image"]
    assert len(images) == 3  # the record keeps the file


UNSUPPORTED = {
    "llama.cpp": "image input is not supported - hint: if this is unexpected, you may need to "
    "provide the mmproj",
    "llama.cpp, earlier": "image input is not supported by this server",
    "llamafile": "The server was not compiled for multimodal or the model projector "
    "can't be loaded.",
    "Ollama": "Failed to create new sequence: failed to process inputs: this model is missing data "
    "required for image input",
    "a gateway": "This model doesn't support images",
}


@pytest.mark.parametrize("server_name", UNSUPPORTED)
@pytest.mark.parametrize("open_notebook", ["chat", "anthropic"], indirect=True)
def test_image_that_a_server_error_refuses_is_left_out(
    open_notebook: Open, server_name: str
) -> None:
    server = Strict(refused=(PLOT, NEWER), message=UNSUPPORTED[server_name], status=500)
    notebook = open_notebook(server)
    assert notebook.ask("See {{plot}}.") == "Fine."
    assert notebook.ask("And {{newer}}?") == "Fine."
    assert [PLOT.text in body for body in server.take()] == [True, False, False, False]
    assert PLOT.digest in json.dumps(record_of(notebook))


@pytest.mark.parametrize("open_notebook", ["chat", "anthropic"], indirect=True)
@pytest.mark.parametrize("message", ["the image service is overloaded", "internal error"])
def test_other_server_errors_are_retried_with_the_files(open_notebook: Open, message: str) -> None:
    server = Strict(refused=(PLOT,), message=message, status=500)
    notebook = open_notebook(server)
    notebook.jp("config assistant.request.max_retries=1 assistant.request.base_backoff_ms=1")
    with pytest.raises(jp.ProviderError):
        notebook.ask("See {{plot}}.")
    assert [PLOT.text in body for body in server.take()] == [True, True]


def test_refused_file_of_a_result_is_left_out(open_notebook: Open) -> None:
    server = Strict(calls=1)
    notebook = open_notebook(server)
    assert notebook.ask("Read the report.") == "Hm.\n\nFine."
    assert notebook.ask("And now?") == "Fine."
    assert [BAD.text in body for body in server.take()][-2:] == [False, False]


@pytest.mark.parametrize("turn", [0, 1])
def test_refused_attachment_is_left_out(open_notebook: Open, folder: Path, turn: int) -> None:
    (folder / "bad.pdf").write_bytes(BAD.content)
    (folder / "plot.png").write_bytes(PLOT.content)
    server = Strict()
    notebook = open_notebook(server)
    for _ in range(turn):
        notebook.ask("First.")
    server.take()
    attached = directive("attach", "plot.png"), directive("attach", "bad.pdf")
    assert notebook.ask("Read it.", *attached) == "Fine."
    assert notebook.ask("And now?") == "Fine."
    refused, *later = server.take()
    assert BAD.text in refused
    assert len(later) == 2
    for body in later:
        assert PLOT.text in body
        assert BAD.text not in body
        assert "not sent: the server refused it" in body
        assert "bad.pdf" in body


def test_reopened_notebook_learns_it_with_one_request(open_notebook: Open) -> None:
    server = Strict()
    notebook = open_notebook(server)
    notebook.ask("Read {{bad}}.")
    notebook.ask("See {{newer}}.")
    line = OMITTED.findall(server.take()[-1])
    again = open_notebook(server, record_of(notebook))
    assert again.ask("And now?") == "Fine."
    _, sent = server.take()
    assert NEWER.text in sent
    assert OMITTED.findall(sent) == line
    assert len(line) == 1


@pytest.mark.parametrize("bad", ["plot", "bad", "good"])
def test_named_part_is_left_out_alone(open_notebook: Open, bad: str) -> None:
    files = {name: VALUES[name] for name in ("plot", "bad", "good", "newer")}
    server = Strict(refused=(files[bad],), message="{part}: Could not process this file")
    notebook = open_notebook(server)
    assert notebook.ask("See {{plot}}, {{bad}}, {{good}}, and {{newer}}.") == "Fine."
    _, sent = server.take()
    assert [name for name, file in files.items() if file.text not in sent] == [bad]


def test_many_refused_files_take_few_requests(open_notebook: Open) -> None:
    plots = tuple(figure(f"plot {n}", shade=n) for n in range(30))
    server = Strict(refused=(plots[0],), message="This model does not take images.")
    notebook = open_notebook(server)
    notebook.session.host.namespace.update({f"plot{n}": plot for n, plot in enumerate(plots)})
    server.refused = ()
    for first in range(0, 30, 3):
        notebook.ask(" ".join(f"{{{{plot{n}}}}}" for n in range(first, first + 3)))
    server.take()
    server.refused = plots
    assert notebook.ask("And now?") == "Fine."
    assert len(server.take()) <= 6


def test_several_refused_files_are_found(open_notebook: Open) -> None:
    server = Strict(refused=(PLOT, BAD), message="Could not process the file.")
    notebook = open_notebook(server)
    notebook.ask("First.")
    server.take()
    assert notebook.ask("See {{plot}} and {{bad}}.") == "Fine."
    assert notebook.ask("And now?") == "Fine."
    assert len(server.take()) == 3


def test_files_that_had_no_part_in_an_error_stay(
    open_notebook: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Strict()
    notebook = open_notebook(server)
    notebook.ask("See {{good}}.")
    notebook.ask("See {{plot}}.")
    server.take()

    def refuse(request: Received) -> Reply:
        server.received.append(request)
        return Reply(status=400, message="the page of this organization is closed")

    with monkeypatch.context() as patch:
        patch.setattr(Strict, "__call__", lambda self, request: refuse(request))
        with pytest.raises(jp.ProviderError, match="organization is closed"):
            notebook.ask("Third.")
    assert len(server.take()) == 3  # without the PDF, without the image, and the last error
    assert notebook.ask("Fourth.") == "Fine."
    (sent,) = server.take()
    assert GOOD.text in sent
    assert PLOT.text in sent


def test_error_about_other_parts_leaves_files_alone(open_notebook: Open) -> None:
    server = Strict()
    notebook = open_notebook(server)
    notebook.ask("See {{good}}.")
    server.take()
    server.refused = (GOOD,)
    for message in (
        "Invalid schema for function 'read_file': `image_size` is not allowed",
        "the model is closed, see https://example.com/docs/page",
    ):
        server.message = message
        with pytest.raises(jp.ProviderError):
            notebook.ask("Second.")
        assert len(server.take()) == 1


@pytest.mark.parametrize("open_notebook", ["anthropic"], indirect=True)
@pytest.mark.parametrize("place", ["request", "result", "attachment"])
def test_pages_are_counted_before_a_pdf_is_sent(
    open_notebook: Open, folder: Path, place: str
) -> None:
    content = pdf_bytes(pages=601)
    long = pdf("long", pages=601)
    server = Strict(refused=())
    notebook = open_notebook(server)
    notebook.session.host.namespace["long"] = long
    if place == "attachment":
        (folder / "long.pdf").write_bytes(content)
        notebook.ask("Read it.", directive("attach", "long.pdf"))
    elif place == "request":
        notebook.ask("Read {{long}}.")
    else:
        server.calls = 1

        @jp.tool
        def report() -> jp.Image:
            """Return the report."""
            return long

        notebook.ask("Read the report.")
    sent = server.take()[-1]
    assert long.text not in sent
    assert "not sent: it has 601 pages, and a request to this model takes at most 600" in sent
    assert notebook.ask("And {{good}}?") == "Fine."
    assert GOOD.text in server.take()[-1]

"""No image is fetched by an answer, the log, the request or an exported page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import nbconvert
import pytest

from tests.kit.screens import display_event
from tests.kit.turn_screen import TurnScreen
from tests.support.browser import Lab
from tests.support.page_actions import LOAD
from tests.support.prompt_pages import Opened

FIRST_CELL = LOAD
END = "This is the end."


class CountingServer(ThreadingHTTPServer):
    """Notes the path of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        self.paths: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: CountingServer

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with serving() as counting:
        yield counting


@contextmanager
def serving() -> Iterator[CountingServer]:
    counting = CountingServer()
    Thread(target=counting.serve_forever, daemon=True).start()
    try:
        yield counting
    finally:
        counting.shutdown()
        counting.server_close()


def every_spelling(host: str) -> str:
    """Markdown that would fetch something of `host`, in each way that some reader knows."""
    url = f"http://{host}"
    fences = [
        f'{fence}\ngraph TD\nA@{{ img: "{url}/mermaid" }}\n</pre><img src={url}/pre>\n```'
        for fence in ("```mermaid", "``` mermaid x")
    ]
    return "\n\n".join(
        [
            f"![inline]({url}/inline)", f"![]({url}/empty)", f'![t]({url}/title "t")',
            f"![angle](<{url}/angle>)", f"![reference][r] ![r][] ![r]\n\n[r]: {url}/reference",
            f"![alt ![in]({url}/inner) {url}](<{url}/outer>)", f"!![x]({url}/bangs)",
            f"![`a`]({url}/code)", f"![a [b] c]({url}/brackets)", f"[![badge]({url}/badge)](https://a.org)",
            f"&#33;[x]({url}/entity)", f"\\\\![x]({url}/backslash)", f"![x](\n{url}/line)",
            f"| a |\n|---|\n| ![cell]({url}/cell) |", f"- ![item]({url}/item)",
            f"> ![quote]({url}/quote)", f"note[^1]\n\n[^1]: ![foot]({url}/foot)",
            f"<img src={url}/tag>", f"&lt;img src={url}/escaped&gt;", f"<{url}/auto>", url,
            f"$\\includegraphics{{{url}/tex}}$ $![x]({url}/math)$", f"![x](//{host}/relative)",
            f"<svg><image href={url}/svg /></svg>", f"# ![heading]({url}/heading)",
            f"t\n: ![definition]({url}/definition)", f"- [ ] ![task]({url}/task)", *fences,
            f"- ```mermaid\n  graph TD\n  A@{{ img: \"{url}/list\" }}\n  ```", END,
        ]
    )  # fmt: skip


@pytest.mark.browser
def test_no_image_is_fetched_unless_its_server_is_allowed(
    lab: Lab, opened: Opened, server: CountingServer
) -> None:
    with serving() as other:
        text = every_spelling(server.host)
        allowed = f"![a](http://{server.host}/a)\n\n![b](http://{other.host}/b)\n\n{END}"
        reasoning = f"reasoning = {json.dumps(text.removesuffix(END))}\n"
        for name, reply in {
            "images": f"[[replies]]\ntext = {json.dumps(text)}\n{reasoning}",
            "allowed": f"[[replies]]\ntext = {json.dumps(allowed)}\n",
        }.items():
            (lab.root / f"{name}.toml").write_text(reply, encoding="utf-8")
        page = opened(
            "%%jp -n -m scripted/images\nGo.", "%jp log", "%jp request",
            f"%jp config 'style.remote_images:=[\"{server.host}\"]'",
            "%%jp -m scripted/allowed\nGo.",
        )  # fmt: skip
        for cell in (1, 2):
            page.run_cell(cell)
            page.output_text(cell, contains=END)
        page.cell(1).locator("summary").click()
        page.run_cell(3)
        page.outputs(3).locator("table").first.wait_for()
        page.page.wait_for_load_state("networkidle")
        assert page.page.locator(".jp-OutputArea :is(img, .jp-Mermaid)").count() == 0
        page.save()
        exporter: Any = nbconvert.HTMLExporter
        exported, _ = exporter().from_notebook_node(page.saved())
        (lab.root / "images.html").write_text(exported, encoding="utf-8")
        tab = page.page.context.new_page()
        tab.route("https://**", lambda route: route.abort())  # scripts of the exporter's own
        tab.goto(f"file://{lab.root}/images.html", wait_until="load")
        tab.get_by_text(END).first.wait_for()
        tab.close()
        assert server.paths == []

        page.run_cell(4)
        with page.page.expect_response(f"http://{server.host}/a"):
            page.run_cell(5)
        page.output_text(5, contains=END)
        assert page.outputs(5).locator("img").count() == 1
        assert set(server.paths) == {"/a"}
        assert other.paths == []


def test_saved_markdown_has_no_image(
    server: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = TurnScreen(monkeypatch)
    screen.add(display_event("show_text", "message", every_spelling(server.host)))
    [bundle] = screen.finish().values()
    shown = bundle["text/markdown"]
    assert "![" not in shown
    assert "mermaid\n" not in shown.replace("text mermaid\n", "")

"""No image in an answer is fetched: not as it is shown, not by the log, not by an exported page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import nbconvert
import pytest

from jp_nb.rendering.markdown import safe_markdown
from tests.support.browser import Lab, OpenNotebook

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
def test_no_image_is_fetched(lab: Lab, open_notebook: OpenNotebook, server: CountingServer) -> None:
    text = every_spelling(server.host)
    thought = json.dumps(text.removesuffix(END))
    script = f"[[replies]]\ntext = {json.dumps(text)}\nreasoning = {thought}\n"
    (lab.root / "images.toml").write_text(script, encoding="utf-8")
    page = open_notebook("%load_ext jp_nb", "%%jp -m scripted/images\nGo.", "%jp log")
    for cell in (0, 1, 2):
        page.run_cell(cell)
        page.output_text(cell, contains=END if cell else "kept in this notebook")
    page.cell(1).locator("summary").click()
    page.page.wait_for_load_state("networkidle")
    assert page.page.locator(".jp-OutputArea img, .jp-OutputArea .jp-Mermaid").count() == 0
    page.page.screenshot(path=str(lab.root / "images.png"), full_page=True)
    page.save()
    exporter: Any = nbconvert.HTMLExporter
    exported, _ = exporter().from_notebook_node(page.saved())
    (lab.root / "images.html").write_text(exported, encoding="utf-8")
    page.page.route("https://**", lambda route: route.abort())  # scripts of the exporter's own
    page.page.goto(f"file://{lab.root}/images.html", wait_until="load")
    page.page.get_by_text(END).first.wait_for()
    assert server.paths == []


@pytest.mark.browser
def test_allowed_image_is_fetched(
    lab: Lab, open_notebook: OpenNotebook, server: CountingServer
) -> None:
    """The server hears of an image that is loaded: the test above could fail."""
    with serving() as other:
        text = f"![a](http://{server.host}/a)\n\n![b](http://{other.host}/b)\n\n{END}"
        (lab.root / "allowed.toml").write_text(f"[[replies]]\ntext = {json.dumps(text)}\n")
        allow = f'style.remote_images=["{server.host}"]'
        page = open_notebook(
            "%load_ext jp_nb", f"%jp config '{allow.replace('=', ':=', 1)}'",
            "%%jp -m scripted/allowed\nGo.",
        )  # fmt: skip
        for cell in (0, 1):
            page.run_cell(cell)
        with page.page.expect_request(f"http://{server.host}/a"):
            page.run_cell(2)
        page.output_text(2, contains=END)
        assert page.page.locator(".jp-OutputArea img").count() == 1
        assert set(server.paths) == {"/a"}
        assert other.paths == []


def test_saved_markdown_has_no_image(server: CountingServer) -> None:
    shown = safe_markdown(every_spelling(server.host))
    assert "![" not in shown
    assert "mermaid\n" not in shown.replace("text mermaid\n", "")

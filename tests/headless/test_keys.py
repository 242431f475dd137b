"""The key of a model server is in no file that a run writes, and in nothing that it prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import nbformat
import pytest

from jp_nb.headless.runner import run_notebook
from tests.support.raw_server import STREAM, raw_server

KEY = "sk-of-mine/0123456789+abcdefghijklmnop"
INNER = "0123456789"
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def delta(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()


def echo(head: bytes) -> str:
    """The key as the server was sent it."""
    lines = head.decode().split("\r\n")
    return next(x for x in lines if x.lower().startswith("authorization")).split(" ")[-1]


@pytest.mark.parametrize("fault", ["answer", "error in stream", "message", "error"])
def test_the_key_is_nowhere(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def answer(head: bytes) -> Iterable[bytes]:
        key = echo(head)
        assert key == KEY
        match fault:
            case "answer":
                text = f"You sent {key}, did you not?"
                return [STREAM, *(delta(text[i : i + 4]) for i in range(0, len(text), 4)), END]
            case "error in stream":
                error = json.dumps({"error": {"message": f"no such key: {key}", "code": 401}})
                return [STREAM, delta("Hello."), f"data: {error}\n\n".encode()]
            case "message":
                return [STREAM, delta("Hello."), f"data: what is {key}?\n\n".encode()]
            case _:
                body = json.dumps({"error": {"message": f"{key} is wrong"}})
                return [f"HTTP/1.1 401 {key}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()]

    with raw_server(answer) as url:
        cells = [
            "%load_ext jp_nb\nimport logging; logging.basicConfig(level=0)",
            f"%%jp -m openai/m -c providers.llm.openai.base_url={url}\nGo.",
        ]
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells]
        )
        path = tmp_path / "n.ipynb"
        nbformat.write(notebook, path)
        run_notebook(path)
    written = "".join(each.read_text() for each in tmp_path.rglob("*") if each.is_file())
    shown = written + "".join(capfd.readouterr())
    assert "[key]" in shown
    assert KEY not in shown
    assert INNER not in shown
    assert "Hello." in shown or "in stream" not in fault

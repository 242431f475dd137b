"""Scripts with tool calls, cells that run them in a kernel, and access to the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.kernel_client import FrontEnd, Message, front_end, is_error


@contextmanager
def kernel_with(
    folder: Path, scripts: Mapping[str, str], *cells: str, load: str = "%load_ext jp_nb"
) -> Iterator[FrontEnd]:
    """Start a kernel in `folder`, with `scripts` of models, and run `load` and `cells` in it."""
    for name, text in scripts.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    with front_end(folder) as user:
        assert "model scripted/welcome" in user.run(load, cell_id=None)
        for cell in cells:
            run_setup(user, cell)
        yield user


def run_setup(user: FrontEnd, cell: str) -> None:
    """Run a cell that prepares a test.

    Raises:
        AssertionError: The cell failed. The message has its error.
    """
    request = user.start(cell)
    printed = user.finish(request)
    failure = error(user, request)
    if failure is not None:
        raise AssertionError(
            f"a setup cell failed: {failure['ename']}: {failure['evalue']}\n{printed}\n{cell}"
        )


def calls(*names_and_arguments: tuple[str, dict[str, Any]]) -> str:
    """Return one reply of a script with these tool calls."""
    listed = ", ".join(
        f"{{ name = {json.dumps(name)}, arguments = {toml(arguments)} }}"
        for name, arguments in names_and_arguments
    )
    return f"[[replies]]\ntool_calls = [{listed}]\n"


def toml(value: dict[str, Any]) -> str:
    """Format an object as an inline table of TOML."""
    return "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + " }"


def start(user: FrontEnd, script: str, options: str = "", **fields: Any) -> str:
    """Start a cell that sends a request to `script`; return its message id."""
    return user.start(f"%%jp -n -m scripted/{script} {options}\nContinue.", **fields)


def run(user: FrontEnd, script: str, options: str = "", **fields: Any) -> str:
    """Run a cell that sends a request to `script`; return its message id."""
    request = start(user, script, options, **fields)
    user.finish(request)
    return request


def value(user: FrontEnd, expression: str) -> Any:
    """Return the JSON value of `expression` in the kernel."""
    return json.loads(user.run(f"import json; print(json.dumps({expression}))").strip())


def events(user: FrontEnd) -> list[dict[str, Any]]:
    """Return the entries of the conversation in the kernel."""
    found: list[dict[str, Any]] = value(user, "jp.conversation().events")
    return found


def error(user: FrontEnd, request: str) -> Message | None:
    """Return the error of a cell, or None."""
    return next((m["content"] for m in user.messages if is_error(m, request)), None)


def well_formed(entries: list[dict[str, Any]]) -> bool:
    """Return True if each call and each inquiry has its response."""
    asked = [e["id"] for e in entries if e["type"] == "tool_call_request"]
    answered = [e["id"] for e in entries if e["type"] == "tool_call_response"]
    opened = [e["id"] for e in entries if e["type"] == "inquiry_request"]
    closed = [e["id"] for e in entries if e["type"] == "inquiry_response"]
    return asked == answered and sorted(opened) == sorted(closed)


def interrupted(user: FrontEnd) -> str:
    """Interrupt the kernel and wait for the menu; return its beacon."""
    user.forget(widgets=False)
    user.manager.interrupt_kernel()
    return user.form("Interrupted")


def contents(user: FrontEnd) -> list[str]:
    """Return the results of all tool calls, in order."""
    entries = events(user)
    assert well_formed(entries)
    return [e["content"] for e in entries if e["type"] == "tool_call_response"]


def static(user: FrontEnd, request: str) -> str:
    """Return the static outputs of a turn, and check that no form is open."""
    shown = user.displays(request)
    assert all(set(data) == {"text/plain", "text/markdown"} for data in shown)
    return "\n".join(data["text/plain"] for data in shown)


def asked(user: FrontEnd, keys: str) -> None:
    """Check that the input box offers these keys."""
    request: Message = user.input_request()
    assert request["prompt"] == keys


def run_command(user: FrontEnd, line: str) -> str:
    """Run a command and return the text that it displays."""
    request = user.start(line, cell_id=None)
    user.finish(request)
    assert error(user, request) is None
    return "\n".join(data["text/plain"] for data in user.displays(request))

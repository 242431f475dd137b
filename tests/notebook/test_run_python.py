"""`run_python` in a real kernel: displays, figures, interrupts, permission, and a flood."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import (
    calls,
    contents,
    error,
    events,
    interrupted,
    kernel_with,
    start,
    value,
)
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

UNATTENDED = "-t run_python -c conversation.tools.run_python.run=unattended"
SETUP = """
import jp_nb as jp
def half(x):
    return 1 / x
"""
NOTHING = "The code ran and showed no output."


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("run_python")
    with kernel_with(folder, {}, SETUP) as user:
        user.folder = folder  # type: ignore[attr-defined]
        yield user


def start_code(user: FrontEnd, *codes: str, options: str = UNATTENDED, **fields: Any) -> str:
    """Start a turn in which the model calls `run_python` with each of `codes`, at once."""
    script = calls(*(("run_python", {"code": code}) for code in codes))
    folder: Any = user.folder  # type: ignore[attr-defined]
    (folder / "code.toml").write_text(f'{script}[[replies]]\ntext = "Done."\n', encoding="utf-8")
    return start(user, "code", options, **fields)


def run_code(user: FrontEnd, *codes: str, **fields: Any) -> str:
    """Run such a turn to its end."""
    request = start_code(user, *codes, **fields)
    user.finish(request)
    assert error(user, request) is None
    return request


def responses(user: FrontEnd) -> list[tuple[str, bool]]:
    return [
        (e["content"], e.get("is_error", False))
        for e in events(user)
        if e["type"] == "tool_call_response"
    ]


def test_model_reads_what_the_cell_shows(kernel: FrontEnd) -> None:
    rows: list[tuple[str, str]] = [
        ("print('hi')\nx = 41\nx + 1", "hi\n42"),
        ("import asyncio\nasync def f(): return 3\nawait asyncio.gather(f(), f())", "[3, 3]"),
        ("!echo from a shell", "from a shell"),
        ("%%bash\necho from bash", "from bash"),
        ("import sys; print('a'); print('b', file=sys.stderr)", "a\nb"),
        ("print('gone')\nfrom IPython.display import clear_output, display\n"
         "clear_output(wait=True); display('left')", "'left'"),
        ("from IPython.display import display\nh = display(1, display_id='n'); print('x')\n"
         "h.update(2)", "2\nx"),
        ("class A:\n    def __repr__(self): return '\\u202erepr'\nA()", "⟨U+202E⟩repr"),
        ("from IPython.display import JSON\nJSON({})", "<IPython.core.display.JSON object>"),
        ("41;", NOTHING),
    ]  # fmt: skip
    run_code(kernel, *(code for code, _ in rows))
    assert responses(kernel) == [(read, False) for _, read in rows]


def test_permission_for_the_turn_covers_only_the_code_that_the_form_showed(
    kernel: FrontEnd,
) -> None:
    kernel.forget(widgets=False)
    request = start_code(
        kernel, "ran = ['a']", "ran = ['b']", "ran = ['a']", options="-t run_python"
    )
    kernel.form("Run the tool `run_python`?")
    assert "Allow this exact call for this turn" in str(kernel.models)
    kernel.forget(widgets=False)
    kernel.click("Allow this exact call for this turn")
    kernel.form("Run the tool `run_python`?")
    kernel.click("Skip run_python")
    kernel.finish(request)
    assert [content for content, _ in responses(kernel)] == [
        NOTHING,
        "Tool skipped by user.",
        NOTHING,
    ]
    assert value(kernel, "ran") == ["a"]


def test_figure_is_shown_below_its_code_and_sent_to_the_model(kernel: FrontEnd) -> None:
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn');"
    request = run_code(kernel, draw)
    assert responses(kernel) == [("drawn\n<Figure size 640x480 with 1 Axes>", False)]
    pictures = [data for data in kernel.displays(request) if "image/png" in data]
    assert len(pictures) == 1
    entries = events(kernel)
    (digests,) = [e["metadata"]["images"] for e in entries if e["type"] == "tool_call_response"]
    assert [e["digest"] for e in entries if e["type"] == "image"] == digests


def test_interrupt_ends_the_code_and_the_next_code_runs(kernel: FrontEnd) -> None:
    request = start_code(kernel, "import asyncio\nprint('be' 'gun')\nawait asyncio.sleep(600)")
    kernel.wait(lambda m: m["content"].get("text") == "begun\n")
    interrupted(kernel)
    kernel.click("End the turn")
    kernel.finish(request)
    (told,) = contents(kernel)
    assert told.startswith("The user cancelled this tool call on purpose.")
    kernel.run("import asyncio; await asyncio.sleep(0)")  # the cell's own loop still runs
    run_code(kernel, "print('again')")
    assert contents(kernel) == ["again"]


def test_flood_of_output_is_bounded_for_the_model(kernel: FrontEnd) -> None:
    before = value(kernel, "__import__('resource').getrusage(0).ru_maxrss")
    run_code(kernel, "for i in range(200_000): print(i)")
    ((content, is_error),) = responses(kernel)
    assert not is_error
    assert len(content) < 51_000
    assert content.startswith("0\n1\n2\n")
    assert content.endswith("199998\n199999")
    assert "characters are omitted here" in content
    grown = value(kernel, "__import__('resource').getrusage(0).ru_maxrss") - before
    assert grown < 200_000, "kilobytes"


def test_code_of_the_model_cannot_change_its_own_turn(kernel: FrontEnd) -> None:
    codes = (
        "%unload_ext jp_nb",
        "%reload_ext jp_nb",
        "%jp config assistant.name=Bo",
        "%jp new",
        "%jp cassette record",
        "%%jp\nAgain.",
        "%jp config assistant.name",
    )
    run_code(kernel, *codes)
    found = responses(kernel)
    assert len(found) == len(codes)
    for code, (content, _) in zip(codes[:-1], found[:-1], strict=True):
        assert "turn" in content, code
        assert "UsageError" in content, code
    assert "Bo" not in found[-1][0]
    run_code(kernel, "print('again')")
    assert contents(kernel) == ["again"]


def test_code_is_refused_when_no_user_can_be_asked(kernel: FrontEnd) -> None:
    run_code(kernel, "made = 1", options="-t run_python", allow_stdin=False, cell_id=None)
    ((content, is_error),) = responses(kernel)
    assert is_error
    assert "run_python did not run: it needs the user's permission" in content
    assert 'conversation.tools.run_python.run = "unattended"' in content
    assert value(kernel, "'made' in globals()") is False


def test_code_may_ask_for_a_line(kernel: FrontEnd) -> None:
    request = start_code(kernel, "name = input('Who? ')\nname.upper()")
    assert kernel.input_request()["prompt"] == "Who? "
    kernel.type("ada")
    kernel.finish(request)
    assert contents(kernel) == ["'ADA'"]


def test_two_headless_runs_have_the_same_outputs(kernel: FrontEnd) -> None:
    codes = (
        "print('one')\n1 + 1",
        "import matplotlib.pyplot as plt\nplt.close('all')\nplt.plot([1, 2]);",
        "print('before')\nhalf(0)",
    )
    seen = []
    for _ in range(2):
        request = run_code(kernel, *codes, allow_stdin=False, cell_id=None)
        shown = [output.get("data", output) for output in kernel.outputs(request)]
        seen.append((shown, responses(kernel)))
        kernel.messages.clear()
    assert seen[0] == seen[1]
    assert [text for text, _ in seen[0][1]][:2] == ["one\n2", "<Figure size 640x480 with 1 Axes>"]


def test_output_of_another_cell_is_not_taken_for_that_of_the_code(kernel: FrontEnd) -> None:
    kernel.run(
        "import threading\nbegun, told = threading.Event(), threading.Event()\n"
        "def late():\n    begun.wait()\n    print('of the cell before', flush=True)\n"
        "    told.set()\nthreading.Thread(target=late).start()"
    )
    run_code(kernel, "begun.set(); told.wait()\nprint('of the code')")
    ((content, _),) = responses(kernel)
    assert content.endswith("of the code")

"""`run_python` in a real kernel: what runs, what the cell shows, and what the model reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import (
    calls,
    contents,
    error,
    events,
    forget,
    interrupted,
    kernel_with,
    start,
    value,
)
from tests.support.kernel_client import FrontEnd

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

UNATTENDED = "-t run_python -c conversation.tools.run_python.run=unattended"
SETUP = """
import jp_nb as jp
hooks = []
get_ipython().events.register("post_run_cell", lambda result: hooks.append(result))
def half(x):
    return 1 / x
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("run_python")
    with kernel_with(folder, {}, SETUP) as user:
        user.folder = folder  # type: ignore[attr-defined]
        yield user


def run_code(user: FrontEnd, *codes: str, options: str = UNATTENDED, **fields: Any) -> str:
    """Run a turn in which the model calls `run_python` with each of `codes`, at once."""
    script = calls(*(("run_python", {"code": code}) for code in codes))
    folder: Any = user.folder  # type: ignore[attr-defined]
    (folder / "code.toml").write_text(f'{script}[[replies]]\ntext = "Done."\n', encoding="utf-8")
    request = start(user, "code", options, **fields)
    user.finish(request)
    assert error(user, request) is None
    return request


def responses(user: FrontEnd) -> list[tuple[str, bool]]:
    return [
        (e["content"], e.get("is_error", False))
        for e in events(user)
        if e["type"] == "tool_call_response"
    ]


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("print('hi')\nx = 41\nx + 1", "hi\n42"),
        ("x = 41", "The code ran and showed nothing."),
        ("41;", "The code ran and showed nothing."),
        ("import asyncio\nasync def f(): return 3\nawait asyncio.gather(f(), f())", "[3, 3]"),
        ("!echo from a shell", "from a shell"),
        ("%%bash\necho from bash", "from bash"),
        ("import sys; print('a'); print('b', file=sys.stderr)", "a\nb"),
        ("print('gone')\nfrom IPython.display import clear_output, display\n"
         "clear_output(wait=True); display('left')", "'left'"),
        ("from IPython.display import display\nh = display(1, display_id='n'); print('x')\n"
         "h.update(2)", "2\nx"),
        ("print('10%\\r20%\\r', end=''); print('\\x1b[31m30%\\x1b[0m')", "30%"),
        ("class A:\n    def __repr__(self): return '\\u202erepr'\nA()", "⟨U+202E⟩repr"),
        ("from IPython.display import JSON\nJSON({})", "<IPython.core.display.JSON object>"),
        ("import sys; sys.displayhook = lambda v: print('mine', v)\n1 + 1", "mine 2"),
    ],
)  # fmt: skip
def test_the_model_reads_what_the_cell_shows(kernel: FrontEnd, code: str, read: str) -> None:
    run_code(kernel, code)
    assert responses(kernel) == [(read, False)]


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (
            "print('before')\nhalf(0)",
            "ZeroDivisionError: division by zero\n\nRaised in the code at:\n"
            "line 2, in <module>: half(0)\nline 5, in half, of a cell: return 1 / x\n\n"
            "Shown before that:\nbefore",
        ),
        (
            "x = = 3",
            "SyntaxError: invalid syntax\n\nRaised in the code at:\n"
            "line 1:\n    x = = 3\n        ^",
        ),
        (
            "raise SystemExit(3)",
            "SystemExit: 3\n\nRaised in the code at:\nline 1, in <module>: raise SystemExit(3)",
        ),
        (
            "import asyncio\nraise asyncio.CancelledError",
            "CancelledError\n\nRaised in the code at:\n"
            "line 2, in <module>: raise asyncio.CancelledError",
        ),
        (
            "raise ValueError('\\x1b[31mred\\u202e')",
            "ValueError: red⟨U+202E⟩\n\nRaised in the code at:\n"
            "line 1, in <module>: raise ValueError('\\x1b[31mred\\u202e')",
        ),
    ],
)
def test_an_error_names_the_lines_of_the_code_and_nothing_of_the_machine(
    kernel: FrontEnd, code: str, read: str
) -> None:
    request = run_code(kernel, code)
    assert responses(kernel) == [(read, True)]
    name = read.partition(":")[0].partition("\n")[0]
    assert name in kernel.printed(request)  # IPython's traceback, for the person
    shown = "\n".join(d["text/plain"] for d in kernel.displays(request))
    assert "Raised in the code" not in shown


def test_a_permission_for_the_turn_covers_the_code_that_the_form_showed(kernel: FrontEnd) -> None:
    codes = ("ran = ['a']", "ran = ['b']", "ran = ['a']")
    script = calls(*(("run_python", {"code": code}) for code in codes))
    folder: Any = kernel.folder  # type: ignore[attr-defined]
    (folder / "code.toml").write_text(f'{script}[[replies]]\ntext = "Done."\n', encoding="utf-8")
    forget(kernel)
    request = start(kernel, "code", "-t run_python")
    kernel.form("Run built-in run_python tool?")
    assert "Run this exact call this turn" in str(kernel.models)
    forget(kernel)
    kernel.click("Run this exact call this turn")
    kernel.form("Run built-in run_python tool?")
    kernel.click("Skip")
    kernel.finish(request)
    assert [content for content, _ in responses(kernel)] == [
        "The code ran and showed nothing.",
        "Tool skipped by user.",
        "The code ran and showed nothing.",
    ]
    assert value(kernel, "ran") == ["a"]


def test_without_code_nobody_is_asked(kernel: FrontEnd) -> None:
    run_code(kernel, " \n", options="-t run_python")
    assert responses(kernel) == [("`code` is empty. Give the code to run, as a text.", True)]


def test_a_turn_does_not_begin_inside_of_another(kernel: FrontEnd) -> None:
    run_code(kernel, "%%jp\nAnd again.")
    ((content, is_error),) = responses(kernel)
    assert is_error
    assert "a turn is still running in this kernel" in content


def test_it_leaves_no_trace_of_a_cell(kernel: FrontEnd) -> None:
    look = "[_ if isinstance(_, int) else None, len(In), list(Out), len(hooks), _i]"
    kernel.run("7 * 6")
    before = value(kernel, look)
    run_code(kernel, "1 + 1", "name = 'kept'")
    after = value(kernel, look)
    # The look itself and the turn are cells; the turn's code is none.
    assert after == [*before[:1], before[1] + 2, before[2], before[3] + 2, after[4]]
    assert "run_code" not in after[4]
    assert value(kernel, "name") == "kept"
    assert value(kernel, "__import__('sys').displayhook is get_ipython().displayhook") is True


def test_each_figure_is_shown_below_its_code_and_the_model_gets_the_picture(
    kernel: FrontEnd,
) -> None:
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn');"
    request = run_code(kernel, draw)
    assert responses(kernel) == [("drawn\n<Figure size 640x480 with 1 Axes>", False)]
    pictures = [data for data in kernel.displays(request) if "image/png" in data]
    assert len(pictures) == 1
    entries = events(kernel)
    (digests,) = [e["metadata"]["images"] for e in entries if e["type"] == "tool_call_response"]
    assert [e["digest"] for e in entries if e["type"] == "image"] == digests
    run = json.loads(
        kernel.run(
            "from jp_nb.notebook.kernel_notebook import KernelNotebook\n"
            'ran = KernelNotebook(get_ipython(), None, ()).execute("""' + draw + '""")\n'
            "print('\\n', json.dumps([[i.media_type, len(i.content)] for o in ran.outputs "
            "for i in o.images]))"
        )
        .strip()
        .splitlines()[-1]
    )
    assert [kind for kind, size in run if size > 1000] == ["image/png"]


def test_an_interrupt_ends_the_code_as_it_ends_a_function(kernel: FrontEnd) -> None:
    code = "import time\nprint('begun')\ntime.sleep(600)"
    script = calls(("run_python", {"code": code})) + '[[replies]]\ntext = "Done."\n'
    folder: Any = kernel.folder  # type: ignore[attr-defined]
    (folder / "long.toml").write_text(script, encoding="utf-8")
    request = start(kernel, "long", UNATTENDED)
    kernel.wait(lambda m: m["content"].get("text") == "begun\n")
    interrupted(kernel)
    kernel.click("End the turn")
    kernel.finish(request)
    (told,) = contents(kernel)
    assert told.startswith("The user cancelled this tool call on purpose.")
    run_code(kernel, "print('again')")
    assert contents(kernel) == ["again"]


def test_a_coroutine_is_interrupted_too(kernel: FrontEnd) -> None:
    code = "import asyncio\nprint('begun')\nawait asyncio.sleep(600)"
    script = calls(("run_python", {"code": code})) + '[[replies]]\ntext = "Done."\n'
    folder: Any = kernel.folder  # type: ignore[attr-defined]
    (folder / "long.toml").write_text(script, encoding="utf-8")
    request = start(kernel, "long", UNATTENDED)
    kernel.wait(lambda m: m["content"].get("text") == "begun\n")
    interrupted(kernel)
    kernel.click("End the turn")
    kernel.finish(request)
    kernel.run("import asyncio; await asyncio.sleep(0)")  # the cell's own loop goes on
    assert len(contents(kernel)) == 1


def test_what_the_model_reads_of_a_flood_is_bounded(kernel: FrontEnd) -> None:
    before = value(kernel, "__import__('resource').getrusage(0).ru_maxrss")
    run_code(kernel, "for i in range(1_000_000): print(i)")
    ((content, is_error),) = responses(kernel)
    assert not is_error
    assert len(content) < 51_000
    assert content.startswith("0\n1\n2\n")
    assert content.endswith("999998\n999999")
    assert "characters are left out here" in content
    grown = value(kernel, "__import__('resource').getrusage(0).ru_maxrss") - before
    assert grown < 200_000, "kilobytes"


def test_code_is_refused_where_nobody_can_be_asked(kernel: FrontEnd) -> None:
    run_code(kernel, "made = 1", options="-t run_python", allow_stdin=False, cell_id=None)
    ((content, is_error),) = responses(kernel)
    assert is_error
    assert "run_python did not run: it needs a person's decision" in content
    assert 'conversation.tools.run_python.run = "unattended"' in content
    assert value(kernel, "'made' in globals()") is False


def test_it_is_off_until_it_is_named(kernel: FrontEnd) -> None:
    run_code(kernel, "1", options="-t")
    ((content, is_error),) = responses(kernel)
    assert is_error
    assert "is not available" in content


def test_code_may_ask_for_a_line(kernel: FrontEnd) -> None:
    folder: Any = kernel.folder  # type: ignore[attr-defined]
    script = calls(("run_python", {"code": "name = input('Who? ')\nname.upper()"}))
    (folder / "asks.toml").write_text(f'{script}[[replies]]\ntext = "Done."\n', encoding="utf-8")
    request = start(kernel, "asks", UNATTENDED)
    assert kernel.input_request()["prompt"] == "Who? "
    kernel.type("ada")
    kernel.finish(request)
    assert contents(kernel) == ["'ADA'"]


def test_with_nobody_there_two_runs_show_and_tell_the_same(kernel: FrontEnd) -> None:
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


def test_frames_of_earlier_code_are_told_apart(kernel: FrontEnd) -> None:
    run_code(kernel, "def third(x):\n    return 1 / x", "third(0)")
    content, is_error = responses(kernel)[1]
    assert is_error
    assert content.endswith(
        "line 1, in <module>: third(0)\nline 2, in third, of code that ran earlier: return 1 / x"
    )
    assert "of code that ran earlier" in content
    kernel.run("import sys; frame = sys.last_traceback\nwhile frame.tb_next: frame = frame.tb_next")
    assert value(kernel, "frame.tb_frame.f_code.co_name") == "third"  # where %debug begins


def test_the_person_can_have_its_error_explained(kernel: FrontEnd) -> None:
    kernel.run("{}['of a cell']")
    run_code(kernel, "number = 0\nhalf(number)")
    (kernel.folder / "why.toml").write_text('[[replies]]\ntext = "Zero."\n')  # type: ignore[attr-defined]
    kernel.finish(kernel.start("%jp config assistant.model.id=scripted/why"))
    kernel.finish(kernel.start("%jp why"))
    sent = value(kernel, "jp.conversation().turns[-1].request")
    assert (
        "Code that a model ran, which failed at line 2 ---\n  1 number = 0\n→ 2 half(number)"
        in sent
    )
    assert re.search(r"number \(Code that a model ran, line 2\): 0\n", sent)
    assert re.search(r"half\(x\), Cell In\[\d+\], line", sent), (
        "a function is where its traceback has it"
    )
    assert "ZeroDivisionError: division by zero" in sent
    assert "of a cell" not in sent


def test_a_frame_shows_the_line_as_it_ran(kernel: FrontEnd) -> None:
    run_code(kernel, "\n\nnumber = 0\nhalf(number)")  # IPython drops the blank lines above
    ((content, _),) = responses(kernel)
    assert "line 2, in <module>: half(number)" in content


def test_many_frames_are_bounded_in_their_middle(kernel: FrontEnd) -> None:
    run_code(kernel, "def down(n):\n    return down(n - 1) if n else half(0)\ndown(50)")
    ((content, _),) = responses(kernel)
    frames = content.partition("Raised in the code at:\n")[2].split("\n")
    assert frames[0] == "line 3, in <module>: down(50)"
    assert frames[10] == "… 33 more frames"
    assert frames[-1].endswith("in half, of a cell: return 1 / x")
    assert len(frames) == 21


def test_an_assignment_shows_its_value_where_that_is_wanted(kernel: FrontEnd) -> None:
    kernel.run("get_ipython().ast_node_interactivity = 'last_expr_or_assign'")
    try:
        run_code(kernel, "x = 40 + 2")
        assert contents(kernel) == ["42"]
    finally:
        kernel.run("get_ipython().ast_node_interactivity = 'last_expr'")


def test_what_another_cell_shows_meanwhile_is_not_of_the_code(kernel: FrontEnd) -> None:
    kernel.run(
        "import threading\nbegun, told = threading.Event(), threading.Event()\n"
        "def late():\n    begun.wait()\n    print('of the cell before', flush=True)\n"
        "    told.set()\nthreading.Thread(target=late).start()"
    )
    run_code(kernel, "begun.set(); told.wait()\nprint('of the code')")
    ((content, _),) = responses(kernel)
    assert content.endswith("of the code")

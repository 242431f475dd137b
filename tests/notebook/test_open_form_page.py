"""One form is open in the page while tools print, display and clear outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import Lab, NotebookPage, OpenNotebook
from tests.support.cells import calls
from tests.support.page_actions import LOAD, MODEL, click, keys, picture
from tests.support.prompt_pages import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Request, ViewportSize

pytestmark = pytest.mark.browser

FIRST_CELL = LOAD

TOOLS = """
import sys, time
from pathlib import Path
import jp_nb as jp
from IPython.display import Markdown, clear_output, display

SHOWN = {}

@jp.tool
def show(kind: str) -> str:
    SHOWN[kind]()
    return f"{kind} is shown"

@jp.tool(thread=True)
def show_in_thread(kind: str) -> str:
    return show(kind)

@jp.tool(run="ask")
def deploy(number: int) -> str:
    print("deployed", number)
    return "deployed"

@jp.tool
def inquire(kind: str, ctx: jp.ToolContext):
    if "name" not in ctx.answers:
        return jp.NeedsInput(getattr(jp.Question, kind)("name", "What is its name?"))
    return f"{len(str(ctx.answers['name']))} letters"

def shows(function):
    SHOWN[function.__name__] = function

def work():
    time.sleep(0.3)

@shows
def print_around():
    print("printed before the work", flush=True)
    work()
    print("printed after the work")

@shows
def many_lines():
    for number in range(400):
        print("line", number, flush=number % 50 == 0)
    work()

@shows
def stderr():
    print("a warning", file=sys.stderr)
    work()

@shows
def updated_display():
    handle = display(Markdown("one"), display_id=True)
    work()
    for number in range(20):
        handle.update(Markdown(f"update {number}"))

@shows
def clear_now():
    print("cleared soon")
    work()
    clear_output()
    print("printed after a clear")

@shows
def clear_at_gate():
    while not Path("gate").exists():
        time.sleep(0.02)
    clear_output()

@shows
def clear_told_again():
    import gc
    from jp_nb.notebook.page.known_pages import LackingPage
    from jp_nb.notebook.page.live_store import LiveStore
    (store,) = [each for each in gc.get_objects() if isinstance(each, LiveStore)]
    page = store._link.pages.followed.page
    store._outputs.send_outputs(LackingPage(page))  # as to a page that is slow to say hello
    work()
    clear_output()

@shows
def clear_later():
    for number in range(5):
        clear_output(wait=True)
        print("frame", number)
        time.sleep(0.15)

@shows
def clear_first():
    clear_output()
    work()

@shows
def clear_last():
    print("not kept")
    work()
    clear_output()
"""
KINDS = ("print_around", "many_lines", "stderr", "updated_display")
CLEARS = ("clear_now", "clear_later", "clear_first", "clear_last", "clear_told_again")
SAVE = """from jp_nb.session import require_session
print(require_session().active.store.save())"""
FORM = ".jp-nb-form:visible"
LIVE = ".jp-nb-form[role='group']:visible"
MARK = """() => {
    const form = [...document.querySelectorAll(".jp-nb-form[role='group']")].at(-1);
    if (!form?.checkVisibility() || form.isMarked) return false;
    return (form.isMarked = true);
}"""


def cycle(number: int, kind: str, tool: str = "show") -> str:
    return calls((tool, {"kind": kind}), ("deploy", {"number": number}))


def script(*cycles: str) -> str:
    return "".join(cycles) + '[[replies]]\ntext = "That is all."\n'


def begun(opened: Opened, lab: Lab, name: str, *cycles: str, alone: bool = False) -> NotebookPage:
    """Open a notebook and begin a turn that calls tools in these cycles."""
    (lab.root / f"{name}.toml").write_text(script(*cycles), encoding="utf-8")
    page = opened(TOOLS, f"%%jp -n -m scripted/{name}\nGo.", SAVE, alone=alone)
    page.run_cell(1)
    page.wait_for_kernel_status("idle")
    page.run_cell(2)
    return page


def wait_for_next_form(page: NotebookPage) -> None:
    """Wait until a form is up that was not there before, and mark it."""
    page.page.wait_for_function(MARK)


def wait_for_end(page: NotebookPage, kind: str, tool: str = "show") -> None:
    """Wait until the page shows that the call has ended."""
    page.page.wait_for_function(
        "text => document.querySelectorAll('.jp-Notebook .jp-Cell')[2].innerText.includes(text)",
        arg=f'✓ {tool}(kind="{kind}")',
    )


def assert_one_form(page: NotebookPage) -> None:
    """Assert that one form is in the page, and that it hears clicks."""
    page.form()
    page.page.wait_for_timeout(300)  # a closed form disappears with the next output
    assert page.page.locator(FORM).count() == page.page.locator(LIVE).count() == 1


def test_one_form_is_live_while_tools_show_something_beside_it(opened: Opened, lab: Lab) -> None:
    cycles = [cycle(number, kind) for number, kind in enumerate(KINDS)]
    threads = [cycle(9, "print_around", "show_in_thread")]
    page = begun(opened, lab, "shows", *cycles, *threads)
    for kind in KINDS:
        wait_for_next_form(page)
        wait_for_end(page, kind)
        assert_one_form(page)
        assert page.form().evaluate("form => form.isMarked"), f"drawn anew: {kind}"
        click(page, "Run *")
    wait_for_end(page, "print_around", "show_in_thread")
    assert_one_form(page)
    click(page, "Run *")
    text = page.output_text(2, contains="That is all.")
    for number, kind in enumerate(KINDS):
        assert text.count(f'show(kind="{kind}")') == text.count(f"deployed {number}") == 1
    order = [text.index(f"deployed {number}") for number in range(len(KINDS))]
    assert order == sorted(order)


def test_form_and_one_line_for_each_call_are_left_when_a_tool_clears_the_cell(
    opened: Opened, lab: Lab
) -> None:
    cycles = [cycle(number, kind) for number, kind in enumerate(CLEARS)]
    page = begun(opened, lab, "clears", *cycles)
    for kind in CLEARS:
        wait_for_end(page, kind)
        assert_one_form(page)
        text = page.output_text(2)
        assert text.count(f'show(kind="{kind}")') == 1
        click(page, "Run *")
    text = page.output_text(2, contains="That is all.")
    page.wait_for_kernel_status("idle")
    page.save()
    saved = page.saved().cells[2].outputs
    for shown in (text, str([output.get("data", {}).get("text/markdown") for output in saved])):
        for kind in CLEARS:
            assert shown.count(f'show(kind="{kind}")') == 1
        assert shown.count("That is all.") == 1


def test_reopened_page_second_tab_and_second_view_have_one_form_and_one_record(
    opened: Opened, lab: Lab
) -> None:
    page = begun(opened, lab, "again", cycle(0, "print_around"), cycle(1, "clear_now"), alone=True)
    page.form()
    wait_for_end(page, "print_around")
    page.save()
    page.reopen(status="")
    assert_one_form(page)
    context = page.page.context
    other = NotebookPage(context.new_page(), page.path, page._url, status="busy")
    for each in (page, other):
        assert_one_form(each)
    click(other, "Run *")
    page.page.locator("text=clear_now").first.wait_for()
    for each in (page, other):
        wait_for_end(each, "clear_now")
        assert_one_form(each)
    click(page, "Run *")
    for each in (page, other):
        text = each.output_text(2, contains="That is all.")
        assert text.count("That is all.") == text.count('show(kind="clear_now")') == 1
        assert each.page.locator(".jp-nb-form").count() == 0

    # The kernel asks for a save: one of the tabs writes the file.
    page.command("docmanager:clone", wait=False)
    page.page.wait_for_function("document.querySelectorAll('.jp-NotebookPanel').length === 2")
    page.wait_for_kernel_status("idle")
    written: list[str] = []

    def note(request: Request) -> None:
        if request.method == "PUT" and page.path.name in request.url:
            written.append(request.url)

    context.on("request", note)
    page.run_cell(3)
    page.output_text(3, contains="saved as")
    record = page.saved().metadata["jp"]
    other.wait_for_record(f"record.events.length === {len(record['events'])}")
    other.page.wait_for_timeout(300)  # for a second write, which would be an error
    context.remove_listener("request", note)
    assert len(written) == 1
    assert "others" not in record


def test_typed_text_is_sent_with_a_key_after_a_tool_has_cleared_the_cell(
    opened: Opened, lab: Lab
) -> None:
    for kind, box in (("free_text", "textarea"), ("secret", "input[type=password]")):
        clears = ("show_in_thread", {"kind": "clear_at_gate"})
        (lab.root / "gate").unlink(missing_ok=True)
        page = begun(opened, lab, f"types-{kind}", calls(("inquire", {"kind": kind}), clears))
        page.form().locator(box).fill("Ada")
        wait_for_next_form(page)
        (lab.root / "gate").touch()
        wait_for_next_form(page)
        assert page.form().locator(box).input_value() == "Ada"
        keys(page, "Control+Enter")
        page.output_text(2, contains="That is all.")
        assert page.page.locator(FORM).count() == 0


# --- where a form is in the view ---------------------------------------------------------------

IN_VIEW = """cell => {
    const form = cell.querySelector(".jp-nb-form[role='group']").getBoundingClientRect();
    let view = cell.parentElement;
    while (!(view.scrollHeight > view.clientHeight && /auto|scroll/.test(
        getComputedStyle(view).overflowY))) view = view.parentElement;
    const { top, bottom } = view.getBoundingClientRect();
    return {
        cell: cell.getBoundingClientRect().top - top,
        above: form.top - top,
        below: bottom - form.bottom,
    };
}"""
# True once the form has stayed in its place for 1.2 seconds: what scrolls has done so.
STEADY = """() => {
    const form = [...document.querySelectorAll(".jp-nb-form[role='group']")].at(-1);
    const { top } = form.getBoundingClientRect();
    if (window.formTop !== top) [window.formTop, window.formSince] = [top, Date.now()];
    return Date.now() - window.formSince > 1200;
}"""
NONE_QUEUED = f"() => Array.from({MODEL}.cells).every(cell => cell.executionState !== 'running')"
FILLER = "print('\\n'.join(map(str, range(25))))"


def run_all(page: NotebookPage, lab: Lab, size: ViewportSize, words: str) -> dict[str, float]:
    """Run all cells twice, and return the place of the second run's form in the view.

    By then the cells below have outputs, so JupyterLab scrolls far below the form.
    """
    text = f"text = {json.dumps(words)}\n"
    deploy = calls(("deploy", {"number": 1})).replace("tool_calls", f"{text}tool_calls")
    name = f"deploys-{size['width']}"
    (lab.root / f"{name}.toml").write_text(deploy + '[[replies]]\ntext = "Done."\n')
    ask = f"%%jp -n -m scripted/{name}\nDeploy it, please."
    page.replace_cells(TOOLS, FILLER, FILLER, ask, *[FILLER] * 4)
    page.page.set_viewport_size(size)
    page.command("notebook:run-all-cells", wait=False)
    click(page, "Run *")
    page.output_text(4, contains="Done.")
    page.page.wait_for_function(NONE_QUEUED)
    page.command("notebook:run-all-cells", wait=False)
    page.form()
    page.page.wait_for_function(STEADY)
    found: dict[str, float] = page.cell(4).evaluate(IN_VIEW)
    picture(page, f"run-all-{size['width']}")
    click(page, "Run *")
    page.page.wait_for_function(NONE_QUEUED)
    return found


@pytest.mark.deep
def test_after_run_all_the_form_is_in_view_below_the_request_or_a_part_of_the_answer(
    open_notebook: OpenNotebook, lab: Lab
) -> None:
    page = open_notebook(LOAD)
    found = run_all(page, lab, {"width": 800, "height": 600}, "I will deploy it.")
    assert found["cell"] >= 0  # the request is in view
    assert found["below"] >= 0
    words = "\n\n".join(f"Paragraph {number} about the deployment." for number in range(40))
    found = run_all(page, lab, {"width": 1280, "height": 800}, words)
    assert 0 <= found["below"] < 30
    assert found["above"] > 200  # for the words and the call

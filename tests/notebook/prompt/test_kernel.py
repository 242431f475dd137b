"""Prompts in a real kernel, with a front end without a page: clicks while the cell waits.

Runs against the interpreter in `JP_NB_KERNEL_PYTHON`; `tools/ipykernel_matrix.py` does so for
each version of ipykernel.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.support.kernel_client import PATIENCE, FrontEnd, statuses

NO_BUTTON_CHOSEN = "Nothing is chosen yet. Press Tab or an arrow key to reach the buttons."
NOTHING_CHANGED = "You changed nothing. To send the proposed value, press {}."
STDIN_INSTEAD = "To answer in an input box instead, interrupt the kernel (■)."
SUBMIT_LABEL = "Submit"
NOT_SEEN = "This cell waits for an answer, but no page has shown its form yet. The form stays open."


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

BOOLEAN = "Question.boolean('sure', 'Sure?')"
SELECT = "Question.select('which', 'Which?', ['red', 'blue'])"
TEXT = "Question.text('why', 'Why?')"
PATIENT = 60.0  # what `prompt_in_cell.py` gives pages, where a test says nothing else


def test_click_resumes_the_waiting_cell_and_leaves_the_kernel_busy(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({BOOLEAN}))")
    user.form("Sure?")
    click = user.click("No")
    user.finish(cell)
    assert "Answered(value=False, channel='form', remember=False, " in user.printed(cell)
    assert statuses(user, click) == ["busy", "idle"]
    states = [
        (m["parent_header"]["msg_type"], m["content"]["execution_state"])
        for m in user.messages
        if m["msg_type"] == "status"
    ]
    # Of a type that pages do not follow: it ends the click, and says nothing about the kernel.
    handled = [at for at, state in enumerate(states) if state == ("kernel_info_request", "idle")]
    assert handled
    assert ("comm_msg", "idle") not in states
    assert all(states[at + 1] == ("execute_request", "busy") for at in handled)
    assert states[-1] == ("execute_request", "idle")


@pytest.mark.kernel
def test_form_that_is_drawn_again_has_no_more_time(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({BOOLEAN}, timeout_s=2.0))")
    beacon = user.form("Sure?")
    until = monotonic() + PATIENCE
    while "timed_out" not in user.printed(cell):  # a page that is loaded again, and again
        assert monotonic() < until
        user.send(beacon, {"type": "rendered"})
        sleep(0.2)
        user.receive(0.0)
    user.finish(cell)
    assert "NotAnswered(end='timed_out', channel='form', by=None)" in user.printed(cell)


BUTTONS: list[tuple[str, str]] = [
    ("Yes", "value=True, channel='form', remember=False"),
    ("Yes, for this turn", "value=True, channel='form', remember=True"),
    ("No", "value=False, channel='form', remember=False"),
    ("No, for this turn", "value=False, channel='form', remember=True"),
    ("Cancel", "end='cancelled'"),
]


def test_each_button_of_a_boolean_question_answers_at_once(user: FrontEnd) -> None:
    for label, answer in BUTTONS:
        cell = user.start(f"print(ask({BOOLEAN}))")
        user.form("Sure?")
        user.click(label)
        user.finish(cell)
        assert answer in user.printed(cell)
        user.forget()


def test_click_on_the_stock_button_submits(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({SELECT}))")
    user.form("Which?")
    user.set(user.model("RadioButtons"), index=1)
    user.click("Submit")
    user.finish(cell)
    assert "Answered(value='blue'" in user.printed(cell)


@pytest.mark.kernel
def test_no_option_is_no_answer(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({SELECT}))")
    beacon = user.form("Which?")
    user.send(beacon, {"type": "submit", "index": None})
    user.wait(lambda m: "Please choose" in str(m["content"].get("data", "")))
    user.send(beacon, {"type": "submit", "index": 99})
    user.send(beacon, {"type": "cancel"})
    user.finish(cell)
    assert "NotAnswered(end='cancelled', channel='form'" in user.printed(cell)


SEND_IT = NOTHING_CHANGED.format(SUBMIT_LABEL)
UNCHOSEN: list[tuple[str, str, dict[str, object], str]] = [
    ("PERMISSION", "Run local rename tool?", {}, NO_BUTTON_CHOSEN),
    (f"QuestionPrompt({BOOLEAN}.with_default(True))", "Sure?", {}, NO_BUTTON_CHOSEN),
    (
        f"QuestionPrompt({SELECT}.with_default('blue'))",
        "Which?",
        {"index": 1},
        NOTHING_CHANGED.format(SUBMIT_LABEL),
    ),
    (f"QuestionPrompt({SELECT})", "Which?", {"index": None}, "choose an option first"),
    (
        f"QuestionPrompt({TEXT}.with_default('x'))",
        "Why?",
        {"value": "x"},
        NOTHING_CHANGED.format(SUBMIT_LABEL),
    ),
]


def test_key_answers_nothing_that_the_user_did_not_choose(user: FrontEnd) -> None:
    for prompt, text, message, says in UNCHOSEN:
        cell = user.start(f"print(prompter.ask_in_cell({prompt}))")
        beacon = user.form(text)
        user.send(beacon, {"type": "unchosen", **message})
        user.wait(lambda m: says in str(m["content"].get("data", "")))
        user.send(beacon, {"type": "submit"} if "PERMISSION" in prompt else {"type": "unchosen"})
        user.send(beacon, {"type": "cancel"})
        user.finish(cell)
        assert "NotAnswered(end='cancelled', channel='form'" in user.printed(cell)
        user.forget()


def test_button_of_a_permission_answers_at_once(user: FrontEnd) -> None:
    cell = user.start("print(prompter.ask_in_cell(PERMISSION))")
    user.form("Run local rename tool?")
    user.click("Allow rename for this turn")
    user.finish(cell)
    assert "Answered(value='run_turn'" in user.printed(cell)
    record = "Run local rename tool? → Allow rename for this turn"
    assert user.displays(cell)[0]["text/plain"] == record


@pytest.mark.kernel
def test_click_counts_while_a_function_keeps_the_kernel_busy(user: FrontEnd) -> None:
    for known in (False, True):
        user.run("" if known else "forget_pages()")
        cell = user.start("print(permit_beside(2.0, rendered_timeout_s=0.5))")
        user.form("Run local rename tool?")
        user.click("Run rename")
        user.finish(cell)
        assert "Answered(value='run', channel='form', " in user.printed(cell)
        assert not user.wants_input()
        assert NOT_SEEN not in str(user.messages)
        user.forget()


@pytest.mark.kernel
def test_time_to_answer_is_paused_while_a_function_keeps_the_kernel_busy(
    user: FrontEnd,
) -> None:
    cell = user.start("print(permit_beside(2.0, timeout_s=1.0))")
    user.form("Run local rename tool?")
    user.click("Skip rename")
    user.finish(cell)
    assert "Answered(value='skip', channel='form', " in user.printed(cell)


@pytest.mark.kernel
def test_form_that_a_known_page_does_not_show_stays_and_no_input_box_opens(
    user: FrontEnd,
) -> None:
    user.run("note_page()")
    cell = user.start(f"print(ask({BOOLEAN}, rendered_timeout_s=0.2))")
    user.wait(lambda m: NOT_SEEN in str(m["content"].get("data", "")))
    assert not user.wants_input()
    user.type("y")  # typed for something else
    user.form("Sure?")  # a page is late
    user.wait(lambda m: m["msg_type"] == "update_display_data" and m["content"]["data"] == {})
    user.click("No")
    user.finish(cell)
    assert "Answered(value=False, channel='form', " in user.printed(cell)
    assert not user.wants_input()
    assert NOT_SEEN not in str(user.outputs(cell))


@pytest.mark.kernel
def test_interrupt_of_a_form_that_no_page_shows_opens_an_input_box(user: FrontEnd) -> None:
    user.run("note_page()")
    for code in (
        "print(ask({}, rendered_timeout_s=0.2))",
        "print(prompter.ask_in_cell(as_prompt({})))",
    ):
        user.messages.clear()
        user.run("prompter.cell_begins(PromptConfig(rendered_timeout_s=0.2))")
        cell = user.start(code.format(BOOLEAN))
        user.wait(lambda m: STDIN_INSTEAD in str(m["content"].get("data", "")))
        user.manager.interrupt_kernel()
        assert user.input_request()["prompt"].startswith("[y/")
        user.type("n")
        user.finish(cell)
        assert "Answered(value=False, channel='stdin', " in user.printed(cell)
        assert NOT_SEEN not in str(user.outputs(cell))


@pytest.mark.kernel
def test_no_input_box_is_opened_for_a_page_that_is_gone(user: FrontEnd) -> None:
    user.run(
        "note_page()\n"
        "pages = KernelPages.of(get_ipython().kernel)\n"
        "pages.can_show_input = lambda request: False"
    )
    cell = user.start(f"print(ask({BOOLEAN}, rendered_timeout_s=0.2))")
    user.wait(lambda m: STDIN_INSTEAD in str(m["content"].get("data", "")))
    user.interrupt(cell)
    assert "NotAnswered(end='interrupted', channel='form', by=None)" in user.printed(cell)
    cell = user.start(f"print(ask({TEXT}, channel='stdin'))")
    user.send(user.form("Why?"), {"type": "submit", "value": "because"})
    user.finish(cell)
    assert "Answered(value='because', channel='form', " in user.printed(cell)
    assert not user.wants_input()
    user.run("pages.can_show_input = lambda request: True")
    cell = user.start(f"print(ask({BOOLEAN}, channel='stdin'))")
    user.input_request()
    user.type("n")
    user.finish(cell)
    assert "value=False, channel='stdin'" in user.printed(cell)


@pytest.mark.kernel
def test_time_to_answer_ends_a_form_that_no_page_shows(user: FrontEnd) -> None:
    user.run("note_page()")
    printed = user.run(f"print(ask({BOOLEAN}, rendered_timeout_s=0.2, timeout_s=0.5))")
    assert "NotAnswered(end='timed_out', channel='form', by=None)" in printed


@pytest.mark.kernel
def test_form_that_cannot_be_made_opens_no_input_box_in_a_known_page(user: FrontEnd) -> None:
    user.run(
        "from jp_nb.notebook.prompt.forms import form\n"
        "import logging; logging.disable(logging.ERROR)\n"
        "whole = form.Form.show\n"
        "def broken(self): raise LookupError('oops')\n"
        "form.Form.show = broken\n"
        "note_page()"
    )
    cell = user.start(f"print(ask({BOOLEAN}))")
    user.wait(lambda m: STDIN_INSTEAD in str(m["content"].get("data", "")))
    assert not user.wants_input()
    user.manager.interrupt_kernel()
    user.input_request()
    user.type("n")
    user.finish(cell)
    assert "value=False, channel='stdin'" in user.printed(cell)
    user.run("form.Form.show = whole; logging.disable(logging.NOTSET)")


@pytest.mark.kernel
def test_known_page_is_waited_for_by_the_widget_channel_too(user: FrontEnd) -> None:
    user.run("note_page()")
    cell = user.start(f"print(ask({BOOLEAN}, channel='widget', rendered_timeout_s=0.2))")
    notice = user.wait(lambda m: NOT_SEEN in str(m["content"].get("data", "")))
    assert STDIN_INSTEAD not in str(notice["content"])
    user.interrupt(cell)
    assert "NotAnswered(end='interrupted', channel='form', by=None)" in user.printed(cell)


def test_later_cells_stay_queued_and_run_in_order(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({TEXT})); order = ['waited']")
    later = [user.start(f"order.append({n})") for n in range(2)]
    beacon = user.form("Why?")
    sleep(0.2)
    assert not any(statuses(user, request) for request in later)
    user.send(beacon, {"type": "submit", "value": "because"})
    user.finish(cell)
    for request in later:
        user.finish(request)
    assert user.run("print(order)") == "['waited', 0, 1]\n"


@pytest.mark.kernel
def test_questions_of_one_batch_are_shown_one_after_the_other(user: FrontEnd) -> None:
    cell = user.start(f"for end in ask({BOOLEAN}, {TEXT}): print(end)")
    user.form("Sure?")
    assert "Why?" not in str(user.models)
    user.click("Yes")
    user.send(user.form("Why?"), {"type": "submit", "value": ""})
    user.finish(cell)
    assert "value=True" in user.printed(cell)
    assert "value=''" in user.printed(cell)


def test_no_widget_remains_of_a_form(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({BOOLEAN}.with_context('Read **this**.')))")
    user.form("Sure?")
    assert user.model("Output")
    user.click("Yes")
    user.finish(cell)
    closed = {m["content"]["comm_id"] for m in user.messages if m["msg_type"] == "comm_close"}
    assert closed == set(user.models)


PAGES = f"{BOOLEAN}, {SELECT}, {TEXT}"


@pytest.mark.kernel
@pytest.mark.req("RCP-87", "RPI-77", "RPI-78", "RPI-80")
def test_interrupt_closes_every_widget_of_every_page(user: FrontEnd) -> None:
    cell = user.start(f"print(ask_form({PAGES}, partial=True, menu=True))")
    beacon = user.form("Sure?")
    for step, name in enumerate(("next", "next", "cancel")):
        user.send(beacon, {"type": name, "step": step})
    user.wait(lambda m: m["content"].get("data", {}).get("state", {}).get("step") == 3)
    user.interrupt(cell)
    assert "NotAnswered(end='interrupted', channel='form', by=None)" in user.printed(cell)
    closed = {m["content"]["comm_id"] for m in user.messages if m["msg_type"] == "comm_close"}
    assert {key: x for key, x in user.models.items() if key not in closed} == {}
    late = user.send(beacon, {"type": "submit", "step": 3})
    assert user.run("print('next')") == "next\n"
    assert user.printed(late) == ""


@pytest.mark.kernel
@pytest.mark.req("RPI-79", "RCP-86")
def test_form_cancelled_before_its_turn_is_never_shown(user: FrontEnd) -> None:
    user.run(
        "async def gone():\n"
        "    first = asyncio.ensure_future(prompter.ask(QuestionPrompt("
        "Question.text('why', 'Why?'))))\n"
        "    pages = (QuestionPrompt(Question.text('never', 'Never shown?')),)\n"
        "    second = asyncio.ensure_future(prompter.ask(FormPrompt(pages)))\n"
        "    await asyncio.sleep(0)\n"
        "    second.cancel()\n"
        "    return await first"
    )
    user.messages.clear()
    cell = user.start("print(turn(gone))")
    user.send(user.form("Why?"), {"type": "submit", "value": "because"})
    user.finish(cell)
    assert "value='because'" in user.printed(cell)
    assert "Never shown?" not in str(user.messages)


@pytest.mark.kernel
@pytest.mark.req("RPI-81", "RCP-92")
def test_form_that_cannot_be_shown_is_asked_on_stdin(user: FrontEnd) -> None:
    user.run(
        "forget_pages()\n"
        "from jp_nb.notebook.prompt.forms import form\n"
        "import logging; logging.disable(logging.ERROR)\n"
        "whole = form.Form._draw\n"
        "def broken(self): raise LookupError('oops')\n"
        "form.Form._draw = broken"
    )
    cell = user.start(f"print(ask_form({SELECT}))")
    assert "umber" in user.input_request()["prompt"]
    user.type("2")
    user.finish(cell)
    assert "value='blue', channel='stdin'" in user.printed(cell)
    user.run("form.Form._draw = whole; logging.disable(logging.NOTSET)")


@pytest.mark.kernel
@pytest.mark.req("RPI-73", "HB-2")
def test_answer_picked_in_time_is_kept(user: FrontEnd) -> None:
    cell = user.start(f"print(ask_form({SELECT}, {TEXT}, partial=True, timeout_s=1.5))")
    beacon = user.form("Which?")
    listed = user.model("RadioButtons")
    for index in (0, 1, 0, 1):  # longer than there is time without a change
        sleep(0.8)
        user.set(listed, index=index)
    user.send(beacon, {"type": "next", "step": 0})
    user.wait(lambda m: m["content"].get("data", {}).get("state", {}).get("step") == 1)
    user.send(beacon, {"type": "rendered", "step": 1})
    user.finish(cell)
    assert "Answered(value='blue', channel='form', remember=False, marks=frozenset(), by=None," in (
        user.printed(cell)
    )
    assert "NotAnswered(end='timed_out', channel='form', by=None)" in user.printed(cell)


@pytest.mark.kernel
def test_time_passes_for_a_form_whose_page_was_closed(user: FrontEnd) -> None:
    cell = user.start(
        f"print(ask_form({SELECT}, {TEXT}, partial=True, timeout_s=0.3, rendered_timeout_s=5))"
    )
    user.form("Which?")  # and then the page is closed
    user.finish(cell)
    assert user.printed(cell).count("NotAnswered(end='timed_out', channel='form', by=None)") == 2


def test_late_click_changes_nothing(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({BOOLEAN}))")
    beacon = user.form("Sure?")
    user.click("Yes")
    user.click("No")
    user.click("Cancel")
    user.finish(cell)
    late = user.send(beacon, {"type": "cancel"})
    assert user.run("print('next')") == "next\n"
    assert user.printed(cell).count("value=True") == 1
    assert user.printed(late) == ""


def test_other_widgets_work_while_a_prompt_waits(user: FrontEnd) -> None:
    user.run(
        "import ipywidgets\nslider = ipywidgets.IntSlider()\nseen = []\n"
        "slider.observe(lambda change: seen.append(change['new']), 'value')"
    )
    slider = user.model("IntSlider")
    cell = user.start(f"_ = ask({BOOLEAN}); print(seen)")
    beacon = user.form("Sure?")
    user.set(slider, value=7)
    user.send(beacon, {"type": "cancel"})
    user.finish(cell)
    assert user.printed(cell) == "[7]\n"


@pytest.mark.kernel
def test_requests_of_a_reloaded_page_are_answered(user: FrontEnd) -> None:
    cell = user.start(f"_ = ask({BOOLEAN})")
    beacon = user.form("Sure?")
    reply = user.client.comm_info(target_name="jupyter.widget", reply=True, timeout=PATIENCE)
    assert beacon in reply["content"]["comms"]
    assert user.client.kernel_info(reply=True, timeout=PATIENCE)["content"]["status"] == "ok"
    user.send(beacon, {"type": "cancel"})
    user.finish(cell)


@pytest.mark.kernel
def test_output_of_the_cell_stays_with_the_cell(user: FrontEnd) -> None:
    cell = user.start(
        f"print('before', end=' '); prompter.ask_in_cell(QuestionPrompt({TEXT})); print('after')"
    )
    user.send(user.form("Why?"), {"type": "submit", "value": "x"})
    user.finish(cell)
    assert user.printed(cell) == "before after\n"


@pytest.mark.kernel
def test_input_works_afterwards(user: FrontEnd) -> None:
    cell = user.start(f"_ = ask({BOOLEAN}); print(input('name? '))")
    user.form("Sure?")
    user.click("Yes")
    assert user.input_request() == {"prompt": "name? ", "password": False}
    user.type("Ada")
    user.finish(cell)
    assert user.printed(cell) == "Ada\n"


@pytest.mark.kernel
def test_interrupt_ends_every_prompt_of_the_cell(user: FrontEnd) -> None:
    cell = user.start(f"for end in ask({BOOLEAN}, {TEXT}): print(end)")
    user.form("Sure?")
    user.manager.interrupt_kernel()
    user.finish(cell)  # nothing else would end it
    interrupted = "NotAnswered(end='interrupted', channel='form', by=None)"
    assert user.printed(cell).splitlines() == [interrupted, interrupted]
    assert user.displays(cell) == [{}]
    assert user.run("print(cell_loop._listener is cell_loop._job_listener)") == "True\n"


@pytest.mark.kernel
def test_interrupt_at_any_moment_leaves_the_kernel_as_it_was(user: FrontEnd) -> None:
    for moment in range(15):
        cell = user.start(f"_ = ask({BOOLEAN})")
        user.form("Sure?")  # and with it a message that is handled just now
        sleep(moment % 8 / 1600)
        user.interrupt(cell)
        user.messages.clear()
        user.models.clear()
    request = user.start("print(prompter._view._pump, prompter._open, prompter._view._form)")
    user.finish(request)
    assert user.printed(request) == "None {} None\n"


@pytest.mark.kernel
def test_code_in_the_cell_is_interrupted_while_it_asks(user: FrontEnd) -> None:
    cell = user.start(f"prompter.ask_in_cell(QuestionPrompt({TEXT})); print('not reached')")
    user.form("Why?")
    user.manager.interrupt_kernel()
    user.finish(cell)
    assert user.printed(cell) == ""
    assert "→ interrupted" in user.displays(cell)[0]["text/plain"]


def test_without_a_page_stdin_answers(user: FrontEnd) -> None:
    user.run("forget_pages()")
    cell = user.start(f"print(ask({BOOLEAN}, rendered_timeout_s=0.2))")
    assert user.input_request() == {"prompt": "[y/Y/n/N/?] ", "password": False}
    user.type("N")
    user.finish(cell)
    assert "Sure? (asked by tool some_tool)" in user.printed(cell)
    assert "Answered(value=False, channel='stdin', remember=True, " in user.printed(cell)
    assert user.displays(cell) == [{}]


def test_secret_on_stdin_is_a_password(user: FrontEnd) -> None:
    secret = "Question.secret('key', 'Key?')"
    cell = user.start(f"end, = ask({secret}, channel='stdin'); print(len(end.value))")
    assert user.input_request() == {"prompt": "Secret: ", "password": True}
    user.type("hunter2")
    user.finish(cell)
    assert user.printed(cell).endswith("7\n")
    assert "hunter2" not in str(user.messages)


@pytest.mark.kernel
def test_interrupted_input_ends_the_prompt(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({TEXT}, channel='stdin'))")
    user.input_request()
    user.manager.interrupt_kernel()
    user.finish(cell)
    assert "NotAnswered(end='interrupted', channel='stdin', by=None)" in user.printed(cell)


@pytest.mark.kernel
def test_deadline_ends_a_form_and_an_input(user: FrontEnd) -> None:
    cell = user.start(f"print(ask({TEXT}, timeout_s=0.2))")
    user.form("Why?")
    user.finish(cell)
    assert "NotAnswered(end='timed_out', channel='form', by=None)" in user.printed(cell)
    cell = user.start(
        f"print(ask({TEXT}, timeout_s=2, channel='stdin'))"
    )  # this includes the time to ask
    user.input_request()
    user.finish(cell)
    assert "NotAnswered(end='timed_out', channel='stdin', by=None)" in user.printed(cell)
    assert user.run("print('next')") == "next\n"


@pytest.mark.kernel
def test_cancelling_the_task_takes_the_prompt_away(user: FrontEnd) -> None:
    user.run(
        "from pathlib import Path\n"
        "async def impatient():\n"
        "    question = QuestionPrompt(Question.text('why', 'Why?'))\n"
        "    asking = asyncio.ensure_future(prompter.ask(question))\n"
        "    while not Path('seen').exists():\n"
        "        await asyncio.sleep(0.01)\n"
        "    asking.cancel()\n"
        "    try:\n"
        "        await asking\n"
        "    except asyncio.CancelledError:\n"
        "        return 'gave up'"
    )
    seen = Path(user.manager.connection_file).with_name("seen")
    cell = user.start("print(turn(impatient))")
    user.form("Why?")
    seen.touch()
    user.finish(cell)
    assert user.printed(cell) == "gave up\n"
    assert user.displays(cell) == [{}]
    seen.unlink()
    cell = user.start("print(turn(impatient, channel='stdin'))")
    user.input_request()
    seen.touch()
    user.finish(cell)
    assert user.printed(cell).endswith("gave up\n")


@pytest.mark.kernel
def test_def_tool_may_ask_while_other_tools_queue(user: FrontEnd) -> None:
    user.run(
        "def asks():\n"
        "    return prompter.ask_in_cell(QuestionPrompt(Question.text('why', 'Why?'))).value\n"
        "log = []\n"
        "async def tools():\n"
        "    return await asyncio.gather(\n"
        "        cell_loop.call(asks), cell_loop.call(lambda: log.append(1) or log))"
    )
    cell = user.start("print(turn(tools))")
    beacon = user.form("Why?")
    user.send(beacon, {"type": "submit", "value": "because"})
    user.finish(cell)
    assert user.printed(cell) == "['because', [1]]\n"


@pytest.mark.req("R083-99")
def test_without_a_user_the_prompt_ends_at_once_with_a_reason(user: FrontEnd) -> None:
    began = monotonic()
    request = user.start(f"print(ask({BOOLEAN})); print(prompter.unavailable())", allow_stdin=False)
    user.finish(request)
    assert monotonic() - began < PATIENT  # it waited for no page
    reason = "the front end does not allow input (the notebook runs headless)"
    assert user.printed(request).count(reason) == 2


@pytest.mark.kernel
def test_page_is_demanded_by_the_widget_channel(user: FrontEnd) -> None:
    user.run("forget_pages()")
    printed = user.run(f"print(ask({BOOLEAN}, channel='widget', rendered_timeout_s=0.2))")
    assert "no page showed the form within 0.2 s and prompt.channel is 'widget'" in printed


@pytest.mark.kernel
def test_console_is_asked_on_stdin_after_a_short_try(user: FrontEnd) -> None:
    began = monotonic()
    request = user.start(f"_ = ask({TEXT})", cell_id=None)
    user.input_request()
    assert 1.5 <= monotonic() - began < PATIENT
    user.type("because")
    user.finish(request)


@pytest.mark.kernel
def test_open_figures_are_shown_with_the_question_and_by_no_click(user: FrontEnd) -> None:
    if "yes" not in user.run(
        "import importlib.util\nprint('yes' if importlib.util.find_spec('matplotlib') else 'no')"
    ):
        pytest.skip("the kernel has no matplotlib")
    user.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
    cell = user.start(f"plt.plot([1, 2]); _ = ask({BOOLEAN}); plt.plot([2, 1]); print('drawn')")
    user.form("Sure?")
    click = user.click("Yes")
    user.finish(cell)
    figures = [m for m in user.messages if "image/png" in m["content"].get("data", {})]
    assert len(figures) == 2
    assert all(m["parent_header"]["msg_id"] == cell for m in figures)
    assert statuses(user, click) == ["busy", "idle"]
    user.run("%matplotlib agg")


def test_interrupt_at_the_moment_of_the_notice_opens_the_input_box(user: FrontEnd) -> None:
    user.run(
        "import os, signal\n"
        "from jp_nb.notebook.prompt.forms.form_output import SeparateOutput\n"
        "note_page()\n"
        "whole = SeparateOutput.show_note\n"
        "def interrupted(self, note):\n"
        "    whole(self, note)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "SeparateOutput.show_note = interrupted\n"
    )
    cell = user.start(f"print(ask({BOOLEAN}, rendered_timeout_s=0.2))")
    assert user.input_request()["prompt"].startswith("[y/")
    user.type("n")
    user.finish(cell)
    user.run("SeparateOutput.show_note = whole")
    assert "value=False, channel='stdin'" in user.printed(cell)

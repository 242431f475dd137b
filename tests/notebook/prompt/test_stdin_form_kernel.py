"""A form in the input box of a real kernel's front end: secrets, deadlines, interrupts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

QUESTIONS = (
    "Question.select('store', 'Which store?', ['pg', 'rd'], multi=True, other=True), "
    "Question.secret('key', 'Which key?'), "
    "Question.integer('count', 'How many?', minimum=1)"
)


def type_in(user: FrontEnd, *lines: str) -> list[str]:
    """Type `lines`, each when it is wanted; return the prompts before them."""
    prompts = []
    for line in lines:
        wanted = user.input_request()
        prompts.append(f"{wanted['prompt']}{'•' if wanted['password'] else ''}")
        user.type(line)
    return prompts


@pytest.mark.req("RCP-22", "RPI-60")
def test_form_is_answered_line_by_line(user: FrontEnd) -> None:
    cell = user.start(f"for end in ask_form({QUESTIONS}, channel='stdin').ends: print(end.value)")
    assert type_in(user, "3,2", "mine", "hunter2", "<", "", "0", "7", "s") == [
        "Numbers: ",
        "Your answer: ",
        "Secret: •",
        "A whole number of at least 1: ",
        "Secret: •",
        "A whole number of at least 1: ",
        "A whole number of at least 1: ",
        "[s/1-3/</!/?] ",
    ]
    user.finish(cell)
    printed = user.printed(cell)
    assert "3 questions." in printed
    assert [line for line in printed.split("\n") if line.startswith("Question ")] == [
        f"Question {number} of 3" for number in (1, 2, 3, 2, 3)
    ]
    assert "  Enter keeps: (secret) · < back · - clear · ! leave · ? help" in printed
    assert printed.endswith("{'selected': ['rd'], 'custom': 'mine'}\nhunter2\n7\n")
    assert printed.count("hunter2") == 1  # what the cell itself prints


@pytest.mark.req("RPI-75")
def test_each_line_has_its_own_time_and_earlier_answers_stay(user: FrontEnd) -> None:
    cell = user.start(
        f"for end in ask_form({QUESTIONS}, partial=True, channel='stdin', timeout_s=2).ends:\n"
        "    print(end)"
    )
    type_in(user, "2,1")
    for _ in range(2):
        user.input_request()  # and no line comes
    user.finish(cell)
    *_, first, second, third, _ = user.printed(cell).split("\n")
    assert "['rd', 'pg']" in first
    assert second == third == "NotAnswered(end='timed_out', channel='stdin', by=None)"
    assert user.run("print('next')") == "next\n"


@pytest.mark.req("RPI-77")
def test_interrupt_ends_the_whole_form(user: FrontEnd) -> None:
    cell = user.start(f"print(ask_form({QUESTIONS}, menu=True, channel='stdin'))")
    type_in(user, "1")
    user.input_request()
    user.manager.interrupt_kernel()
    user.finish(cell)
    assert user.printed(cell).endswith("NotAnswered(end='interrupted', channel='stdin', by=None)\n")


@pytest.mark.req("RPI-80")
def test_cancelling_the_task_takes_the_form_away(user: FrontEnd) -> None:
    user.run(
        "from pathlib import Path\n"
        "from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt\n"
        "async def impatient():\n"
        f"    pages = tuple(QuestionPrompt(question) for question in ({QUESTIONS}))\n"
        "    asking = asyncio.ensure_future(prompter.ask(FormPrompt(pages, menu=True)))\n"
        "    while not Path('typed').exists():\n"
        "        await asyncio.sleep(0.01)\n"
        "    asking.cancel()\n"
        "    try:\n"
        "        await asking\n"
        "    except asyncio.CancelledError:\n"
        "        return 'gave up'"
    )
    typed = Path(user.manager.connection_file).with_name("typed")
    cell = user.start("print(turn(impatient, channel='stdin'))")
    type_in(user, "1")
    user.input_request()
    typed.touch()
    user.finish(cell)
    assert user.printed(cell).endswith("gave up\n")
    assert "Question 3" not in user.printed(cell)
    assert user.run("print('next')") == "next\n"


@pytest.mark.req("RPI-86")
def test_open_form_that_no_page_shows_is_a_text_with_its_questions(user: FrontEnd) -> None:
    cell = user.start(f"ask_form({QUESTIONS})")
    user.form("Which store?")
    (shown,) = user.displays(cell)
    assert shown["text/plain"].split("\n") == [
        "asked by tool some_tool",
        "1. Which store?",
        "    ☐ pg",
        "    ☐ rd",
        "2. Which key?",
        "3. How many?",
        "[You can answer only while the form is shown. Without a form, you are asked as text.]",
    ]
    user.manager.interrupt_kernel()
    user.finish(cell)


@pytest.mark.req("RPI-84", "RCP-93")
def test_code_in_the_cell_leaves_the_record_of_its_form(user: FrontEnd) -> None:
    user.run("from jp_nb.agent.prompting.prompts import FormPrompt, QuestionPrompt")
    pages = f"tuple(QuestionPrompt(question) for question in ({QUESTIONS}))"
    cell = user.start(f"prompter.ask_in_cell(FormPrompt({pages})); print('not reached')")
    user.form("Which store?")
    user.manager.interrupt_kernel()
    user.finish(cell)
    (record,) = user.displays(cell)
    assert record["text/plain"] == (
        "Which store? → interrupted\nWhich key? → interrupted\nHow many? → interrupted"
    )
    assert record["text/markdown"].startswith("Which store? → **interrupted**\n\nWhich key?")

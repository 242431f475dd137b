"""`%%jp` in a real kernel: tools, questions, interrupts, and the outputs of the cell."""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Any

import pytest

from tests.support.cells import calls, error, events, kernel_with, run, start, value, well_formed
from tests.support.kernel_client import FrontEnd

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

TOOLS = """
import asyncio, sys, time
import jp_nb as jp

@jp.tool
def look(place: str) -> str:
    print("looking at", place)
    return f"{place} is fine"

@jp.tool
async def wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"

@jp.tool(thread=True)
def work(seconds: float) -> str:
    print("work begins", flush=True)
    time.sleep(seconds)
    return "worked"

@jp.tool
def fail(how: str) -> str:
    if how == "exit":
        sys.exit(3)
    raise LookupError(how)

@jp.tool
def rename(ctx: jp.ToolContext) -> jp.Outcome:
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("sure", "Rename it?"))
    return jp.Success(f"sure={ctx.answers['sure']}")

@jp.tool
def spoil(items: list[int]) -> str:
    items.clear()
    return "spoilt"

@jp.tool
async def cancel_all() -> str:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(5)
    return "never"

@jp.tool
def plot() -> str:
    import matplotlib.pyplot as plt
    plt.plot([1, 2])
    plt.show()
    print("from def")
    return "plotted"

@jp.tool
def draw() -> str:
    import matplotlib.pyplot as plt
    plt.plot([1, 2])
    return "drawn"

@jp.tool
async def murmur() -> str:
    await asyncio.sleep(0.05)
    print("from async def")
    return "murmured"

@jp.tool(thread=True)
def mutter() -> str:
    print("from a thread")
    return "muttered"

@jp.tool
def chat() -> str:
    return "heard " + jp.ask(jp.Question.select("mood", "What mood?", ["good", "rather bad"]))

@jp.tool
def login() -> str:
    global kept
    kept = jp.ask(jp.Question.secret("password", "Password?"))
    jp.ask(jp.Question.boolean("sure", f"Use {kept}?").with_context(f"It is {kept}."))
    return "in with " + kept

@jp.tool
def tell() -> str:
    return "kept " + kept

@jp.tool(thread=True)
def signed() -> str:
    import threading
    got = []
    thread = threading.Thread(target=lambda: got.append(jp.ask(jp.Question.secret("p", "PIN?"))))
    thread.start()
    thread.join()
    return "signed with " + got[0]
"""


SCRIPTS = {
    "look": '[[replies]]\ntext = "Let me look."\ntool_calls = [{ name = "look", arguments = { '
    'place = "Delft" } }]\n[[replies]]\nexpect = "Delft is fine"\ntext = "It is **fine**."\n',
    "slow": f'[[replies]]\ntext = "one two {"and so on " * 1000}"\nchunk_ms = 200\n',
    "long": f'[[replies]]\ntext = "{"word " * 2000}"\nchunk_ms = 0\n',
    "wait": calls(("look", {"place": "Delft"}), ("wait", {"seconds": 30.0})),
    "question": calls(("rename", {})) + '[[replies]]\nexpect = "sure=True"\ntext = "Renamed."\n',
    "ask": calls(("ask_user", {"question": "Ship it?", "answer_type": "boolean"}))
    + '[[replies]]\nwhen = "true"\ntext = "Shipped."\n[[replies]]\ntext = "Not shipped."\n',
    "chat": calls(("chat", {})) + '[[replies]]\nexpect = "heard rather bad"\ntext = "I see."\n',
    "login": calls(("login", {})) + '[[replies]]\nexpect = "in with (secret)"\ntext = "Good."\n',
    "tell": calls(("tell", {})) + '[[replies]]\nexpect = "kept (secret)"\ntext = "Still."\n',
    "signed": calls(("signed", {}))
    + '[[replies]]\nexpect = "signed with (secret)"\ntext = "Signed."\n',
    "shown": calls(("plot", {}), ("murmur", {}), ("mutter", {})) + '[[replies]]\ntext = "Seen."\n',
    "drawn": calls(("draw", {}), ("look", {"place": "Delft"})) + '[[replies]]\ntext = "Seen."\n',
    "murmured": calls(("murmur", {})) + '[[replies]]\ntext = "Heard."\n',
    "spoil": calls(("spoil", {"items": [1, 2]})) + '[[replies]]\ntext = "Hm."\n',
    "cancel": calls(("cancel_all", {})),
    "mixed": calls(("wait", {"seconds": 0.2}), ("look", {"place": "A"}), ("work", {"seconds": 0.1}))
    + '[[replies]]\ntext = "All three."\n',
    "errors": calls(("fail", {"how": "lost"}), ("fail", {"how": "exit"}), ("look", {"where": 1}))
    + '[[replies]]\ntext = "Three errors."\n',
    "echo": '[[replies]]\ntext = "ok"\n' * 5,
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("turns")
    with kernel_with(folder, SCRIPTS, TOOLS) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    kernel.forget()
    return kernel


@pytest.mark.parametrize("allow_stdin", [True, False])
def test_output_of_a_function_is_shown_between_its_line_and_the_next_text(
    user: FrontEnd, allow_stdin: bool
) -> None:
    before, printed, after = user.outputs(run(user, "look", allow_stdin=allow_stdin))
    assert before["data"] == {
        "text/plain": 'Let me look.\n✓ look(place="Delft")',
        "text/markdown": 'Let me look.\n\n✓ `look(place="Delft")`\n\n'
        "<details><summary>result (13 characters)</summary>\n\n"
        "```text\nDelft is fine\n```\n\n</details>",
    }
    assert printed == {"name": "stdout", "text": "looking at Delft\n"}
    assert after["data"] == {"text/plain": "It is **fine**.", "text/markdown": "It is **fine**."}
    assert before["metadata"] == after["metadata"] == {}  # nothing that differs from run to run


def test_query_without_display_shows_only_its_questions(user: FrontEnd) -> None:
    query = "jp.query('Go.', model='scripted/{}', new=True, display=False)"
    silent = user.start(f"turn = {query.format('spoil')}")
    user.finish(silent)
    assert user.outputs(silent) == []
    assert value(user, "[turn is _jp, turn.text, [c.content for c in turn.tool_calls]]") == [
        True,
        "Hm.",
        ["spoilt"],
    ]

    asks = user.start(f"print({query.format('question')}.text)")
    user.form("Rename it?")
    user.click("Yes")
    user.finish(asks)
    assert user.printed(asks) == "Renamed.\n"
    assert "Rename" not in str(user.displays(asks))


def test_long_answer_has_a_bounded_number_of_updates(user: FrontEnd) -> None:
    request = run(user, "long", "-o answer")
    shown = [
        m
        for m in user.messages
        if "display_data" in m["header"]["msg_type"] and m["parent_header"]["msg_id"] == request
    ]
    assert len(shown) < 60
    assert shown[-1]["content"]["data"]["text/plain"].count("word") == 2000
    assert value(user, "[answer is _jp, answer is jp.last]") == [True, True]


@pytest.mark.kernel
def test_functions_coroutines_and_threads_run_in_one_batch(user: FrontEnd) -> None:
    run(user, "mixed")
    contents = [e["content"] for e in events(user) if e["type"] == "tool_call_response"]
    assert contents == ["waited", "A is fine", "worked"]


@pytest.mark.kernel
def test_tool_cannot_change_the_record(user: FrontEnd) -> None:
    run(user, "spoil")
    (asked,) = [e for e in events(user) if e["type"] == "tool_call_request"]
    assert asked["arguments"] == {"items": [1, 2]}
    user.run("jp.conversation().turns[0].tool_calls[0].arguments.clear()")
    (asked,) = [e for e in events(user) if e["type"] == "tool_call_request"]
    assert asked["arguments"] == {"items": [1, 2]}


@pytest.mark.kernel
def test_tool_that_cancels_all_tasks_ends_only_its_turn(user: FrontEnd) -> None:
    request = run(user, "cancel")
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "KeyboardInterrupt"
    assert well_formed(events(user))
    assert user.displays(run(user, "echo"))[-1]["text/plain"] == "ok"


@pytest.mark.kernel
def test_prints_and_figures_of_tools_are_shown_in_the_cell(user: FrontEnd) -> None:
    user.run("%matplotlib inline")
    request = run(user, "shown")
    assert user.printed(request) == "from def\n"
    shown = user.displays(request)
    transcript = "\n".join(data["text/plain"] for data in shown)
    for text in ("    from async def\n", "    from a thread\n"):
        assert transcript.count(text) == 1
    assert [set(data) & {"image/png", "text/markdown"} for data in shown].count({"image/png"}) == 1
    assert sum("Seen." in data["text/plain"] for data in shown) == 1


def order(user: FrontEnd, request: str) -> list[str]:
    """Return the outputs of a turn as text; other outputs unchanged."""
    return [
        "figure"
        if "image/png" in output.get("data", {})
        else output["text"]
        if "text" in output
        else output["data"]["text/plain"]
        for output in user.outputs(request)
    ]


@pytest.mark.kernel
@pytest.mark.parametrize("allow_stdin", [True, False])
def test_figure_is_shown_below_the_call_that_drew_it(user: FrontEnd, allow_stdin: bool) -> None:
    user.run("%matplotlib inline")
    assert order(user, run(user, "drawn", allow_stdin=allow_stdin)) == [
        "✓ draw()",
        "figure",
        '✓ look(place="Delft")',
        "looking at Delft\n",
        "Seen.",
    ]


@pytest.mark.kernel
def test_prints_of_coroutines_are_shown_below_their_lines(user: FrontEnd) -> None:
    assert order(user, run(user, "murmured")) == [
        "✓ murmur()\n    from async def\nHeard.",
    ]


def test_errors_of_tools_are_reported_to_the_model_and_the_turn_continues(user: FrontEnd) -> None:
    request = run(user, "errors")
    assert error(user, request) is None
    contents = [e["content"] for e in events(user) if e["type"] == "tool_call_response"]
    assert contents[0] == "LookupError: lost"
    assert "SystemExit" in contents[1]
    assert contents[2].startswith("Invalid arguments for look: place: Field required; where:")
    (shown,) = user.displays(request)
    assert shown["text/plain"].endswith("Three errors.")
    assert "raise LookupError(how)" in shown["text/markdown"]
    assert "ipykernel_" not in shown["text/markdown"]  # nothing that differs from run to run


@pytest.mark.req("R083-2", "R083-29")
def test_ask_user_is_answered_in_the_running_cell(user: FrontEnd) -> None:
    request = start(user, "ask")
    user.form("Ship it?")
    user.click("Yes")
    user.finish(request)
    (shown,) = user.displays(request)
    assert shown["text/plain"] == "? Assistant: Ship it? → Yes\nShipped."
    entries = events(user)
    assert well_formed(entries)
    (closing,) = [e for e in entries if e["type"] == "inquiry_response"]
    assert closing["answer"] is True
    assert closing["metadata"] == {"end": "answered", "channel": "form"}
    assert sum(e["type"] == "turn_start" for e in entries) == 1


def test_question_is_recorded_before_it_is_answered(user: FrontEnd) -> None:
    start(user, "question")
    user.form("Rename it?")
    code = "print([e['type'] for e in jp.conversation().events][-2:])"
    peek = user.start(code)  # waits behind the cell, as it should
    user.click("Yes")
    user.finish(peek)
    kinds = [e["type"] for e in events(user)]
    assert kinds.index("inquiry_request") < kinds.index("inquiry_response")


@pytest.mark.kernel
def test_question_of_a_function_is_asked_in_the_same_cell(user: FrontEnd) -> None:
    request = start(user, "chat")
    beacon = user.form("What mood?")
    user.send(beacon, {"type": "submit", "index": 1})
    user.finish(request)
    assert error(user, request) is None
    assert "I see." in user.displays(request)[-1]["text/plain"]


def test_secret_that_a_tool_asks_for_and_returns_is_hidden(user: FrontEnd) -> None:
    request = start(user, "login")
    beacon = user.form("Password?")
    user.send(beacon, {"type": "submit", "value": "hunter2"})
    user.form("Use (secret)?")
    user.click("Yes")
    user.finish(request)
    assert "Good." in user.displays(request)[-1]["text/plain"]
    later = run(user, "tell")
    assert "Still." in user.displays(later)[-1]["text/plain"]
    assert "hunter2" not in repr(user.messages)


@pytest.mark.kernel
def test_secret_that_a_thread_of_a_tool_asks_for_is_hidden(user: FrontEnd) -> None:
    request = start(user, "signed")
    beacon = user.form("PIN?")
    user.send(beacon, {"type": "submit", "value": "hunter3"})
    user.finish(request)
    assert "Signed." in user.displays(request)[-1]["text/plain"]
    assert "hunter3" not in repr(user.messages)


def interrupt(user: FrontEnd, script: str) -> list[dict[str, Any]]:
    """Interrupt a turn once it is under way, end it, and return its entries."""
    request = start(user, script)
    seen = {"slow": "two", "wait": "✓"}
    if script == "question":
        user.form("Rename it?")
    else:
        user.wait(
            lambda m: seen[script] in m["content"].get("text", str(m["content"].get("data", "")))
        )
    user.manager.interrupt_kernel()
    user.form("Interrupted")
    user.click("End the turn and keep the answer so far" if script == "slow" else "End the turn")
    user.finish(request)
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "KeyboardInterrupt"
    assert failure["traceback"] == ["Interrupted. Everything received so far is in the record."]
    entries = events(user)
    assert well_formed(entries)
    again = run(user, "echo")
    assert user.displays(again)[-1]["text/plain"] == "ok"
    return entries


def test_interrupt_keeps_the_answer_so_far_and_the_next_cell_works(user: FrontEnd) -> None:
    *_, last = interrupt(user, "slow")
    assert last["type"] == "chat_response"
    assert last["message"].startswith("one two")


@pytest.mark.kernel
@pytest.mark.parametrize("script", ["wait", "question"])
def test_interrupt_ends_tools_and_questions_and_the_next_cell_works(
    user: FrontEnd, script: str
) -> None:
    entries = interrupt(user, script)
    if script == "wait":  # a call that was done before keeps its result
        responses = [e for e in entries if e["type"] == "tool_call_response"]
        assert responses[0]["content"] == "Delft is fine"
        assert not responses[1]["is_error"]
    if script == "question":
        (closing,) = [e for e in entries if e["type"] == "inquiry_response"]
        assert closing["metadata"]["end"] == "interrupted"


@pytest.mark.kernel
def test_queued_cells_run_in_order_after_a_question(user: FrontEnd) -> None:
    request = start(user, "ask")
    second = user.start("print('second')")
    third = user.start("print('third')")
    user.form("Ship it?")
    sleep(0.2)
    assert user.printed(second) == ""
    user.click("No")
    user.finish(third)
    order = [
        m["parent_header"]["msg_id"]
        for m in user.messages
        if m["header"]["msg_type"] == "status" and m["content"]["execution_state"] == "idle"
    ]
    assert [r for r in order if r in (request, second, third)] == [request, second, third]


@pytest.mark.req("R083-75", "R083-76", "R083-77")
def test_unattended_question_fails_and_the_turn_continues(user: FrontEnd) -> None:
    request = run(user, "ask", allow_stdin=False)
    assert error(user, request) is None
    (shown,) = user.displays(request)
    assert shown["text/plain"].endswith("Not shipped.")
    (response,) = [e for e in events(user) if e["type"] == "tool_call_response"]
    assert response["is_error"]
    assert response["content"] == (
        "ask_user cannot run because no interactive terminal is available. Do not retry this tool "
        "call in this turn; continue without user input or explain what information is missing."
    )
    (closing,) = [e for e in events(user) if e["type"] == "inquiry_response"]
    assert closing["reason"] == "no_prompt_backend"
    assert not [m for m in user.messages if m["header"]["msg_type"] == "comm_open"]


def test_strict_fails_the_cell_and_keeps_the_record_well_formed(user: FrontEnd) -> None:
    request = run(user, "ask", "--strict", allow_stdin=False)
    failure = error(user, request)
    assert failure is not None
    assert failure["ename"] == "PromptUnavailable"
    assert len(failure["traceback"]) == 1
    entries = events(user)
    assert well_formed(entries)
    assert entries[-1]["type"] == "tool_call_response"


@pytest.mark.req("R083-47")
def test_configured_answer_is_used_when_unattended(user: FrontEnd) -> None:
    option = "-c conversation.tools.ask_user.questions.answer.answer:=true"
    request = run(user, "ask", option, allow_stdin=False)
    (shown,) = user.displays(request)
    assert shown["text/plain"] == "? Assistant: Ship it? → Yes (configured)\nShipped."

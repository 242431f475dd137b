"""A conversation that gets too long in a kernel with a person in front: the menu, an interrupt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cells import error, events, kernel_with
from tests.support.kernel_client import FrontEnd, Message

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

LONG = "word " * 2000
TURN = f'[[replies]]\nreasoning = "{LONG}"\ntext = "An answer."\n'
TOO_LONG = '[[replies]]\nerror = { status = 400, message = "prompt is too long" }\n'
FITS = '[[replies]]\ntext = "Now it fits."\n'
SCRIPTS = {
    "long": 'summary = "All was <b>well</b>."\n' + TURN * 3 + TOO_LONG + FITS * 3,
    "slow": TURN * 3 + f'[[replies]]\ntext = "{LONG}"\nchunk_ms = 100\n' + FITS,
}
LONGER = "The conversation is longer than the model's context window"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder: Path = tmp_path_factory.mktemp("compact")
    with kernel_with(folder, SCRIPTS) as user:
        user.run("import jp_nb as jp")
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    kernel.forget()
    kernel.run("%jp new")
    return kernel


def have_long_one(user: FrontEnd, script: str) -> None:
    for number in range(3):
        user.run(f"%%jp -m scripted/{script}\nQuestion {number}?")


def shown(user: FrontEnd, request: str) -> str:
    return "\n".join(str(data["text/plain"]) for data in user.displays(request))


def kinds(user: FrontEnd) -> list[str]:
    return [str(event["type"]) for event in events(user)]


def button(user: FrontEnd, words: str) -> str:
    """The whole label of the button that begins with `words`."""
    labels = [str(model.get("description")) for model in user.models.values()]
    return next(label for label in labels if label.startswith(words))


def test_form_offers_to_compact_and_the_turn_continues(user: FrontEnd) -> None:
    line = "⊟ Turns 1 to 3 are sent as a summary from here on"
    have_long_one(user, "long")
    request = user.start("%%jp\nAnd now?")
    user.form(LONGER)
    user.click(button(user, "Summarize"))
    user.finish(request)
    assert error(user, request) is None
    assert line in shown(user, request)
    assert shown(user, request).endswith("Now it fits.")
    assert kinds(user).count("turn_start") == 4
    assert kinds(user).count("compaction") == 1


def test_key_on_stdin_chooses_the_compaction(user: FrontEnd) -> None:
    user.run("%jp config prompt.channel=stdin")
    have_long_one(user, "long")
    request = user.start("%%jp\nAnd now?")
    assert user.input_request()["prompt"] == "[c/u/s/?] "
    user.type("?")
    user.input_request()
    user.type("u")
    user.finish(request)
    assert "Summarize and try again" in user.printed(request)
    assert "Turns 1 to 3 are sent as a summary" in shown(user, request) + user.printed(request)
    assert kinds(user).count("compaction") == 1


def test_interrupt_of_the_menu_ends_the_turn_which_can_be_resumed(user: FrontEnd) -> None:
    have_long_one(user, "long")
    request = user.start("%%jp\nAnd now?")
    user.form(LONGER)
    user.interrupt(request)
    said = error(user, request)
    assert said is not None
    assert said["ename"] == "KeyboardInterrupt"
    assert "compaction" not in kinds(user)
    request = user.start("%jp resume")
    user.finish(request)
    assert shown(user, request).endswith("Now it fits.")


def test_stopped_turn_has_the_error_and_can_be_resumed(user: FrontEnd) -> None:
    have_long_one(user, "long")
    request = user.start("%%jp\nAnd now?")
    user.form(LONGER)
    user.click("End the turn")
    user.finish(request)
    said = error(user, request)
    assert said is not None
    assert "prompt is too long" in said["evalue"]
    done = user.start("%jp compact -s --keep-first 0 --keep-last 0")
    user.finish(done)
    assert "All was <b>well</b>." in shown(user, done)
    assert all("<b>" not in data["text/markdown"] for data in user.displays(done))
    request = user.start("%jp resume")
    user.finish(request)
    assert shown(user, request).endswith("Now it fits.")
    assert kinds(user).count("turn_start") == 4


def test_interrupted_summary_leaves_the_conversation_unchanged(user: FrontEnd) -> None:
    have_long_one(user, "slow")
    request = user.start("%jp compact -s --keep-first 0")

    def sums_up(message: Message) -> bool:
        return "which is summarizing turns 1 to 2" in str(message["content"].get("data", ""))

    user.wait(sums_up)
    user.interrupt(request)
    said = error(user, request)
    assert said is not None
    assert "You stopped the compaction" in said["evalue"]
    assert "No summary was written" in shown(user, request)
    assert "compaction" not in kinds(user)
    request = user.start("%%jp\nAnd now?")
    user.finish(request)
    assert shown(user, request) == "Now it fits."

"""`%jp why`, `%jp retry` and cells that are run again, in a kernel and with nobody there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import error, kernel_with, value
from tests.support.kernel_client import FrontEnd, front_end

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

REPLIES = "".join(f'[[replies]]\ntext = "answer {n}"\n' for n in range(6))
BROKEN = "[[replies]]\nerror = { status = 404 }\n"


@pytest.fixture
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("why")
    with kernel_with(folder, {"talk": REPLIES, "broken": BROKEN}) as made:
        made.run("import jp_nb as jp\n%jp config assistant.model.id=scripted/talk")
        yield made


def run(user: FrontEnd, code: str, **fields: Any) -> str:
    request = user.start(code, **fields)
    user.finish(request)
    return request


def shown(user: FrontEnd, request: str) -> str:
    return "\n".join(data["text/plain"] for data in user.displays(request))


def requests(user: FrontEnd) -> list[str]:
    found: list[str] = value(user, "[t.request for t in jp.conversation().turns]")
    return found


def test_why_sends_cell_traceback_and_values_and_shows_all_of_it(user: FrontEnd) -> None:
    user.run("def share(total, parts, api_key='k'):\n    each = total / parts\n    return each")
    user.run("\n\nparts = 0\nshare(12, parts)", cell_id="fails")
    request = run(user, "%jp why Is it the data?", cell_id="why")
    sent = requests(user)[-1]
    assert sent.startswith("Is it the data?\n\nWhat stands below, up to the line")
    assert ", which failed at line 2 ---\n  1 parts = 0\n→ 2 share(12, parts)\n---" in sent
    assert ", line 2, in share\n    1 def share" in sent
    assert "→ 2     each = total / parts\n" in sent
    assert "\nZeroDivisionError: division by zero\n---" in sent
    assert ", in share): 12\n" in sent
    assert "ipykernel" not in sent, "no file of the kernel's own"
    quoted = "\n".join(f"> {line}".rstrip() for line in sent.split("\n"))
    assert shown(user, request) == f"{quoted}\nanswer 0"
    markdown = user.displays(request)[0]["text/markdown"]
    assert markdown.startswith("<details><summary>Request</summary>\n\n```text\nIs it the data?")


def test_why_explains_the_same_error_until_there_is_another(user: FrontEnd) -> None:
    request = run(user, "%jp why")
    said = error(user, request)
    assert said is not None
    assert said["evalue"].endswith("no cell of this kernel has failed yet")
    user.run("{}['first']")
    user.run("1 + 1")
    failed = run(user, "%jp why", cell_id="why")
    assert "KeyError: 'first'" in shown(user, failed)
    run(user, "%%jp -m scripted/broken\nGo.")
    run(user, "%jp config no.such.path=1")
    assert "KeyError: 'first'" in shown(user, run(user, "%jp why"))
    user.run("def f(:\n    pass")
    other = run(user, "%jp why", cell_id="why")
    assert "SyntaxError: invalid syntax" in shown(user, other)
    assert "this cell began" not in user.printed(other), "another error is another request"


def test_why_with_only_an_error_of_ours_says_what_to_do(user: FrontEnd) -> None:
    run(user, "%jp config no.such.path=1")
    said = error(user, run(user, "%jp why"))
    assert said is not None
    assert (
        "no error to explain but jp_nb's own, which says what to do: ConfigError"
        in (said["evalue"])
    )


def test_an_error_from_before_the_extension_was_loaded_is_explained(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("before")
    (folder / "talk.toml").write_text(REPLIES)
    with front_end(folder) as user:
        user.run("early = 0\n1 / early")
        user.run("%load_ext jp_nb\n%jp config assistant.model.id=scripted/talk")
        said = shown(user, run(user, "%jp why"))
    assert "→ 2 1 / early" in said
    assert re.search(r"early \(Cell In\[\d\], line 2\): 0\n", said)


def test_retry_answers_again_and_goes_back(user: FrontEnd) -> None:
    user.run("%%jp\nFirst.", cell_id="a")
    user.run("%%jp\nSecond.", cell_id="b")
    user.run("old = jp.conversation().id")
    request = run(user, "%jp retry", cell_id="again")
    assert shown(user, request) == "> Second.\nanswer 1"
    assert f"`%jp switch {value(user, 'old')}` goes back" in user.printed(request)
    assert value(user, "[_jp.number, _jp.request]") == [1, "Second."]
    failed = run(user, "%jp retry -m scripted/broken")
    assert error(user, failed) is not None
    assert "`%jp switch " in user.printed(failed)
    user.run("%jp switch " + value(user, "old"))
    assert requests(user) == ["First.", "Second."]


def test_retry_and_replay_skip_the_explanation_of_an_error(user: FrontEnd) -> None:
    said = error(user, run(user, "%jp retry"))
    assert said is not None
    user.run("{}['missing']")
    run(user, "%jp why")
    for line in ("%jp retry", "%jp replay"):
        said = error(user, run(user, line))
        assert said is not None
        assert "explanations of errors" in said["evalue"]
    user.run(
        "%jp new\n@jp.tool\ndef weather() -> str:\n    'The weather.'\n    return 'sunny'\n"
        "from pathlib import Path\nfirst, second = Path('tools.toml'), Path('other.toml')"
    )
    script = "[[replies]]\\ntool_calls = [{ name = 'weather' }]\\n[[replies]]\\ntext = 'Sunny.'\\n"
    user.run(f'first.write_text("{script}" * 3)\nsecond.write_text("{script}" * 3)')
    user.run("%%jp -m scripted/tools\nGo out?", cell_id="ask")
    user.run("%jp config assistant.model.id=scripted/other")
    run(user, "%jp why", cell_id="why")
    assert "Turn 0 with the tools of today: 1 of 1" in shown(user, run(user, "%jp replay"))
    request = run(user, "%jp retry", cell_id="again")
    assert shown(user, request).startswith("> Go out?\n")
    assert value(user, "[_jp.number, _jp.request, _jp.text]") == [0, "Go out?", "Sunny."]
    model = "jp.conversation().config.assistant.model.id.name"
    assert value(user, model) == "other", "a setting made since counts"


def test_a_cell_run_again_asks_and_appends_where_nobody_answers(user: FrontEnd) -> None:
    user.run("%%jp\nFirst.", cell_id="a")
    user.run("%%jp\nSecond.", cell_id="b")
    printed = user.run("%%jp\nSecond, edited.", cell_id="b", allow_stdin=False)
    assert requests(user) == ["First.", "Second.", "Second, edited."]
    assert "turn 1 is of this cell already" in printed


def test_a_cell_run_again_replaces_where_it_is_set_so(user: FrontEnd) -> None:
    user.run("%jp config record.rerun=replace")
    for cell in "abc":
        user.run(f"%jp q {cell}", cell_id=cell)
    printed = user.run("%jp q edited", cell_id="b")
    assert "turns 1 to 2 are replaced in a branch; `%jp switch " in printed
    assert requests(user) == ["a", "edited"]


def test_on_stdin_the_question_has_a_key_for_each_choice(user: FrontEnd) -> None:
    user.run("%jp config prompt.channel=stdin")
    for cell in "abc":
        user.run(f"%jp q {cell}", cell_id=cell)
    for key, left in (
        ("c", ["a", "b", "c"]),
        ("a", ["a", "b", "c", "b"]),
        ("r", ["a", "b", "c", "b"]),
    ):
        request = user.start("%jp q b", cell_id="b")
        asked = user.input_request()["prompt"]
        assert "?" in asked
        user.type("")  # nothing is preselected
        user.input_request()
        user.type(key)
        user.finish(request)
        assert error(user, request) is None
        assert requests(user) == left


def test_an_interrupt_of_the_question_asks_nothing(user: FrontEnd) -> None:
    user.run("%jp config prompt.channel=stdin")
    for cell in "ab":
        user.run(f"%jp q {cell}", cell_id=cell)
    request = user.start("%jp q b", cell_id="b")
    user.input_request()
    user.interrupt(request)
    assert requests(user) == ["a", "b"]

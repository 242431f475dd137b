"""The inbox of a batch: what it shows, what the user may decide, and what decides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

import jp_nb as jp
from jp_nb.cli import main
from tests.batch.log_lines import asked_at, asked_permission, asked_question, waiting_run, write_log
from tests.kit.answers import PreparedAnswers
from tests.kit.batch_folders import BatchFolder
from tests.kit.kinds import make
from tests.kit.questions import answered, not_answered
from tests.support.fakes import FakePrompter

TO_WHOM = {"type": "select", "options": ["team", "all"]}
TO = asked_question("publish", "to", "To whom?", answer_type=TO_WHOM)
CLOSED = not_answered("cancelled", "form")


def ask(folder: Path, *ends: Any) -> FakePrompter:
    """Ask about the decisions in `folder`. A text is a button that the user presses."""
    person = FakePrompter(*(answered(end) if isinstance(end, str) else end for end in ends))
    BatchFolder(folder).ask_about(person.ask_in_cell)
    return person


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the answers in the folder."""
    file = folder / "answers.toml"
    return PreparedAnswers(file).list() if file.exists() else []


@pytest.mark.req("INBOX-3")
def test_one_answer_is_for_all_runs_of_a_decision(tmp_path: Path) -> None:
    write_log(tmp_path, [waiting_run(f"r{number}", TO) for number in range(37)])
    person = ask(tmp_path, "answer", "answer", "all", "close")

    [shown_list, decision, question, again] = person.asked
    assert "1 open decision in 37 runs" in shown_list.text
    assert [action.label for action in decision.actions] == [
        "Answer for all 37 runs …",
        "One by one …",
        "Leave open",
        "Decline it in all 37 runs",
        "Back to the list",
    ]
    assert question.question.text == "To whom?"
    assert "1 answered" in again.text
    [answer] = written(tmp_path)
    assert (answer["key"], answer["value"]) == (("questions", "publish", "to"), "all")


@pytest.mark.req("INBOX-3")
def test_runs_are_answered_one_by_one(tmp_path: Path) -> None:
    write_log(tmp_path, [waiting_run(name, TO) for name in "abc"])
    ask(tmp_path, "answer", "each", "answer", "all", "open", "decline", "close")

    found = {
        name: PreparedAnswers(tmp_path / "answers.toml").find(*KEY, run=name) for name in "abc"
    }
    assert found["a"] is not None
    assert found["a"]["value"] == "all"
    assert found["b"] is None
    assert found["c"] is not None
    assert found["c"]["skip"]


KEY = ("questions", "publish", "to")


@pytest.mark.req("INBOX-3")
def test_decision_shows_where_it_was_asked_and_up_to_five_contexts(tmp_path: Path) -> None:
    runs = []
    for number in range(7):
        question = asked_question(
            "publish", "to", "To whom?", f"Town {number}", answer_type=TO_WHOM
        )
        runs.append(waiting_run(f"r{number}", question))
    write_log(tmp_path, runs)

    [_, decision, _] = ask(tmp_path, "answer", "back", "close").asked
    shown = {each.caption: each.value for each in decision.exhibits}
    assert shown["Asked by"] == "publish, in 7 runs of walk.ipynb, cell 3, turn 1"
    contexts = [caption for caption in shown if caption.startswith("Context")]
    assert len(contexts) == 5
    assert contexts[0] == "Context 1 of 7 (1 run, such as r0)"
    assert shown[contexts[0]] == "The model said: I publish it.\nTown 0\n"


@pytest.mark.req("INBOX-4")
def test_permission_shows_its_exact_arguments_and_covers_only_them(tmp_path: Path) -> None:
    write_log(tmp_path, [waiting_run("a", asked_permission("pay", {"n": 5}, {"n": 6}))])
    person = ask(tmp_path, "answer", "agree", "open", "close")

    for prompt, arguments in zip(person.asked[1:3], ({"n": 5}, {"n": 6}), strict=True):
        shown = {each.caption: each.value for each in prompt.exhibits}
        assert shown["Arguments, exactly"] == arguments
    [answer] = written(tmp_path)
    assert answer["arguments"] == {"n": 5}


@pytest.mark.req("INBOX-4")
def test_permission_with_unknown_arguments_has_no_consent(tmp_path: Path) -> None:
    unknown = {"kind": "permission", "tool": "pay", "asked": [asked_at()]}
    write_log(tmp_path, [waiting_run("a", unknown), waiting_run("b", unknown)])
    [_, decision, _] = ask(tmp_path, "answer", "back", "close").asked
    assert {action.value for action in decision.actions} == {"open", "back"}


@pytest.mark.req("INBOX-1", "INBOX-9")
@pytest.mark.parametrize(
    ("kind", "labels", "section"),
    [
        ("permission", ("Run this call", "Skip this call"), "permissions"),
        ("result", ("Deliver the result", "Withhold the result"), "results"),
        ("change", ("Apply the change", "Reject the change"), "changes"),
        ("edit", ("Apply the edit", "Reject the edit"), "edits"),
        ("plan", ("Approve the plan", "Reject the plan"), "plan"),
    ],
)
def test_each_button_does_what_its_label_says(
    tmp_path: Path, kind: str, labels: tuple[str, str], section: str
) -> None:
    asked = {"kind": kind, "tool": "publish", "asked": [asked_at(arguments={"n": 5})]}
    for label, is_refused in zip(labels, (False, True), strict=True):
        out = write_log(tmp_path / label, [waiting_run("a", asked)])
        [_, decision, _] = ask(out, "answer", "back", "close").asked
        [press] = [action.value for action in decision.actions if action.label == label]
        ask(out, "answer", press, "close")
        [answer] = written(out)
        assert (answer["key"], answer.get("skip", False)) == ((section, "publish"), is_refused)


def timed_out_answer() -> Any:
    """Return the answer of a form whose time was over."""
    return answered("team", marks=frozenset({"timed_out"}))


@pytest.mark.req("INBOX-9")
@pytest.mark.parametrize(
    "ends",
    [
        [CLOSED],
        ["answer", CLOSED, CLOSED],
        ["answer", "answer", CLOSED, "back", "close"],
        [not_answered("timed_out", "form")],
        ["answer", "answer", not_answered("timed_out", "form")],
        ["answer", "answer", timed_out_answer()],
        ["answer", not_answered("interrupted", "form")],
        ["answer", "each", CLOSED, "close"],
        ["choose", CLOSED, "close"],
        ["answer", "open", "close"],
    ],
)
def test_nothing_is_decided_without_an_answer(tmp_path: Path, ends: list[Any]) -> None:
    write_log(tmp_path, [waiting_run("a", TO), waiting_run("b", TO)])
    ask(tmp_path, *ends)
    assert written(tmp_path) == []


@pytest.mark.req("INBOX-9")
def test_question_has_no_default_and_is_not_sent_by_enter(tmp_path: Path) -> None:
    asked = asked_question(
        "t", "to", "To whom?", answer_type={**TO_WHOM, "recommended": 0}, default="all"
    )
    write_log(tmp_path, [waiting_run("a", asked)])
    [_, _, prompt, _, _] = ask(tmp_path, "answer", "answer", CLOSED, "back", "close").asked
    question = prompt.question
    assert (question.default, question.answer_type.recommended) == (None, None)
    assert question.exclusive  # an empty line sends nothing


@pytest.mark.req("INBOX-8")
def test_secret_is_asked_as_the_name_of_a_variable(tmp_path: Path) -> None:
    token = asked_question("publish", "token", "Which token?", answer_type={"type": "secret"})
    field = {"id": "pin", "text": "PIN?", "answer_type": {"type": "secret"}}
    name = {"id": "name", "text": "Name?", "answer_type": {"type": "text"}}
    form = asked_question(
        "sign", "who", "Who?", answer_type={"type": "form", "fields": [name, field]}
    )
    write_log(tmp_path, [waiting_run("a", token, form)])
    sent = make("form_end", (answered({"name": "Ada", "pin": "A_PIN"}),))
    person = ask(
        tmp_path, "answer", "answer", "PUBLISH_TOKEN", "answer", lambda: _end(sent), "close"
    )

    question = person.asked[2].question
    assert "the name of an environment variable" in question.text
    assert question.misfit("s3cr3t!") is not None
    first, second = written(tmp_path)
    assert first["value"] == ("env", "PUBLISH_TOKEN")
    assert second["value"] == {"name": "Ada", "pin": ("env", "A_PIN")}


async def _end(end: Any) -> Any:
    return end


@pytest.mark.req("INBOX-10")
def test_exclusive_question_is_marked_and_answered(tmp_path: Path) -> None:
    asked = asked_question("t", "to", "To whom?", answer_type=TO_WHOM, exclusive=True)
    write_log(tmp_path, [waiting_run("a", asked)])
    [_, decision, _, _] = ask(tmp_path, "answer", "answer", "team", "close").asked
    assert "exclusive: only you" in decision.text
    assert written(tmp_path)[0]["value"] == "team"


@pytest.mark.req("INBOX-11")
@pytest.mark.parametrize(("folder_mode", "log_mode"), [(0o777, 0o600), (0o700, 0o666)])
def test_folder_that_others_may_write_is_shown_without_answers(
    tmp_path: Path, folder_mode: int, log_mode: int
) -> None:
    out = write_log(tmp_path / "out", [waiting_run("a", TO)])
    (out / "runs.jsonl").chmod(log_mode)
    out.chmod(folder_mode)

    [shown, _, decision, _] = ask(out, "choose", "0", "back", "close").asked
    assert "No answers are taken" in shown.text
    assert "writable for everyone" in shown.text
    assert {action.value for action in decision.actions} == {"back"}

    inbox = BatchFolder(out).inbox()
    with pytest.raises(jp.ConfigError, match="no answers are written"):
        inbox.answer(inbox.groups[0], ["a"], BatchFolder.make_answer("team"))
    assert not (out / "answers.toml").exists()


@pytest.mark.req("INBOX-12")
def test_thousand_decisions_are_paged_and_filtered(tmp_path: Path) -> None:
    questions = [asked_question("t", f"q{n}", f"Question {n}?") for n in range(1000)]
    write_log(tmp_path, [waiting_run("a", *questions)])
    person = ask(
        tmp_path,
        "next",
        "filter",
        "question 77",
        "answer",
        *["open"] * 19,
        "filter",
        "*",
        "close",
    )
    first, second, _, filtered = person.asked[:4]
    assert first.exhibits[0].caption == "Decisions that the runs wait for"
    assert first.exhibits[0].size_text == "1 to 25 of 1,000"
    assert second.exhibits[0].size_text == "26 to 50 of 1,000"
    caption = "Decisions that the runs wait for and that contain “question 77”"
    assert filtered.exhibits[0].caption == caption
    assert filtered.exhibits[0].size_text == "1 to 19 of 19"
    assert person.asked[4].text == "Question 77?"


@pytest.mark.req("INBOX-3")
def test_answer_that_covers_more_than_is_shown_says_so(tmp_path: Path) -> None:
    change = {
        "kind": "change",
        "tool": "set_tone",
        "asked": [asked_at(detail=["style.reasoning.display: full → hidden"])],
    }
    write_log(tmp_path, [waiting_run("a", change), waiting_run("b", change)])
    [_, decision, _] = ask(tmp_path, "answer", "agree", "close").asked

    assert decision.text == "Approval of a configuration change proposed by set_tone"
    shown = {each.caption: each.value for each in decision.exhibits}
    covered = "each configuration change that set_tone proposes in these runs"
    assert shown["An answer covers"] == f"{covered} and in later runs of this batch"
    assert "style.reasoning.display: full → hidden" in shown["Context"]
    [answer] = written(tmp_path)
    assert (answer["key"], answer["value"]) == (("changes", "set_tone"), None)


@pytest.mark.req("INBOX-2", "INBOX-9")
def test_text_asks_on_the_terminal_and_the_end_of_input_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, [waiting_run("a", TO), waiting_run("b", TO)])
    for lines, found in ((["", "a", "", "a", ""], 0), (["a", "a", "2", "q"], 1)):
        typed = iter(lines)
        monkeypatch.setattr("builtins.input", lambda _, typed=typed: next_line(typed))
        assert main(["inbox", str(tmp_path), "--text"]) == 0
        assert len(written(tmp_path)) == found
    shown = capsys.readouterr().out
    assert f"jp-nb run --resume {tmp_path} --answers {tmp_path / 'answers.toml'}" in shown


def next_line(typed: Any) -> str:
    try:
        return str(next(typed))
    except StopIteration:
        raise EOFError from None


@pytest.mark.req("INBOX-2", "BATCH-33")
def test_list_prints_the_decisions_safe_for_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = asked_question(
        "\x1b[31mt", "q\u202e", "Why?\x1b[2J\r\nsecond line", answer_type=TO_WHOM
    )
    write_log(tmp_path, [waiting_run("a\x1b", hostile, notebook="x\x1b.ipynb")])
    assert main(["inbox", str(tmp_path), "--list"]) == 0
    shown = capsys.readouterr().out
    assert "1 open decision in 1 run" in shown
    assert "options: team, all" in shown
    assert not {"\x1b", "\r", "\u202e"} & set(shown)


@pytest.mark.req("INBOX-2")
def test_generated_notebook_asks_about_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "it's a 'batch'\n"
    notebook = nbformat.read(BatchFolder(folder).write_notebook(), as_version=4)
    nbformat.validate(notebook)
    source = notebook.cells[1].source
    assert source.endswith(f"jp.inbox({str(folder)!r})")


def test_folder_without_a_log_is_a_usage_error(tmp_path: Path) -> None:
    assert main(["inbox", str(tmp_path), "--list"]) == 2


def test_batch_without_open_decisions_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, [])
    assert main(["inbox", str(tmp_path)]) == 0
    assert "no decision is open" in capsys.readouterr().out


@pytest.mark.req("INBOX-3")
def test_answer_that_did_not_fit_is_asked_again_with_the_reason(tmp_path: Path) -> None:
    refused = {**TO, "why": "answers.toml, line 2: the answer to 'to' does not fit"}
    used = [["questions", "publish", "to"]]
    write_log(tmp_path, [waiting_run("a", refused, used_answers=used), waiting_run("b", TO)])
    (tmp_path / "answers.toml").write_text('[questions.publish]\nto = "everyone"\n')

    person = ask(tmp_path, "answer", "answer", "all", "close")
    assert "1 answered" not in person.asked[0].text
    shown = {each.caption: each.value for each in person.asked[1].exhibits}
    assert shown["The last answer did not fit"] == refused["why"]
    assert "1 answered" in person.asked[-1].text
    [answer] = written(tmp_path)
    assert answer["value"] == "all"

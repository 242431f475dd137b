"""Open decisions of a batch are grouped, so that each is answered once."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from tests.batch.log_lines import (
    asked_at,
    asked_permission,
    asked_question,
    ended_run,
    waiting_run,
    write_log,
)
from tests.kit.batch_folders import BatchFolder

TO_WHOM = {"type": "select", "options": ["team", "all"]}


def listed(folder: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (group.notebook, group.description, group.runs)
        for group in BatchFolder(folder).decisions().groups
    ]


@pytest.mark.req("INBOX-1")
def test_same_question_of_several_runs_is_one_group(tmp_path: Path) -> None:
    def asks(context: str, **more: object) -> object:
        return asked_question("publish", "to", "To whom?", context, answer_type=TO_WHOM, **more)

    write_log(
        tmp_path,
        [
            waiting_run("a", asks("Delft")),
            ended_run("b"),
            waiting_run("c", asks("Leiden", default="team")),
            waiting_run("d", asks("Delft"), notebook="talk.ipynb"),
            waiting_run(
                "e", asked_question("publish", "to", "To whom, then?", answer_type=TO_WHOM)
            ),
            waiting_run(
                "f", asked_question("publish", "to", "To whom?", answer_type={"type": "text"})
            ),
            waiting_run("g", asked_question("send", "to", "To whom?", answer_type=TO_WHOM)),
        ],
    )
    assert listed(tmp_path) == [
        ("walk.ipynb", "to of publish: To whom?", ("a", "c")),
        ("talk.ipynb", "to of publish: To whom?", ("d",)),
        ("walk.ipynb", "to of publish: To whom, then?", ("e",)),
        ("walk.ipynb", "to of publish: To whom?", ("f",)),
        ("walk.ipynb", "to of send: To whom?", ("g",)),
    ]
    [first, *_] = BatchFolder(tmp_path).decisions().groups
    contexts = [(each.question_context, each.runs) for each in first.list_contexts()]
    assert contexts == [("Delft", ("a",)), ("Leiden", ("c",))]
    assert [asking.place for asking, _ in first.askings["a"]] == ["cell 3, turn 1"]


@pytest.mark.req("INBOX-1", "INBOX-4")
def test_each_exact_call_is_a_permission_of_its_own(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        [
            waiting_run("a", asked_permission("pay", {"amount": 5}, {"amount": 6})),
            waiting_run("b", asked_permission("pay", {"amount": 5})),
            waiting_run("c", asked_permission("pay", {"amount": 5.0}), asked_permission("pay", {})),
        ],
    )
    assert listed(tmp_path) == [
        ("walk.ipynb", 'permission to run pay with {"amount":5}', ("a", "b")),
        ("walk.ipynb", 'permission to run pay with {"amount":6}', ("a",)),
        ("walk.ipynb", 'permission to run pay with {"amount":5.0}', ("c",)),
        ("walk.ipynb", "permission to run pay with {}", ("c",)),
    ]


@pytest.mark.req("INBOX-4")
def test_permission_whose_arguments_are_unknown_cannot_be_answered(tmp_path: Path) -> None:
    unknown = {"kind": "permission", "tool": "pay", "asked": [asked_at()]}
    write_log(tmp_path, [waiting_run("a", unknown)])
    [group] = BatchFolder(tmp_path).decisions().groups
    assert not group.is_answerable


@pytest.mark.req("INBOX-9")
def test_suggestions_of_a_question_are_removed(tmp_path: Path) -> None:
    field = {"id": "size", "text": "Size?", "answer_type": {"type": "integer"}, "default": 4}
    form = {"type": "form", "fields": [field]}
    recommended = {**TO_WHOM, "recommended": 1}
    write_log(
        tmp_path,
        [
            waiting_run(
                "a",
                asked_question("t", "to", "To whom?", answer_type=recommended, default="team"),
                asked_question("t", "order", "What?", answer_type=form),
            )
        ],
    )
    to_whom, order = (group.question for group in BatchFolder(tmp_path).decisions().groups)
    assert (to_whom.default, to_whom.answer_type.recommended) == (None, None)
    assert order.answer_type.fields[0].default is None


@pytest.mark.req("INBOX-11")
def test_damaged_entries_are_counted_and_left_out(tmp_path: Path) -> None:
    damaged = [
        {},
        {"kind": "other", "tool": "t"},
        {"kind": "question", "tool": "t", "question": {"id": 1}},
        {"kind": "question", "tool": 5},
        {"kind": "permission", "tool": "t", "asked": "x"},
        {"kind": "permission", "tool": "t", "asked": [{"arguments": []}]},
    ]
    good = asked_question("t", "q", "Why?")
    write_log(tmp_path, [waiting_run("a", *damaged, good)])
    found = BatchFolder(tmp_path).decisions()
    assert (len(found.groups), found.unreadable) == (1, len(damaged))


@pytest.mark.req("INBOX-12")
def test_ten_thousand_runs_are_grouped_in_less_than_two_seconds(tmp_path: Path) -> None:
    runs = []
    for number in range(10_000):
        question = asked_question("publish", f"q{number % 1000}", "Why?", f"Town {number}")
        runs.append(waiting_run(f"r{number}", question))
    states = BatchFolder(write_log(tmp_path, runs)).runs()

    began = process_time()
    found = BatchFolder.group_decisions(states)
    assert process_time() - began < 2
    assert len(found.groups) == 1000

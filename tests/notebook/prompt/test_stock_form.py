"""Forms with stock widgets alone, without a page: the same state, and no more trust."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

import ipywidgets
import pytest

import jp_nb as jp
from tests.kit.forms import FormUser
from tests.kit.kinds import make

STORE = jp.Question.select(
    "store", "Which store?", ["Redis", "Postgres", "SQLite"], recommended=1, other=True
)
EXTRAS = jp.Question.select(
    "extras", "Which extras?", [f"extra {n}" for n in range(10_000)], multi=True
)


@pytest.fixture
def opened() -> Iterator[list[FormUser]]:
    users: list[FormUser] = []
    yield users
    for user in users:
        user.close()


def open_stock(opened: list[FormUser], *questions: jp.Question) -> FormUser:
    user = FormUser(*questions)
    opened.append(user)
    assert user.lose_modules()
    return user


def find(user: FormUser, kind: type[Any]) -> list[Any]:
    return [each for each in user.widgets if isinstance(each, kind)]


def test_stock_list_and_its_module_have_one_state(opened: list[FormUser]) -> None:
    user = open_stock(opened, STORE)
    [radio] = find(user, ipywidgets.RadioButtons)
    [own] = find(user, ipywidgets.Textarea)
    assert radio.label == "Postgres (recommended)"
    user.deliver(own, {"method": "update", "state": {"value": "DuckDB"}})

    user.post({"type": "rendered", "step": user.step})  # a page with the module
    [listed] = user.boxes
    assert (listed.picks, listed.custom) == ([1], "DuckDB")
    assert not find(user, ipywidgets.RadioButtons)
    user.send("submit")
    assert user.ends[0].ends[0].value == {"selected": [], "custom": "DuckDB"}


@pytest.mark.req("RCP-88")
def test_old_button_of_a_double_click_has_no_effect(opened: list[FormUser]) -> None:
    user = open_stock(opened, STORE, EXTRAS, jp.Question.text("why", "Why?"))
    [old] = [each for each in find(user, ipywidgets.Button) if each.description == "Next"]
    click = {"method": "custom", "content": {"event": "click"}}
    comm = old.comm
    user.deliver(old, click)
    assert user.page == 1
    comm.handle_msg({"content": {"comm_id": comm.comm_id, "data": click}})
    assert user.page == 1


@pytest.mark.req("RPI-13")
def test_ten_thousand_options_are_found_by_the_filter(opened: list[FormUser]) -> None:
    began = monotonic()
    user = open_stock(opened, EXTRAS)
    assert len(find(user, ipywidgets.Checkbox)) == 50
    [search] = find(user, ipywidgets.Text)

    for words in ("extra 9999", "extra 1234"):
        user.deliver(search, {"method": "update", "state": {"value": words}})
        box = find(user, ipywidgets.Checkbox)[-1]
        assert box.description == words or box.description.startswith(words)
        wanted = [each for each in find(user, ipywidgets.Checkbox) if each.description == words]
        user.deliver(wanted[0], {"method": "update", "state": {"value": True}})

    assert monotonic() - began < 10
    user.click("Submit")
    assert user.ends[0].ends[0].value == ["extra 9999", "extra 1234"]


def test_forged_messages_change_nothing(
    opened: list[FormUser], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = open_stock(opened, STORE)
    [radio] = find(user, ipywidgets.RadioButtons)
    sent: list[object] = []
    monkeypatch.setattr(radio.comm, "send", lambda **message: sent.append(message))
    before = [each.get_state() for each in user.widgets]
    for state in (
        {"index": 99},
        {"index": "0"},
        {"_options_labels": ["Yes"]},
        {"description": "<b>x</b>"},
        {"value": "Redis"},
    ):
        user.deliver(radio, {"method": "update", "state": state})

    for button in find(user, ipywidgets.Button):
        user.deliver(button, {"method": "update", "state": {"description": "Run everything"}})

    assert [each.get_state() for each in user.widgets] == before
    assert user.ends == []
    assert sent == []  # a page that got the present state would undo the choice of its user
    user.deliver(radio, {"method": "update", "state": {"index": 0}})
    assert sent


@pytest.mark.req("RPI-38")
def test_hostile_labels_are_text_of_stock_widgets(opened: list[FormUser]) -> None:
    evil = "<img src=x onerror=alert(1)>\u202egpj " + "w" * 5000
    user = open_stock(opened, jp.Question.select("q", evil, [evil, "b"], other=True))
    texts = [each.value for each in find(user, ipywidgets.HTML)]
    assert not any("<img" in text for text in texts)
    [radio] = find(user, ipywidgets.RadioButtons)
    assert "\u202e" not in "".join(radio._options_labels)


@pytest.mark.req("HB-18")
def test_secret_is_in_no_stock_widget(opened: list[FormUser]) -> None:
    secret = make("question_prompt", jp.Question.secret("key", "Key?"))
    user = FormUser(prompt=secret)
    opened.append(user)
    assert not user.lose_modules()
    assert not find(user, ipywidgets.Password)


def test_answer_after_the_end_changes_nothing(opened: list[FormUser]) -> None:
    user = open_stock(opened, STORE)
    user.click("Submit")
    [end] = user.ends
    user.close()
    user.post({"type": "rendered", "step": user.step})
    user.post({"type": "submit", "step": user.step, "picks": [0], "custom": None})
    assert user.ends[0] == end
    assert all(each == end for each in user.ends)

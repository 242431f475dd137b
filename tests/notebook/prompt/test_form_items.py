"""A decision whose parts have check boxes: what a click applies, and what the buttons say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.forms import FormUser
from tests.kit.kinds import make


def label(count: int) -> str:
    return f"Apply {count}"


@pytest.fixture
def user() -> Iterator[FormUser]:
    edit = make("action", "", "Edit 2 …", "edit:2")
    items = [make("prompt_item", str(n), f"Edit {n}", actions=(edit,) * (n == 2)) for n in (1, 2)]
    details = [make("prompt_detail", item.label, "x", item=item) for item in items]
    apply = make("action", "y", "Apply 2", "apply", format_label=label)
    reject = make("action", "n", "Reject", "reject")
    prompt = make("decision_prompt", "Apply?", (apply, reject), exhibits=tuple(details))
    form = FormUser(prompt=prompt)
    yield form
    form.close()


def find_boxes(user: FormUser) -> list[Any]:
    boxes = [each for each in user.widgets if type(each).__name__ == "Checkbox"]
    return sorted(boxes, key=lambda box: box.description)


@pytest.mark.req("CELL-10")
def test_click_applies_the_checked_items_that_the_page_reports(user: FormUser) -> None:
    # The click arrives before the update of the check box.
    user.tell("decide-0", fields=[{"value": False}, {"value": True}])
    [end] = user.ends
    assert (end.value, end.picks) == ("apply", frozenset({"2"}))


@pytest.mark.req("CELL-10")
def test_stock_click_applies_the_items_that_are_checked_in_the_widgets(user: FormUser) -> None:
    find_boxes(user)[1].value = False
    user.click("Apply 1")
    [end] = user.ends
    assert (end.value, end.picks) == ("apply", frozenset({"1"}))


@pytest.mark.req("CELL-10")
def test_button_beside_an_item_keeps_the_check_boxes(user: FormUser) -> None:
    user.tell("decide-2", fields=[{"value": False}, {"value": True}])
    [end] = user.ends
    assert (end.value, end.picks) == ("edit:2", frozenset({"2"}))


@pytest.mark.req("CELL-10", "CELL-11")
def test_nothing_can_be_applied_without_a_checked_item(user: FormUser) -> None:
    for box in find_boxes(user):
        box.value = False
    assert user.disabled == ["Apply 0"]
    for forged in ("decide-3", "decide-", "decide-x"):
        user.tell(forged)
    user.tell("submit")
    assert user.ends == []

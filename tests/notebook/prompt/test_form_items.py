"""A decision whose parts have check boxes: what a click applies, and what the buttons say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import comm
import pytest
from comm.base_comm import BaseComm

from tests.kit.forms import FormUser
from tests.kit.kinds import make


def label(count: int) -> str:
    return f"Apply {count}"


@pytest.fixture
def user() -> Iterator[FormUser]:
    edit = make("action", "", "Change source of edit 2 …", "edit:2")
    items = [make("prompt_item", str(n), actions=(edit,) * (n == 2)) for n in (1, 2)]
    details = [make("prompt_detail", f"Edit {item.key}: Move", "x", item=item) for item in items]
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


def make_edit(number: int) -> Any:
    diff = make("source_diff", f"same\nx{number} = 1", f"same\nx{number} = 2")
    change = make("action", "", f"Change source of edit {number} …", f"edit:{number}")
    item = make("prompt_item", str(number), actions=(change,))
    caption = f"Edit {number}: Replace cell {number} (same)"
    size = "1 line added"
    return make("prompt_detail", caption, diff.format(), "python", size, diff=diff, item=item)


def open_review(edits: int) -> FormUser:
    apply = make("action", "y", f"Apply {edits}", "apply", format_label=label)
    details = tuple(map(make_edit, range(edits)))
    return FormUser(prompt=make("decision_prompt", "Apply?", (apply,), exhibits=details))


class CountedComm(BaseComm):
    """A comm that counts its messages, and their characters."""

    sizes: ClassVar[list[int]] = []

    def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **keys: Any) -> None:
        self.sizes.append(len(repr(data)))


@pytest.mark.req("CELL-12")
def test_each_edit_of_a_review_adds_few_widgets_and_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The page draws a form as soon as it has the messages of its widgets: 18 widgets an edit took
    # seconds on a busy machine.
    monkeypatch.setattr(comm, "create_comm", CountedComm)
    monkeypatch.setattr(CountedComm, "sizes", [])
    counts: list[tuple[int, int, int]] = []
    for edits in (1, 51):
        CountedComm.sizes.clear()
        user = open_review(edits)
        models = {each.model_id for each in user.widgets}
        counts.append((len(models), len(CountedComm.sizes), sum(CountedComm.sizes)))
        user.close()

    [widgets, messages, chars] = [(many - one) / 50 for one, many in zip(*counts, strict=True)]
    assert widgets == 4  # a row, its check box and button, and the difference
    assert messages == 5  # the row gets its buttons later
    assert 2_000 < chars < 4_000


@pytest.mark.req("CELL-12")
def test_widgets_that_share_a_look_keep_it_until_the_form_closes() -> None:
    user = open_review(3)
    [first, *_] = find_boxes(user)
    look = first.layout
    user.tell("decide-9")  # no such button: nothing changes
    assert look.comm is not None
    user.close()
    assert look.comm is None


@pytest.mark.req("CELL-10")
def test_check_box_and_button_of_an_edit_have_different_names() -> None:
    user = open_review(1)
    [box] = find_boxes(user)
    assert box.description == "Edit 0: Replace cell 0 (same): 1 line added"
    assert "Change source of edit 0 …" in [getattr(x, "description", "") for x in user.widgets]
    assert not [x for x in user.widgets if "jp-nb-caption" in getattr(x, "_dom_classes", ())]
    user.close()

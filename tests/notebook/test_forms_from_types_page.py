"""`jp.ask(Model)` in a JupyterLab page, by keyboard alone: errors beside fields, an instance."""

from __future__ import annotations

import json

import pytest

from tests.support.browser import NotebookPage, OpenNotebook
from tests.support.page_actions import keys, picture

pytestmark = pytest.mark.browser

LOAD = """
%load_ext jp_nb
from typing import Literal
import jp_nb as jp
from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

class Trip(BaseModel):
    "Where to, and for how long."

    city: str = Field(title="Which city?", description="As on a map.")
    days: int = Field(3, ge=1, le=14)
    pace: Literal["slow", "brisk"]
    with_whom: list[Literal["friends", "family"]] = []
    password: SecretStr
    note: str | None = None

    @field_validator("city")
    @classmethod
    def known(cls, city):
        if city == "Atlantis":
            raise ValueError("nobody has found Atlantis yet")
        return city

    @model_validator(mode="after")
    def affordable(self):
        if self.days > 7 and not self.with_whom:
            raise ValueError("nobody goes alone for so long")
        return self
"""
ASK = (
    'trip = jp.ask(Trip, label="Holiday")\nprint(repr(trip))\nlen(trip.password.get_secret_value())'
)


@pytest.fixture
def page(open_notebook: OpenNotebook) -> NotebookPage:
    page = open_notebook(LOAD, ASK)
    page.run_cell(0)
    page.output_text(0, contains="kept in this notebook")
    page.run_cell(1)
    page.form().get_by_text("Where to, and for how long.").wait_for()
    return page


def press(page: NotebookPage, *pressed: str) -> None:
    """Press keys; what is longer than a key's name is typed."""
    for key in pressed:
        if key in ("Tab", "Enter", "Space", "Escape", "Shift+Tab", "Control+A", "ArrowDown"):
            page.page.keyboard.press(key)
        else:
            page.page.keyboard.type(key)


def problems(page: NotebookPage) -> dict[str, str]:
    """What is said beside the fields that are marked as wrong, by their names."""
    found: dict[str, str] = page.form().evaluate(
        """form => Object.fromEntries(
            [...form.querySelectorAll('[aria-invalid=true]')].map(control => [
                control.getAttribute('aria-label') ?? document.getElementById(
                    control.getAttribute('aria-labelledby')).textContent.replace('*', '').trim(),
                control.getAttribute('aria-describedby').split(' ')
                    .map(id => document.getElementById(id))
                    .filter(x => x.classList.contains('jp-nb-problem'))
                    .map(x => x.textContent.trim()).join(),
            ]))"""
    )
    return found


def test_invalid_value_has_its_message_beside_the_field_and_nothing_typed_is_lost(
    page: NotebookPage,
) -> None:
    form = page.form()
    keys(page)
    press(page, "Atlantis", "Tab", "Control+A", "99", "Tab", "Space", "Tab", "Tab", "Tab")
    press(page, "hunter2", "Tab", "Tab", "Enter")
    form.get_by_text("from 1 to 14", exact=False).last.wait_for()
    assert problems(page) == {"Days": "Expected a whole number from 1 to 14"}
    press(page, "Control+A", "9", "Tab", "Tab", "Tab", "Tab", "Tab", "Tab", "Enter")
    form.get_by_text("nobody has found Atlantis yet").wait_for()
    picture(page, "typed-form-problem")
    assert problems(page) == {"Which city?": "Nobody has found Atlantis yet"}
    assert form.get_by_label("Which city?").input_value() == "Atlantis"
    assert form.get_by_label("Password").input_value() == "hunter2"
    press(page, "Control+A", "Delft", *["Tab"] * 7, "Enter")
    form.get_by_text("nobody goes alone for so long").wait_for()
    picture(page, "typed-form-whole")
    assert problems(page) == {}
    press(page, *["Tab"] * 4, "Space", *["Tab"] * 3, "Enter")
    shown = page.output_text(1, contains="Trip(")
    assert "city='Delft', days=9, pace='slow', with_whom=['family']" in shown
    assert "password=SecretStr('**********'), note=None" in shown
    assert "Holiday" in shown
    page.output_text(1, contains="7")  # the password has come whole
    page.save()
    saved = json.dumps(page.saved())
    assert "Delft" in saved
    assert "hunter2" not in saved
    page.run_cell(1)
    page.form().get_by_text("Where to, and for how long.").wait_for()
    keys(page, "Escape")
    page.output_text(1, contains="PromptCancelled")

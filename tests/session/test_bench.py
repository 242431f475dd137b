"""Tool calls outside of the conversation: they run as in a turn, and are not recorded."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.questions import answered
from tests.kit.sessions import current_session
from tests.session.bench_notebook import notebook as notebook
from tests.session.bench_notebook import protected_state
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter
from tests.support.images import figure
from tests.support.sessions import Notebook


def define_weather() -> None:
    @jp.tool
    def weather(city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            city: Name, as on a map.
            days: How many days ahead.
        """
        if city == "Atlantis":
            raise LookupError("no such city")
        return f"{city}: sunny for {days} days"


def test_call_returns_the_result_for_the_model(notebook: Notebook) -> None:
    define_weather()
    shown = notebook.jp("call weather city=123 days=2")
    assert '✓ weather(city="123", days=2)' in shown  # text stays text
    assert "The model reads (" in shown
    assert "    123: sunny for 2 days" in shown
    assert jp.call("weather", city="Delft").content == "Delft: sunny for 1 days"


def test_arguments_are_validated_as_in_a_turn(notebook: Notebook) -> None:
    define_weather()
    outcome = jp.call("weather", town="Delft")
    assert outcome.is_error
    assert outcome.content.startswith("Invalid arguments for weather: city: Field required")
    assert jp.call("weather", {"city": "Delft", "days": "4"}).content.endswith("4 days")


def test_call_changes_nothing_in_the_conversation(notebook: Notebook) -> None:
    define_weather()
    notebook.ask("What is the weather?")
    before = protected_state(notebook.session)
    jp.call("weather", city="Delft")
    jp.call("weather", city="Atlantis")
    assert protected_state(notebook.session) == before


def test_arguments_of_the_model_can_be_reused(notebook: Notebook) -> None:
    define_weather()
    call_id = ""
    notebook.ask("What is the weather?")
    assert "Delft: sunny for 3 days" in notebook.jp("call weather --last")
    assert "Delft: sunny for 5 days" in notebook.jp("call weather --last days=5")
    call_id = notebook.session.last_turn.tool_calls[0].id  # type: ignore[union-attr]
    assert "Delft: sunny for 3 days" in notebook.jp(f"call --id {call_id[:-1]}")


def test_invalid_lines_are_explained(notebook: Notebook, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("wether city=x", "did you mean 'weather'"),
        ("weather city", "is not an argument"),
        ("weather city=a city=b", "given twice"),
        ("weather days:=x", "is not JSON"),
        ("weather {1}", "are not JSON"),
        ("weather [1]", "is not an argument"),
        ("weather --last", "no tool call of weather"),
        ("--id nope", "begins with nope"),
        ("", "Name a tool"),
    ]
    for line, told in rows:
        with subtests.test(line=line):
            define_weather()
            with pytest.raises(jp.UsageError, match=told):
                notebook.jp(f"call {line}".strip())


def test_exception_of_a_tool_is_in_the_outcome(notebook: Notebook) -> None:
    define_weather()
    outcome = jp.call("weather", city="Atlantis")
    assert (outcome.content, outcome.is_error) == ("LookupError: no such city", True)
    assert isinstance(outcome.exception, LookupError)
    assert outcome.traceback is not None
    assert "raise LookupError" in outcome.traceback
    assert repr(outcome) == "<call weather(city=\"Atlantis\"): error: 'LookupError: no such city'>"


def test_arguments_must_be_json_values(notebook: Notebook) -> None:
    define_weather()
    with pytest.raises(jp.UsageError, match="the arguments of weather must be JSON values"):
        jp.call("weather", city=object())


def test_python_values_are_arguments_as_json_expresses_them(notebook: Notebook) -> None:
    @jp.tool
    def plan(day: date, folder: Path, sizes: set[int], price: Decimal = Decimal(1)) -> str:
        """Plan it."""
        return f"{day!r} {folder.name} {sizes} {price}"

    trip = {"day": date(2026, 3, 1), "folder": Path("x/y"), "sizes": {2}}
    outcome = jp.call(plan, trip, price=Decimal("1.50"))
    assert outcome.content == "datetime.date(2026, 3, 1) y {2} 1.50"
    assert jp.call(plan, day="2026-03-01", folder="y", sizes=[2]).content.endswith("y {2} 1")
    with pytest.raises(jp.UsageError, match="the arguments of plan must be JSON values"):
        jp.call(plan, trip, price=float("inf"))


def test_images_of_a_result_are_named_and_shown(notebook: Notebook) -> None:
    @jp.tool
    def plot() -> jp.Outcome:
        """Plot it."""
        return jp.Success("a plot", images=(figure("figure 7"),))

    before = len(notebook.shown)
    assert jp.call(plot).images == (figure(),)
    *_, report, shown = notebook.shown[before:]
    assert "The model also sees figure 7" in report
    assert "figure 7" in shown


def test_truncated_result_reports_its_length(notebook: Notebook) -> None:
    @jp.tool
    def long() -> str:
        """Return much."""
        return "x" * 5_000

    notebook.jp("config conversation.tools.long.result_max_chars=1000")
    outcome = jp.call(long)
    assert (outcome.is_cut, outcome.whole_chars) == (True, 5_000)
    assert len(outcome.content) < 2_000
    assert "truncated: the whole result has 5,000" in "\n".join(notebook.shown)


def test_disabled_tool_can_be_called_with_a_note(notebook: Notebook) -> None:
    define_weather()
    notebook.jp("config conversation.tools.weather.enable=false")
    shown = notebook.jp("call weather city=Delft")
    assert "The tool weather is not offered to the model: it is off" in shown
    assert "Delft: sunny" in shown


def test_proposed_change_is_decided_and_not_applied(notebook: Notebook) -> None:
    @jp.tool(access=[jp.ConfigRule("assistant.model", write=True, apply="unattended")])
    def change() -> jp.Outcome:
        """Change the model."""
        return jp.Success("Changed.", config={"assistant": {"model": {"id": "scripted/other"}}})

    before = protected_state(notebook.session)
    outcome = jp.call(change)
    assert outcome.content == "Changed."
    [proposed] = outcome.changes
    assert (proposed.approved, proposed.by) == (True, "grant")
    assert "not applied outside a turn" in "\n".join(notebook.shown)
    assert protected_state(notebook.session) == before


def test_question_without_a_user_is_in_the_result(notebook: Notebook) -> None:
    @jp.tool
    def rename(ctx: jp.ToolContext) -> Any:
        """Rename it."""
        if "name" in ctx.answers:
            return f"Named {ctx.answers['name']}."
        return jp.NeedsInput(jp.Question.boolean("name", "Which name?").with_exclusive())

    outcome = jp.call("rename")
    assert outcome.is_error
    assert "no interactive terminal" in outcome.content
    [question] = outcome.questions
    assert (question.question, question.end) == ("Which name?", "unavailable")


def test_command_shows_input_and_output_of_its_process(notebook: Notebook) -> None:
    (notebook.folder / ".jp" / "config.toml").write_text(
        (notebook.folder / ".jp" / "config.toml").read_text()
        + """
[conversation.tools.greet]
source = "local"
run = "unattended"
command = "sh -c 'cat >/dev/null; echo warned >&2; echo hello'"
parameters.name = { type = "string" }
"""
    )
    outcome = jp.call("greet", name="Ada")
    [process] = outcome.processes
    assert json.loads(process.stdin)["tool"]["arguments"] == {"name": "Ada"}
    assert (process.stdout, process.stderr, process.exit_code) == ("hello\n", "warned\n", 0)
    shown = "\n".join(notebook.shown)
    assert "The command got on stdin:" in shown
    assert "    warned" in shown


def test_function_that_is_no_tool_is_an_error(notebook: Notebook) -> None:
    with pytest.raises(jp.UsageError, match=r"len is not a tool. Decorate it with `@jp\.tool`"):
        jp.call(len)


def test_advice_about_a_tool_is_shown_once(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    def halve(number):  # type: ignore[no-untyped-def]
        return number / 2

    jp.tool(halve)
    notebook.session.print_notices()
    printed = capsys.readouterr().out
    assert "jp_nb: tool halve: number has no type hint" in printed
    assert "jp_nb: tool halve: there is no docstring" in printed
    jp.tool(halve)
    notebook.session.print_notices()
    assert capsys.readouterr().out == ""
    assert "number has no type hint" in notebook.jp("tools halve")


def test_permissions_of_a_call_end_with_it(folder: Path) -> None:
    person = FakePrompter(
        answered("run_turn", channel="form"),
        answered("Dunes", channel="form"),
        answered("run", channel="form"),
        answered("Heath", channel="form"),
    )
    session = Session(FakeHost(person, FakeHome(folder / "n.ipynb")))

    @jp.tool(run="ask")
    def rename(ctx: jp.ToolContext) -> Any:
        """Rename it."""
        if "name" in ctx.answers:
            return f"Named {ctx.answers['name']}."
        return jp.NeedsInput(jp.Question.text("name", "Which name?"))

    with current_session(session):
        before = protected_state(session)
        assert jp.call(rename).content == "Named Dunes."
        assert jp.call(rename).content == "Named Heath."  # both questions are asked again
        assert protected_state(session) == before
        assert not list(folder.rglob("qna.jsonl"))
    session.close()
    jp.remove_tool("rename")

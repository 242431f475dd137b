"""Replay of a recorded turn with the current tools: new results next to the old ones."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.session.bench_notebook import notebook as notebook
from tests.session.bench_notebook import protected_state
from tests.support.images import figure
from tests.support.sessions import Notebook

TWO_BATCHES = """
[[replies]]
tool_calls = [
  { name = "weather", arguments = { city = "Delft" } },
  { name = "sights", arguments = { city = "Delft" } },
]
[[replies]]
tool_calls = [{ name = "weather", arguments = { city = "Leiden" } }]
[[replies]]
text = "Done."
"""


def one_call(name: str) -> str:
    return f'[[replies]]\ntool_calls = [{{ name = "{name}" }}]\n[[replies]]\ntext = "Done."\n'


def define(weather_says: str) -> None:
    @jp.tool
    def weather(city: str) -> str:
        """Forecast."""
        return f"{city}: {weather_says}"

    @jp.tool
    def sights(city: str) -> str:
        """List the sights."""
        return "\n".join(f"{city} {number}" for number in range(40))


@pytest.fixture
def ask(notebook: Notebook) -> Notebook:
    (notebook.folder / "talk.toml").write_text(TWO_BATCHES)
    define("sunny")
    notebook.ask("Plan a day.")
    return notebook


def test_unchanged_tools_give_the_same_results(ask: Notebook) -> None:
    before = protected_state(ask.session)
    shown = ask.jp("replay")
    assert "Turn 1 with the current tools: 3 of 3 results are the same." in shown
    assert protected_state(ask.session) == before
    ask.jp("replay 1 --strict")


def test_different_results_are_shown_and_fail_a_strict_replay(ask: Notebook) -> None:
    define("rainy")
    shown = ask.jp("replay")
    assert '≠ 1 weather: "Delft: sunny" → "Delft: rainy"' in shown
    assert '≠ 3 weather: "Leiden: sunny" → "Leiden: rainy"' in shown
    assert "1 of 3 results are the same" in shown
    assert "differs" in shown
    with pytest.raises(jp.ReplayError, match="2 of 3 results of turn 1 differ from the record"):
        ask.jp("replay --strict")


def test_removed_tool_is_reported(ask: Notebook) -> None:
    jp.remove_tool("sights")
    shown = ask.jp("replay")
    assert "the tool is not available" in shown
    assert "2 of 3 results are the same" in shown


def test_recorded_answer_is_used_without_a_user(notebook: Notebook) -> None:
    (notebook.folder / "talk.toml").write_text(one_call("rename"))
    notebook.jp("config conversation.tools.rename.questions.name.answer=Dunes")

    asks = "Which name?"

    @jp.tool
    def rename(ctx: jp.ToolContext) -> Any:
        """Rename it."""
        if "name" in ctx.answers:
            return f"Named {ctx.answers['name']}, by {ctx.ends['name'].channel}."
        return jp.NeedsInput(jp.Question.text("name", asks).with_exclusive())

    notebook.ask("Rename it.")
    notebook.jp("config --unset conversation.tools.rename.questions.name.answer")
    shown = notebook.jp("replay")
    assert "Which name? → Dunes (recorded)" in shown
    assert "1 of 1 results are the same" in shown
    assert "no user was available" in notebook.jp("replay --ask")
    asks = "Which name for all of them?"  # a different question
    assert "no user was available" in notebook.jp("replay")
    asks = "Which name?"
    notebook.jp("trust --revoke")
    with pytest.raises(jp.PromptUnavailable, match=r"history .* is not trusted.*Nothing was run"):
        notebook.jp("replay")


def test_images_are_compared(notebook: Notebook) -> None:
    (notebook.folder / "talk.toml").write_text(one_call("plot"))
    shade = 1

    @jp.tool
    def plot() -> jp.Outcome:
        """Plot it."""
        return jp.Success("A plot.", images=(figure(shade=shade),))

    notebook.ask("Plot it.")
    assert "1 of 1 results are the same" in notebook.jp("replay")
    shade = 2
    shown = notebook.jp("replay")
    assert "0 of 1 results are the same" in shown
    assert "[image: figure 1, image/png 4×3, sha256:" in shown


def test_proposed_changes_are_compared(notebook: Notebook) -> None:
    (notebook.folder / "talk.toml").write_text(one_call("change"))
    wanted = "Ada"

    @jp.tool(access=[jp.ConfigRule("user", write=True, apply="unattended")])
    def change() -> jp.Outcome:
        """Change the name."""
        return jp.Success("Changed.", config={"user": {"name": wanted}})

    notebook.ask("Change it.")
    assert "2 of 2 results are the same" in notebook.jp("replay")
    wanted = "Bob"
    before = protected_state(notebook.session)
    shown = notebook.jp("replay")
    assert "≠ 2 configuration" in shown
    assert protected_state(notebook.session) == before


def test_turn_without_calls_has_nothing_to_replay(notebook: Notebook) -> None:
    with pytest.raises(jp.UsageError, match="nothing to replay: this conversation has no turn yet"):
        notebook.jp("replay")
    (notebook.folder / "talk.toml").write_text('[[replies]]\ntext = "Hi."\n')
    notebook.ask("Hi")
    with pytest.raises(jp.UsageError, match="called no tool"):
        notebook.jp("replay")
    with pytest.raises(jp.UsageError, match="There is no turn 2"):
        notebook.jp("replay 2")

"""Notebook whose run has all events that a report contains."""

from __future__ import annotations

from pathlib import Path

import nbformat

LOAD = "%load_ext jp_nb"
SCRIPT = """
[[replies]]
tool_calls = [{ name = "plan", arguments = { days = 2 } }]
usage = { input_tokens = 100, output_tokens = 7 }
[[replies]]
text = "Planned."
usage = { input_tokens = 120, output_tokens = 3 }
[[replies]]
tool_calls = [{ name = "shorter" }]
[[replies]]
text = "Shorter it is."
usage = { input_tokens = 130 }
"""
TALK = '[[replies]]\ntext = "One."\n[[replies]]\ntext = "Two."\n' * 2
"""A script of answers alone."""
TOOLS = '''import jp_nb as jp

@jp.tool
def plan(days: int, ctx: jp.ToolContext) -> jp.Outcome:
    """Plan a walk."""
    if "dogs" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("dogs", "Are there dogs?"))
    if "place" not in ctx.answers:
        place = jp.Question.free_text("place", "Where do you walk?")
        return jp.NeedsInput(place.with_exclusive())
    return jp.Success("in " + ctx.answers["place"])

RULE = jp.ConfigRule("assistant.name", write=True, apply="unattended")

@jp.tool(access=[RULE])
def shorter() -> jp.Outcome:
    """Change the name."""
    return jp.Success("Done.", config={"assistant": {"name": "Shorter"}})
'''
ANSWER = "%jp config conversation.tools.plan.questions.dogs.answer:=true"
PLAN = "%%jp -m scripted/walk\nPlan a walk."
SHORTER = "%%jp\nMake it shorter."
CELLS = (LOAD, TOOLS, ANSWER, PLAN, SHORTER)


def write_walk(folder: Path, *cells: str, name: str = "walk.ipynb", script: str = SCRIPT) -> Path:
    """Write a notebook with a heading and `cells`, and the script of its model next to it."""
    made = [nbformat.v4.new_markdown_cell("# A walk"), *map(nbformat.v4.new_code_cell, cells)]
    path = folder / name
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    (folder / "walk.toml").write_text(script, encoding="utf-8")
    return path

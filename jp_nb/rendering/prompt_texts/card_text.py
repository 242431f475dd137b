"""Show the card of a recorded question (`question_card.py`) as text and as Markdown.

    Which stores? → Redis, Postgres, "a file"
        ☑ Postgres
        ☑ Redis
        ☐ SQLite
        ✎ a file

The first line is made elsewhere, with `QuestionCard.headline`. This module shows the lines below:
the options, the *own text*, which the user typed in place of an option, and the fields of a form.

Source: `docs/prompts.md`, `docs/guide.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jp_nb.object_text import BAR
from jp_nb.rendering.markdown import escape_markup, make_code_block, quote_markdown
from jp_nb.rendering.prompt_texts.question_card import QuestionCard, split_own_text
from jp_nb.text import pluralize

OWN_SIGN: Final = "✎ "
_SIGNS: Final = {(False, False): "○ ", (False, True): "◉ ", (True, False): "☐ ", (True, True): "☑ "}
"""Signs of options. Keys: several options may be chosen; this one was chosen."""


def format_card_lines(card: QuestionCard) -> list[str]:
    """Return the lines below a question as text, without indentation.

    These are the options, the own text, and the fields of a form with their own lines.
    """
    lines = _list_options(card)

    if card.own_text is not None:
        own_lines = split_own_text(card.own_text)
        if len(own_lines) == 1:
            lines.append(f"{OWN_SIGN}{own_lines[0]}")
        else:
            lines += [f"{BAR}{line}" for line in own_lines]

    for name, inner in card.fields:
        field = f"{name}: {inner.field_text}" if card.answered else name
        lines.append(field)
        lines += [f"    {line}" for line in format_card_lines(_shorten_field_card(inner))]

    return lines


def render_card(card: QuestionCard) -> str:
    """Return the lines below a question as Markdown; "" if there are none."""
    blocks = ["\n".join(f"- {escape_markup(line)}" for line in _list_options(card))]

    if card.own_text is not None:
        own_lines = split_own_text(card.own_text)
        if len(own_lines) == 1:
            shown = escape_markup(f"{OWN_SIGN}{own_lines[0]}")
        else:
            shown = make_code_block("\n".join(own_lines))
        blocks.append(quote_markdown(shown))

    lines = []
    for name, inner in card.fields:
        answer = f": **{escape_markup(inner.field_text)}**" if card.answered else ""
        lines.append(f"- {escape_markup(name)}{answer}")
        if below := render_card(_shorten_field_card(inner)):
            lines.append("")
            for line in below.split("\n"):
                indented = f"  {line}" if line else ""
                lines.append(indented)

    blocks.append("\n".join(lines))
    return "\n\n".join(filter(None, blocks))


def _shorten_field_card(card: QuestionCard) -> QuestionCard:
    """Return the part of a field's card that is shown below its line.

    The line of an answered field has the chosen options, so they are not repeated. The user's own
    text is: the line may have only its beginning.
    """
    return replace(card, options=(), omitted_options=0) if card.answered else card


def _list_options(card: QuestionCard) -> list[str]:
    """Return a line for each listed option, such as `☑ Redis`, and one for the omitted ones."""
    lines = []
    for option in card.options:
        lines.append(f"{_SIGNS[card.allows_several, option.chosen]}{option.label}")

    if card.omitted_options:
        noun = pluralize("option", card.omitted_options)
        lines.append(f"… {card.omitted_options} more {noun}")
    return lines

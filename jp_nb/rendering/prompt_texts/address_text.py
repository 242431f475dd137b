"""The URL of a question that asks the user to open it: as lines for a console, and as HTML.

The URL comes from a tool or server. So it is shown whole, its host is marked, and each reason to be
careful is named. Only a link with `http` or `https` can be clicked.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from html import escape
from typing import Final

from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    SimplePrompt,
)
from jp_nb.text import (
    one_line,
    spell_invisible,
)
from jp_nb.toolkit.question_types.answer_types import UrlAnswer
from jp_nb.toolkit.question_types.web_address import WebAddress, read_web_address

ADDRESS_LABEL: Final = "The address"
ADDRESS_AT: Final = "an address at {}"
OPEN_ADDRESS: Final = "Open {} in a new tab"
NOT_OPENED: Final = "Open it yourself only if you are sure: copy the address"


def find_address(prompt: SimplePrompt) -> WebAddress | None:
    """Return the URL that the user should open; None if the question has none."""
    if isinstance(prompt, ActionPrompt) or not isinstance(prompt.question.answer_type, UrlAnswer):
        return None
    return read_web_address(prompt.question.answer_type.url)


def list_address_warnings(found: WebAddress) -> list[str]:
    """Return the reasons to be careful with a URL, each in one line."""
    lines = [f"⚠ {one_line(spell_invisible(warning))}." for warning in found.warnings]
    return lines if found.link else [*lines, f"{NOT_OPENED}."]


def format_address_lines(prompt: SimplePrompt) -> list[str]:
    """Return the whole URL in one line, its host, and the warnings, for a console."""
    found = find_address(prompt)
    if found is None:
        return []

    host = [f"  Host: {spell_invisible(found.host)}"] if found.host else []
    warnings = [f"  {warning}" for warning in list_address_warnings(found)]
    return [f"  {spell_invisible(found.text)}", *host, *warnings]


def render_address(found: WebAddress) -> str:
    """Return HTML that shows a URL as text with its host marked, and a link that opens it.

    The link is styled as a button. The new tab gets no access to the page and no referrer.
    """
    parts = [escape(spell_invisible(part)) for part in (found.before, found.host, found.after)]
    marked = parts[0]
    if found.host:
        marked = f"{parts[0]}<mark>{parts[1]}</mark>{parts[2]}"

    # A long URL scrolls, also with the keys of the keyboard.
    region = f'class="jp-nb-url" tabindex="0" role="region" aria-label="{ADDRESS_LABEL}"'
    block = f'<div {region}><bdo dir="ltr">{marked}</bdo></div>'

    for warning in list_address_warnings(found):
        block += f'<div class="jp-nb-warning">{escape(warning)}</div>'

    if found.link is None:
        return block

    label = escape(OPEN_ADDRESS.format(spell_invisible(found.host)))
    return (
        f'{block}<a class="jupyter-button jp-nb-open" target="_blank" rel="noopener noreferrer" '
        f'href="{escape(found.link)}">{label}</a>'
    )

"""The URL of a question that asks the user to open it: as lines for a console, and as HTML.

The URL comes from a tool or server. So it is shown whole, its host is marked, and each reason to be
careful is named. Only a link with `http` or `https` can be clicked. A `WebAddress` is the URL split
at its host, with the warnings, and with the link if it is safe to click.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from html import escape
from typing import Final

from jp_nb.agent.prompting.prompts import (
    ActionPrompt,
    SimplePrompt,
)
from jp_nb.exact_form import spell_invisible
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.answer_types import UrlAnswer
from jp_nb.toolkit.question_types.web_address import WebAddress, read_web_address

ADDRESS_LABEL: Final = "The address"
ADDRESS_AT: Final = "an address at {}"
"""The URL in a text that a page may show, where only its host is named."""
OPEN_ADDRESS: Final = "Open {} in a new tab"
NOT_OPENED: Final = "Open it yourself only if you are sure: copy the address"


def find_address(prompt: SimplePrompt) -> WebAddress | None:
    """Return the URL that the user should open; None if the question has none."""
    if isinstance(prompt, ActionPrompt) or not isinstance(prompt.question.answer_type, UrlAnswer):
        return None
    return read_web_address(prompt.question.answer_type.url)


def list_address_warnings(address: WebAddress) -> list[str]:
    """Return the reasons to be careful with a URL, each in one line."""
    lines = [f"⚠ {one_line(spell_invisible(warning))}." for warning in address.warnings]
    if not address.link:
        lines.append(f"{NOT_OPENED}.")
    return lines


def format_address_lines(prompt: SimplePrompt) -> list[str]:
    """Return the whole URL in one line, its host, and the warnings, for a console."""
    address = find_address(prompt)
    if address is None:
        return []

    lines = [spell_invisible(address.text)]
    if address.host:
        lines.append(f"Host: {spell_invisible(address.host)}")
    lines += list_address_warnings(address)
    return [f"  {line}" for line in lines]


def render_address(address: WebAddress) -> str:
    """Return HTML that shows a URL as text with its host marked, and a link that opens it.

    The link is styled as a button. The new tab gets no access to the page and no referrer. A URL
    that is not safe to click has no link.
    """
    marked = escape(spell_invisible(address.before))
    if address.host:
        host = escape(spell_invisible(address.host))
        after = escape(spell_invisible(address.after))
        marked = f"{marked}<mark>{host}</mark>{after}"

    # A long URL scrolls, and the arrow keys scroll it as well.
    region = f'class="jp-nb-url" tabindex="0" role="region" aria-label="{ADDRESS_LABEL}"'
    block = f'<div {region}><bdo dir="ltr">{marked}</bdo></div>'

    for warning in list_address_warnings(address):
        block += f'<div class="jp-nb-warning">{escape(warning)}</div>'

    if address.link is None:
        return block

    label = escape(OPEN_ADDRESS.format(spell_invisible(address.host)))
    return (
        f'{block}<a class="jupyter-button jp-nb-open" target="_blank" rel="noopener noreferrer" '
        f'href="{escape(address.link)}">{label}</a>'
    )

"""Reports of magics, rendered; and text that is hostile to them."""

from __future__ import annotations

import mistune

RENDER = mistune.create_markdown(escape=False, plugins=["table"])

HOSTILE = "$ | <img src=x> | `\x1b[31m\nfake: line"


def rendered(markdown: str) -> str:
    return str(RENDER(markdown))

"""Markdown as GitHub and JupyterLab would render it, and what in it would be dangerous."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import mistune
from hypothesis import strategies as st
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

GITHUB = mistune.create_markdown(
    escape=False, plugins=["strikethrough", "table", "url", "task_lists", "def_list", "footnotes"]
)


def renderings(markdown: str) -> list[str]:
    """Render it as HTML twice: similar to GitHub, and as nbconvert does, with mathematics."""
    nbconvert = MarkdownWithMath(renderer=IPythonRenderer(escape=False))
    return [str(GITHUB(markdown)), nbconvert.render(markdown)]


class Dangers(HTMLParser):
    """Collects what a model must not be able to put into a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "b9", "img"):
            self.found.append(tag)
        if ("class", "mermaid") in attrs:
            self.found.append("diagram")
        for name, value in attrs:
            if name.startswith("on"):
                self.found.append(f"{tag} {name}")
            allowed = ("http://", "https://", "mailto:", "#")
            if name in ("href", "src") and not (value or "").lower().startswith(allowed):
                self.found.append(f"{tag} {name}={value}")

    handle_startendtag = handle_starttag

    def handle_comment(self, data: str) -> None:
        self.found.append("comment")


def dangers(markdown: str) -> list[str]:
    """The elements and links that could run code in any rendering of `markdown`."""
    found: list[str] = []
    for html in renderings(markdown):
        parser = Dangers()
        parser.feed(html)
        parser.close()
        found += parser.found
    return found


def without_pictures(markdown: str) -> str:
    """Return `markdown` without the lines that are one picture of a report, which has no link."""
    lines = markdown.split("\n")
    return "\n".join(line for line in lines if not PICTURE.fullmatch(line))


PICTURE = re.compile(
    r'<div style="overflow-x:auto" tabindex="0" data-lm-suppress-shortcuts="true">'
    r'<img class="jp-nb-picture" style="min-width:\d+px" '
    r'alt="[^"<>]*" src="data:image/svg[+]xml,[^"<>]*"></div>'
)
HTML = "<b9 onclick=x>"

PIECES = [
    "```", "~~~", "````", "`", "``", "\n", "\n\n", " ", "  ", "   ", "    ", "\t", "\u00a0", "- ",
    "1. ", "> ", "* ", HTML, HTML, "<script>", "<!--", "a|b\n-|-\n", "|", "$", "$$", "\\", "\\\\[",
    "\\begin{a}", "\\end{a}", "[a", "]", "](javascript:x)", "![", "[a]: javascript:x", "t\n: d",
    "](https://x", "https://x/", "www.x.y/", "a@b.c", ' "', "'", "(", ")", "# ", "===\n", "[^1]: ",
    "![a](https://x/y)", "![a][b]", "![a]", "![[", "[![a](https://x)](https://y)", "mermaid", "!",
    "\n```mermaid\n", "\n- ~~~ mermaid\n", "\n   ```\\mermaid", "&#109;ermaid\n",
    "\n```\n", "\n ```\n", "\n   ```\n", "\n> ```\n", "\n- ```\n", "```|\n", "```\t\n", "x", "&lt;",
]  # fmt: skip

markdowns = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)

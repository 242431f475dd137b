"""Markdown that a model or a tool wrote, made safe to render.

Outside code no HTML is left, no link or image but `http`, `https` and `mailto`, and no TeX command
that makes links or styles. Where it is not certain that a place is code, it counts as text: what
is shown may then have a `&lt;` too many, and never a tag.

Source: `design/architecture.md` D32; CommonMark 0.31, sections 4.5, 6.1, 6.3.
"""

from __future__ import annotations

import re

from jp_nb.notebook.prompt.plain import plain

_FENCE = re.compile(r"^(`{3,})[^`\n]*$|^(~{3,})")
_BACKTICKS = re.compile(r"`+")
_ALLOWED = r"(?:https?://|mailto:)"
_LINK = re.compile(rf"\]\((?!\s*{_ALLOWED})", re.IGNORECASE)
_DEFINITION = re.compile(rf"\]:(?!\s*{_ALLOWED})", re.IGNORECASE)
_TEX = re.compile(r"\\(?=(?:href|url|class|cssId|style|require|unicode|def|newcommand|let)\b)")
MAX_CHARS = 1_000_000


def safe_markdown(text: str) -> str:
    """`text` with its Markdown, and without anything in it that a front end would run or load."""
    lines: list[str] = []
    paragraph: list[str] = []
    fence = ""

    def end_paragraph() -> None:
        if paragraph:
            lines.extend(_paragraph(paragraph).split("\n"))
            paragraph.clear()

    for line in plain(text, limit=MAX_CHARS).split("\n"):
        if fence:
            lines.append(line)
            if _closes(line, fence):
                fence = ""
        elif opening := _FENCE.match(line):
            end_paragraph()
            fence = opening[1] or opening[2]
            lines.append(line)
        elif not line.strip():
            end_paragraph()
            lines.append(line)
        else:
            paragraph.append(line)
    end_paragraph()
    if fence:
        lines.append(fence)
    return "\n".join(lines)


def _closes(line: str, fence: str) -> bool:
    rest = line.strip()
    return len(rest) >= len(fence) and not rest.strip(fence[0])


def _paragraph(lines: list[str]) -> str:
    """Neutralise the lines of one block; code is what closes in its own line."""
    pieces: list[str] = []
    certain = True
    for number, line in enumerate(lines):
        if number:
            pieces.append("\n")
        spans, certain = _code_spans(line) if certain else ([], False)
        at = 0
        for start, end in spans:
            pieces += [_escape(line[at:start]), line[start:end]]
            at = end
        pieces.append(_escape(line[at:]))
    return _break_links("".join(pieces))


def _code_spans(line: str) -> tuple[list[tuple[int, int]], bool]:
    """Where `line` holds code for certain, and whether every backtick in it found its partner."""
    spans: list[tuple[int, int]] = []
    at = 0
    while run := _BACKTICKS.search(line, at):
        escaped = (run.start() - len(line[: run.start()].rstrip("\\"))) % 2
        opening = run.end() - run.start() - escaped
        start = run.start() + escaped
        at = run.end()
        if not opening:
            continue
        closing = next(
            (m for m in _BACKTICKS.finditer(line, at) if m.end() - m.start() == opening), None
        )
        if closing is None:
            return spans, False
        if "|" not in line[run.end() : closing.start()]:  # a table may cut it there
            spans.append((start, closing.end()))
        at = closing.end()
    return spans, True


def _escape(text: str) -> str:
    return _TEX.sub(r"\\\\", text.replace("<", "&lt;"))


def _break_links(text: str) -> str:
    return _DEFINITION.sub(r"]\\:", _LINK.sub(r"]\\(", text))


def code_span(text: str) -> str:
    """`text` as inline code, whatever it holds."""
    text = plain(text).replace("\n", " ")
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "``` ```"


def code_block(text: str) -> str:
    """`text` as a block of code, whatever it holds."""
    text = plain(text, limit=MAX_CHARS).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"

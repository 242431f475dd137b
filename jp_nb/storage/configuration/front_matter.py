"""Read the YAML front matter of a Markdown file: its top-level texts.

    ---
    name: make-plots
    description: >
      How to draw plots
      in this project.
    ---

Only texts are read: plain, quoted, and blocks (`|`, `>`). An indented list or table below a key is
taken for its text, so the caller asks only for keys with texts. No anchor, tag, or type of YAML has
an effect, and each file takes linear time.

Source: https://yaml.org/spec/1.2.2/, https://agentskills.io/specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

MAX_FRONT_MATTER_LINES: Final = 200
_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
_BLOCK: Final = re.compile(r"([|>])[+-]?")
_COMMENT: Final = re.compile(r"[ \t]#.*")
_QUOTED_WITH_COMMENT: Final = re.compile(
    r"""( "(?:\\.|[^"\\])*" | '(?:''|[^'])*' ) [ \t]+ [#].*""", re.VERBOSE
)
_ESCAPES: Final = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t"}
_ESCAPE: Final = re.compile(r"\\.")


class FrontMatterError(ValueError):
    """The front matter is missing or cannot be read. The message says what to write."""


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the texts in the front matter of `text` by key, and the text below it.

    Raises:
        FrontMatterError: There is no front matter, or it has no end.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise FrontMatterError("it must begin with `---`, `name: …`, `description: …`, `---`")

    possible_ends = lines[1 : MAX_FRONT_MATTER_LINES + 2]
    ends = (index for index, line in enumerate(possible_ends, start=1) if line.rstrip() == _FENCE)
    end = next(ends, None)
    if end is None:
        raise FrontMatterError(
            f"its front matter must end with `---` within {MAX_FRONT_MATTER_LINES} lines"
        )
    return dict(_read_entries(lines[1:end])), "\n".join(lines[end + 1 :])


def _read_entries(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each key with its text, which may continue in the lines below the key."""
    key = ""
    first = ""
    below: list[str] = []

    for line in [*lines, "end:"]:  # this key ends the last text
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            below.append(line)
            continue

        if key:
            yield key, _read_text(first, below)
        key = match[1]
        first = (match[2] or "").strip()
        below = []


def _read_text(first: str, below: Sequence[str]) -> str:
    """Return the value that begins with `first`, with the indented lines `below` it."""
    texts = [line.strip() for line in below if not line or line[0] in " \t"]
    block = _BLOCK.fullmatch(first)
    if block is not None:
        keeps_lines = block[1] == "|"
        return "\n".join(texts).strip() if keeps_lines else " ".join(filter(None, texts))

    text = " ".join([first, *filter(None, texts)]).strip()
    quoted = _QUOTED_WITH_COMMENT.fullmatch(text)
    if quoted is not None:
        text = quoted[1]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[0], escape[0]), text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return _COMMENT.sub("", text).strip()

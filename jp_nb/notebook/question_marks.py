"""Keep the question mark at the end of `%jp q TEXT?`, for which IPython would show help.

The same holds for the text of any other `%jp` command.

Source: https://ipython.readthedocs.io/en/stable/config/inputtransforms.html
"""

from __future__ import annotations

import io
import re
import tokenize

_QUESTION = re.compile(r"([ \t]*)%jp[ \t]+(\S.*\?)\s*$")


def keep_question_marks(lines: list[str]) -> list[str]:
    """Transform `%jp q TEXT?` so that IPython does not show help for the last word.

    Source: https://ipython.readthedocs.io/en/stable/config/inputtransforms.html
    """
    if (lines and lines[0].startswith("%%")) or not any(map(_QUESTION.match, lines)):
        return lines

    transformed: list[str] = []
    # The lines before the current one without magics, whose quotes are no Python strings. They show
    # whether the current line is inside of a string or brackets.
    python: list[str] = []

    for line in lines:
        text = line.lstrip()
        is_magic = text.startswith(("%", "!", "?")) and not _is_incomplete("".join(python))
        if not is_magic:
            transformed.append(line)
            python.append(line)
            continue

        indent = line[: len(line) - len(text)]
        python.append(f"{indent}pass\n")
        match = _QUESTION.match(line)
        if match is None:
            transformed.append(line)
        else:
            transformed.append(f"{match[1]}get_ipython().run_line_magic('jp', {match[2]!r})\n")

    return transformed


def _is_incomplete(code: str) -> bool:
    """Return True if `code` ends inside of a string or brackets, or after a backslash."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(code).readline):
            pass
    except tokenize.TokenError as exc:
        return any(word in str(exc) for word in ("multi-line", "triple-quoted", "unexpected EOF"))
    except SyntaxError:  # Python reports it when the cell runs
        return False

    return False

"""Make the text of notebooks and of messages safe for a terminal.

`format_terminal_text` is for cells and outputs, which the user sees as they are in the notebook.
`format_text` and `format_one_line` are for messages of reports and logs, such as errors, which
others may read: they hide secrets, before the text is cut, because a partial API key is not
recognized.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import re
import sys

from jp_nb.config.secrets.secret_hiding import hide_secrets
from jp_nb.text import one_line, plain

_SEQUENCES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, and similar
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movements
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
# Bidirectional overrides would change the order of the text on screen.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def format_terminal_text(text: str) -> str:
    """Return `text` without control sequences, and with the last state of progress bars."""
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n")
    # A progress bar rewrites its line. Keep the last state, as on a screen; `plain` shows each one.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def format_text(text: str) -> str:
    """Return `text` without secrets and control characters, cut to `MAX_PLAIN_CHARS` characters."""
    return plain(_hide_secrets(text))


def format_one_line(text: str, *, limit: int = 200) -> str:
    """Return `text` in one line without secrets, cut to `limit` characters."""
    return one_line(_hide_secrets(text), limit=limit)


def _hide_secrets(text: str) -> str:
    # Without colors, which may split a key.
    return hide_secrets(plain(text, limit=sys.maxsize))

"""Prompts without a form: a user who types lines, the texts of a prompt, and the way to ask."""

from __future__ import annotations

from typing import Any, Literal

from jp_nb.notebook.prompt.running_cell.deadlines import Expired
from jp_nb.notebook.prompt.stdin_prompts.stdin import ask_on_stdin


class ConsoleUser:
    """A user who types `lines`, one for each request. None lets the time to answer pass.

    Attributes:
        lines: The lines that were not typed yet. Without any, the input ends.
        shown: Everything that was shown: texts, and the words before the cursor.
        transcript: The same line by line, with the typed lines: `[y/n/?] y⏎`.
        hidden: For each request, True if it was without echo.
    """

    def __init__(self, *lines: str | None) -> None:
        self.lines = list(lines)
        self.shown: list[str] = []
        self.transcript: list[str] = []
        self.hidden: list[bool] = []

    def ask(self, prompt: Any, channel: Literal["stdin", "terminal"] = "stdin") -> Any:
        """Answer `prompt`, a question, a decision, or a form, and return its end."""
        return ask_on_stdin(prompt, self, channel)

    def write(self, text: str) -> None:
        """Show `text`."""
        self.shown.append(text)
        self.transcript += text.split("\n")

    def read(self, prompt: str, *, secret: bool) -> str:
        """Return the next line."""
        self.shown.append(prompt)
        self.hidden.append(secret)
        if not self.lines:
            self.transcript.append(f"{prompt}⌃D")
            raise EOFError

        line = self.lines.pop(0)
        if line is None:
            raise Expired

        echo = "•" * len(line) if secret else line
        self.transcript.append(f"{prompt}{echo}⏎")
        return line


"""The way to ask after no page has shown the form, by `stdin` and `stays` of the route."""

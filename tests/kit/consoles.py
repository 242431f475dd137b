"""Prompts without a form: a user who types lines, the texts of a prompt, and the way to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from jp_nb.agent.prompts import Unavailable
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.prompt.deadlines import Expired
from jp_nb.notebook.prompt.presence import FormRoute, Presence, StdinRoute
from jp_nb.notebook.prompt.stdin import ask_on_stdin
from jp_nb.notebook.prompt.stdin_form import ask_form_on_stdin
from jp_nb.rendering.prompt_summary import format_without_form, summarize_prompt
from tests.kit.kinds import is_kind


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
        if is_kind(prompt, "form_prompt"):
            return ask_form_on_stdin(prompt, self, channel)
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


def prompt_texts(prompt: Any, end: Any = None) -> dict[str, str]:
    """Return the texts of a prompt: `saved` while it is open; `record` and `markdown` of its `end`.

    A notebook that is saved while the form is open has the first one.
    """
    if end is None:
        return {"saved": format_without_form(prompt)}

    record = summarize_prompt(prompt, end)
    return {"record": record.plain, "markdown": record.markdown}


_AFTERWARDS = {
    (True, False): "then stdin",
    (False, False): "then none",
    (True, True): "then stdin after an interrupt",
    (False, True): "then still the form",
}
"""The way to ask after no page has shown the form, by `stdin` and `stays` of the route."""


def prompt_route(facts: Mapping[str, Any] | None, **settings: Any) -> str:
    """Return the way to ask the user of a front end, in words.

    `facts` name the true ones of `kernel`, `cell_runs`, `allow_stdin`, `cell_id`, `terminal`, and
    `page`, and the reason `no_forms`; None means those of this process. `settings` are those of
    `prompt` in the configuration.
    """
    presence = Presence.here() if facts is None else Presence(**facts)
    route = presence.route(PromptConfig(**settings))
    match route:
        case FormRoute(patience=patience):
            return f"form for {patience:g} s, {_AFTERWARDS[route.stdin, route.stays]}"
        case StdinRoute(channel=channel):
            return channel
        case Unavailable(reason=reason):
            return f"unavailable: {reason}"

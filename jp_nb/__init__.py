"""An assistant's turn loop inside a notebook kernel.

`%load_ext jp_nb`, then ask below `%%jp`. From Python:

    import jp_nb as jp

    @jp.tool
    def weather(city: str) -> str: ...

Importing this loads no Jupyter, opens nothing and reads no environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from jp_nb.session.current import current as _current
from jp_nb.session.current import loaded as _loaded

if TYPE_CHECKING:
    from pydantic import JsonValue

    from jp_nb.agent.call_outcome import CallOutcome
    from jp_nb.config.tree.access_config import ConfigRule
    from jp_nb.errors import (
        AnswerError,
        ConfigError,
        JpNbError,
        PromptCancelled,
        PromptUnavailable,
        ProviderError,
        ReplayError,
        StorageError,
        ToolError,
        UsageError,
    )
    from jp_nb.image import Image
    from jp_nb.record.turn_view import Conversation, Turn
    from jp_nb.tooling.context import ToolContext
    from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
    from jp_nb.tooling.python import PythonTool, remove_tool, tool
    from jp_nb.tooling.question import Question
    from jp_nb.tooling.select_kind import Option
    from jp_nb.values.describing import describe
    from jp_nb.values.own_words import describer

__version__ = "0.1.0"

_HOMES = {
    "CallOutcome": "jp_nb.agent.call_outcome",
    "ConfigRule": "jp_nb.config.tree.access_config",
    "AnswerError": "jp_nb.errors",
    "ConfigError": "jp_nb.errors",
    "JpNbError": "jp_nb.errors",
    "PromptCancelled": "jp_nb.errors",
    "PromptUnavailable": "jp_nb.errors",
    "ProviderError": "jp_nb.errors",
    "ReplayError": "jp_nb.errors",
    "StorageError": "jp_nb.errors",
    "ToolError": "jp_nb.errors",
    "UsageError": "jp_nb.errors",
    "Image": "jp_nb.image",
    "Conversation": "jp_nb.record.turn_view",
    "Turn": "jp_nb.record.turn_view",
    "ToolContext": "jp_nb.tooling.context",
    "NeedsInput": "jp_nb.tooling.outcome",
    "Outcome": "jp_nb.tooling.outcome",
    "Success": "jp_nb.tooling.outcome",
    "remove_tool": "jp_nb.tooling.python",
    "tool": "jp_nb.tooling.python",
    "Question": "jp_nb.tooling.question",
    "Option": "jp_nb.tooling.select_kind",
    "describe": "jp_nb.values.describing",
    "describer": "jp_nb.values.own_words",
}

__all__ = [
    "AnswerError",
    "CallOutcome",
    "ConfigError",
    "ConfigRule",
    "Conversation",
    "Image",
    "JpNbError",
    "NeedsInput",
    "Option",
    "Outcome",
    "PromptCancelled",
    "PromptUnavailable",
    "ProviderError",
    "Question",
    "ReplayError",
    "StorageError",
    "Success",
    "ToolContext",
    "ToolError",
    "Turn",
    "UsageError",
    "ask",
    "call",
    "conversation",
    "describe",
    "describer",
    "last",
    "query",
    "remove_tool",
    "tool",
    "tools",
]

_T = TypeVar("_T")

last: Turn | None
"""The last turn of this kernel; None before the first."""


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "last":
        session = _current()
        return None if session is None else session.last
    if name not in _HOMES:
        raise AttributeError(f"module 'jp_nb' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Load the extension: `%load_ext jp_nb`."""
    from jp_nb.notebook.magics import load

    load(shell, version=__version__)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away: `%unload_ext jp_nb`; the conversation is kept for the next load."""
    from jp_nb.notebook.magics import unload

    unload(shell)


def query(
    text: str,
    *,
    model: str | None = None,
    cfg: str | Sequence[str] = (),
    no_cfg: str | Sequence[str] = (),
    attach: str | Sequence[str] = (),
    new: bool = False,
    schema: object = None,
    tool_use: str | bool | None = None,
    strict: bool = False,
    interpolate: bool = False,
    compact: bool = False,
) -> Turn:
    """Ask the model: `%%jp` as a function, with the same display in the running cell.

    Args:
        text: The request, as it is sent.
        model: As `-m`.
        cfg: As `-c`, once or several times.
        no_cfg: As `-C`, once or several times, after `cfg`.
        attach: As `-a`, once or several times, after both.
        new: As `-n`.
        schema: As `-s`: a type that pydantic can describe, a JSON schema, or the name of one.
        tool_use: True as `-u`, the name of a tool as `-u NAME`, False as `-U`.
        strict: As `--strict`.
        interpolate: Replace each `{{name}}` in `text`, as `%%jp` does. Only for a text of your
            own: one that holds data could name what it should not see.
        compact: As `-k`.

    Returns:
        The turn, which is also `jp_nb.last` and, in a notebook, `_jp`.

    Raises:
        UsageError: If jp_nb is not loaded, `text` is empty or names something unknown, or
            `schema` or `tool_use` is wrong; nothing was recorded.
        ConfigError: If an option is wrong; nothing was recorded.
        ProviderError: If the model could not be reached.
        AnswerError: If a structured answer did not come, or does not fit `schema`.
        PromptUnavailable: If `strict` and nobody could decide something.
    """
    from jp_nb.config.directives import Directive, tool_choice

    session = _loaded()
    directives = [Directive("cfg", x) for x in _several(cfg)]
    directives += [Directive("no_cfg", x) for x in _several(no_cfg)]
    directives += [Directive("attach", x) for x in _several(attach)]
    with session.guarded():
        return session.run_turn(
            text,
            model=model,
            directives=directives,
            new=new,
            schema=schema,
            tool_choice=tool_choice(tool_use),
            strict=strict,
            interpolate=interpolate,
            compact=compact,
        )


def _several(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


@overload
def ask(question: Question, *, label: str | None = None, tool: str | None = None) -> Any: ...


@overload
def ask(
    question: list[Question] | tuple[Question, ...],
    *,
    label: str | None = None,
    tool: str | None = None,
) -> dict[str, Any]: ...


@overload
def ask(
    question: type[_T],
    *,
    title: str | None = None,
    label: str | None = None,
    tool: str | None = None,
) -> _T: ...


def ask(
    question: object,
    *,
    title: str | None = None,
    label: str | None = None,
    tool: str | None = None,
) -> Any:
    """Put a question, several of them, or the fields of a type to the person, in the running cell.

    A type is a form with a field for each of its fields, as `Question.form` makes it; several
    questions are one form with a page for each::

        class Plan(pydantic.BaseModel):
            city: str
            days: int = pydantic.Field(3, ge=1, le=14)

        plan = jp.ask(Plan)

    Args:
        question: What to ask: a `Question`, a list of them whose ids differ, a pydantic model, a
            dataclass, or a TypedDict (before Python 3.12 that of `typing_extensions`).
        title: What stands above the fields of a type; None: its title, or its name.
        label: A header above it.
        tool: Whose `conversation.tools.<tool>.questions.<id>.answer` answers it without asking;
            without one, `conversation.tools.*.questions.<id>.answer` does. Of a type, `<id>` is
            the name of a field, or of the type for an object with all of them: what is not
            configured is asked. An option may be named by its label.

    Returns:
        What was answered. That is, by the kind of the question, True or False, a text, a number, an
        option or a list of them; of a list of questions the answers by id; of a type an instance
        that its validators have seen. An optional question that was left open is None.

    Raises:
        UsageError: If jp_nb is not loaded, or no form can be made of a type; names the place.
        ConfigError: If a configured answer does not fit; names its path.
        PromptUnavailable: If nobody can be asked; `reason` says why, the message what to configure.
            A field with a default takes it then, an optional one stays open: only if another one
            has no answer is this raised.
        PromptCancelled: If somebody was asked and gave no answer.
    """
    from jp_nb.errors import JpNbError
    from jp_nb.session.own_questions import questions_of

    turns = _loaded().turns
    questions = questions_of(question, title=title)
    try:
        answers = turns.ask_together(questions, label=label, tool=tool)
    except (JpNbError, KeyboardInterrupt) as exc:
        # Whoever asked sees their own lines, and not all of ours.
        raise exc.with_traceback(None) from exc.__cause__
    return answers if isinstance(question, list | tuple) else answers[questions[0].id]


def call(
    tool: str | Callable[..., Any],
    /,
    arguments: Mapping[str, JsonValue] | None = None,
    **named: JsonValue,
) -> CallOutcome:
    """Run a tool as a turn would, outside of the conversation: `%jp call` as a function.

    Arguments are checked, permission and questions are put to the person, and the cell shows what
    the model would read. With nobody there it ends as in a turn, and the outcome says so::

        assert jp.call("weather", city="Delft").content == "Sunny"

    Args:
        tool: The name of a tool, or the function itself.
        arguments: Its arguments, as the model would write them.
        named: More of them.

    Returns:
        What came of it. Nothing is recorded; a configuration change that it proposed is decided,
        and not applied.

    Raises:
        UsageError: If jp_nb is not loaded, a turn runs, there is no such tool, or an argument is
            not JSON.
        ConfigError: If the configuration is not valid.
        PromptUnavailable: In a strict run, if nobody could decide something.
    """
    from jp_nb.errors import UsageError

    session = _loaded()
    given = dict(arguments or {})
    if twice := given.keys() & named.keys():
        raise UsageError(f"given more than once: {', '.join(sorted(twice))}")
    with session.guarded():
        tools = session.bench.tools()
        return session.bench.call(tools, tools.find(tool), given | named)


def tools() -> tuple[PythonTool, ...]:
    """Return the Python tools that the model may call, in the order they were first defined."""
    from jp_nb.tooling.python import REGISTRY

    return tuple(REGISTRY.all().values())


def conversation() -> Conversation:
    """Return the record of this notebook's conversation, as it is now. Read-only.

    Raises:
        UsageError: If jp_nb is not loaded.
    """
    from jp_nb.record.turn_view import Conversation

    session = _loaded()
    turns = session.conversations.log()
    return Conversation.of(session.document.conversation, turns, session.config)

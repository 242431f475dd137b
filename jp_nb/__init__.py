"""Run an assistant's turn loop inside a notebook kernel.

Load the extension with `%load_ext jp_nb`, and ask the model with `%%jp`. In Python:

    import jp_nb as jp

    @jp.tool
    def weather(city: str) -> str: ...

The import loads no Jupyter package, opens no file, and reads no environment variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

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
from jp_nb.session import get_session as _current
from jp_nb.session import require_session as _loaded

if TYPE_CHECKING:
    from jp_nb.agent.call_steps.call_outcome import CallOutcome
    from jp_nb.config.tree.access_settings import ConfigRule
    from jp_nb.images import Image
    from jp_nb.record.reading.turn_view import Conversation, Turn
    from jp_nb.session.rows.completions import Completion, Completions, Failure
    from jp_nb.toolkit.function_tools.python_tool import PythonTool
    from jp_nb.toolkit.function_tools.tool_registry import remove_tool, tool
    from jp_nb.toolkit.outcome import NeedsInput, Outcome, Success
    from jp_nb.toolkit.question import Question
    from jp_nb.toolkit.question_types.select_options import Option
    from jp_nb.toolkit.tool_context import ToolContext
    from jp_nb.values.describe import describe
    from jp_nb.values.registered_describers import describer

__version__ = "0.1.0"

_EXPORTS = {
    "jp_nb.agent.call_steps.call_outcome": ("CallOutcome",),
    "jp_nb.config.tree.access_settings": ("ConfigRule",),
    "jp_nb.images": ("Image",),
    "jp_nb.record.reading.turn_view": ("Conversation", "Turn"),
    "jp_nb.session.rows.completions": ("Completion", "Completions", "Failure"),
    "jp_nb.toolkit.outcome": ("NeedsInput", "Outcome", "Success"),
    "jp_nb.toolkit.function_tools.tool_registry": ("remove_tool", "tool"),
    "jp_nb.toolkit.question": ("Question",),
    "jp_nb.toolkit.question_types.select_options": ("Option",),
    "jp_nb.toolkit.tool_context": ("ToolContext",),
    "jp_nb.values.describe": ("describe",),
    "jp_nb.values.registered_describers": ("describer",),
}
_MODULES: dict[str, str] = {}
for _module, _names in _EXPORTS.items():
    _MODULES |= dict.fromkeys(_names, _module)

__all__ = [
    "AnswerError",
    "CallOutcome",
    "Completion",
    "Completions",
    "ConfigError",
    "ConfigRule",
    "Conversation",
    "Failure",
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
    "acomplete",
    "ask",
    "call",
    "cancel_batch",
    "complete",
    "complete_all",
    "conversation",
    "describe",
    "describer",
    "inbox",
    "last",
    "query",
    "remove_tool",
    "tool",
    "tools",
]

_T = TypeVar("_T")

last: Turn | None
"""The last turn of this kernel; None before the first."""


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    # JupyterLab calls it: `jupyter labextension develop` links this folder.
    return [{"src": "labextension", "dest": "jp-nb"}]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "last":
        session = _current()
        return None if session is None else session.last_turn

    if name not in _MODULES:
        raise AttributeError(f"module 'jp_nb' has no attribute {name!r}")

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value

    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Load the extension: `%load_ext jp_nb`."""
    from jp_nb.notebook.extension import load

    load(shell, version=__version__)


def unload_ipython_extension(shell: Any) -> None:
    """Unload the magics: `%unload_ext jp_nb`. The next load continues the conversation."""
    from jp_nb.notebook.extension import unload

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
    plan: bool = False,
    display: bool = True,
) -> Turn:
    """Ask the model. This is `%%jp` as a function, with the same display in the running cell.

    Args:
        text: The request. It is sent unchanged, unless `interpolate` is True.
        model: Model for this and later turns, as with `-m`.
        cfg: One or more configuration changes, as with `-c`.
        no_cfg: One or more reverted changes, as with `-C`. They are applied after `cfg`.
        attach: One or more attachments, as with `-a`. They are applied after `no_cfg`.
        new: True to start a new conversation, as with `-n`.
        schema: Schema of a structured answer, as with `-s`: a type that pydantic supports, a JSON
            schema, or the name of one of these in the notebook.
        tool_use: True to require a tool call (`-u`), the name of the required tool (`-u NAME`), or
            False to forbid tool calls (`-U`).
        strict: True to raise an error if no user can answer a question, as with `--strict`.
        interpolate: True to replace each `{{name}}` in `text`, as `%%jp` does. Use it only for your
            own text: in text from elsewhere, it could insert variables that you do not want to
            send.
        compact: True to compact the conversation first, as with `-k`.
        plan: True to change nothing before the user has approved the model's plan, as with
            `--plan`.
        display: False to show nothing of the turn, except the questions of its tools and the text
            that they print.

    One turn at a time runs: several threads wait in line, in the order of their calls.

    Returns:
        The turn. It is also `jp.last` and, in a notebook, `_jp`.

    Raises:
        UsageError: If `jp_nb` is not loaded, if the caller is a tool, if `text` is empty or
            contains an unknown name, or if `schema` or `tool_use` is invalid. Nothing is recorded.
        ConfigError: If an option is invalid. Nothing is recorded.
        ProviderError: If the request to the model fails.
        AnswerError: If a structured answer is missing or does not match `schema`.
        PromptUnavailable: If `strict` is True and no user is available for a decision.
    """
    from jp_nb.config.directives import Directive, DirectiveKind, parse_tool_choice
    from jp_nb.session.threads.active_output import showing_turns

    session = _loaded()
    changes: list[tuple[DirectiveKind, str | Sequence[str]]]
    changes = [("cfg", cfg), ("no_cfg", no_cfg), ("attach", attach)]
    directives: list[Directive] = []
    for kind, value in changes:
        texts = [value] if isinstance(value, str) else value
        directives += [Directive(kind, one_text) for one_text in texts]

    with session.report_errors(), showing_turns(display):
        return session.turns.run(
            text,
            model=model,
            directives=directives,
            new=new,
            schema=schema,
            tool_choice=parse_tool_choice(tool_use),
            strict=strict,
            interpolate=interpolate,
            compact=compact,
            plan=plan,
        )


def complete(
    prompt: str,
    *,
    schema: object = None,
    model: str | None = None,
    system: str | None = None,
    images: Any = (),
    cfg: str | Sequence[str] = (),
) -> Completion:
    """Ask the model one prompt outside of the conversation, without tools.

    Any thread can call this, also inside of a tool, in a Dask task, or in a script without
    Jupyter. Nothing is recorded.

    Args:
        prompt: The text for the model. It is sent unchanged.
        schema: Schema of a structured answer: a type that pydantic supports, such as a model, a
            TypedDict, or a `Literal`, or a JSON schema.
        model: The model, as `provider/name` or an alias; None: that of the conversation, or without
            one the configured model.
        system: Instructions; None: the configured ones, "": none.
        images: Images and PDFs: a `jp.Image`, bytes, a path in the workspace, a PIL image, a
            figure, or a list of these.
        cfg: Changes of the configuration for this call, as with `-c`.

    Raises:
        UsageError: If `prompt`, `schema`, or `images` cannot be used, or if an `async def` tool
            calls this. It awaits `jp.acomplete` instead.
        ConfigError: If a setting is invalid, or no model is configured.
        ProviderError: If the requests fail, or the model refuses to answer.
        AnswerError: If the structured answer is missing or does not match `schema`.
    """
    from jp_nb.session.rows.complete import complete

    return complete(prompt, schema=schema, model=model, system=system, cfg=cfg, images=images)


async def acomplete(
    prompt: str,
    *,
    schema: object = None,
    model: str | None = None,
    system: str | None = None,
    images: Any = (),
    cfg: str | Sequence[str] = (),
) -> Completion:
    """Ask the model one prompt outside of the conversation, from code with an event loop.

    Arguments and exceptions are those of `jp.complete`. Canceling the task cancels the request.
    """
    from jp_nb.session.rows.complete import acomplete

    return await acomplete(
        prompt, schema=schema, model=model, system=system, cfg=cfg, images=images
    )


def complete_all(
    prompts: Any,
    *,
    prompt: str | None = None,
    schema: object = None,
    model: str | None = None,
    system: str | None = None,
    images: Any = None,
    cfg: str | Sequence[str] = (),
    workers: int = 8,
    cache: str | PathLike[str] | None = None,
    errors: Literal["values", "raise"] = "values",
    max_total_tokens: int | None = None,
    max_concurrent: int | None = None,
    progress: bool = True,
    mode: Literal["live", "batch"] = "live",
    poll_seconds: float = 60.0,
) -> Completions:
    """Ask the model a prompt for each row, several at once, outside of the conversation.

        reviews = jp.complete_all(frame, prompt="Classify: {text}", schema=Review)
        reviews.to_frame()

    An interrupt ends the requests and returns the answers so far (`partial`).

    Args:
        prompts: Texts in a list, an iterator, or a series of pandas or polars; or, with `prompt`, a
            frame or dictionaries.
        prompt: Template with the names of columns in braces. Values are inserted as text.
        schema: Schema of the structured answers, as in `jp.complete`.
        model: The model, as in `jp.complete`.
        system: Instructions, as in `jp.complete`.
        images: The name of a column, or a list with the images of each row, as in `jp.complete`.
        cfg: Changes of the configuration for this call.
        workers: Requests that run at once.
        cache: A file that keeps each answer. A later call asks only for the missing ones.
        errors: `values`: a row without an answer is a `jp.Failure`. `raise`: the first one ends the
            call with its exception.
        max_total_tokens: After so many tokens, no further row is asked.
        max_concurrent: Requests to the provider that run at once, other calls included.
        progress: False to show no progress.
        mode: `batch`: by the batch API of Anthropic, OpenAI, or a compatible server, at a lower
            price; the answers take up to a day. `cache` keeps the id of the batch, so that a later
            call, also of another kernel, finds the answers.
        poll_seconds: Time between two looks at a batch.

    Returns:
        The answers, in the order of the rows: a list with `to_frame()` and, for pandas and polars,
        `series`.

    Raises:
        UsageError: If an argument cannot be used. Nothing is sent.
        ConfigError: If a setting is invalid, or no model is configured.
        ProviderError: If the key is missing.
        StorageError: If the cache file cannot be read.
    """
    from jp_nb.session.rows.complete import complete_all

    return complete_all(
        prompts,
        template=prompt,
        schema=schema,
        model=model,
        system=system,
        cfg=cfg,
        images=images,
        workers=workers,
        errors=errors,
        max_total_tokens=max_total_tokens,
        cache=cache,
        max_concurrent=max_concurrent,
        progress=progress,
        mode=mode,
        poll_seconds=poll_seconds,
    )


def cancel_batch(
    cache: str | PathLike[str], *, model: str | None = None, cfg: str | Sequence[str] = ()
) -> int:
    """Cancel the batches that `jp.complete_all(mode="batch")` has submitted.

        jp.cancel_batch("answers.jsonl")

    The provider charges for requests that it has already answered. A later `jp.complete_all` with
    the same file reads these answers, and submits the other rows again.

    Args:
        cache: The file that keeps the answers and the ids of the batches.
        model: The model whose provider has the batches; None for the one of the conversation.
        cfg: Changes of the configuration for this call.

    Returns:
        The number of batches that were open.

    Raises:
        UsageError: If there is no such file, or the provider has no batch API.
        ProviderError: If the key is missing, or the server does not cancel a batch.
        StorageError: If the file cannot be read.
    """
    from jp_nb.session.rows.complete import cancel_batch

    return cancel_batch(cache, model=model, cfg=cfg)


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
    question: object, *, title: str | None = None, label: str | None = None, tool: str | None = None
) -> Any:
    """Ask the user in the running cell: one question, several questions, or the fields of a type.

    Several questions are one form with a page for each question. A type is one form with its fields
    (see `Question.form`):

        class Plan(pydantic.BaseModel):
            city: str
            days: int = pydantic.Field(3, ge=1, le=14)


        plan = jp.ask(Plan)

    Args:
        question: A `Question`, a list of questions with different ids, a pydantic model, a
            dataclass, or a TypedDict (before Python 3.12, the one of `typing_extensions`).
        title: Heading of the form of a type; None for its title or name.
        label: A header above the question or form.
        tool: Name of a tool whose configured answers are used:
            `conversation.tools.<tool>.questions.<id>.answer`. Without it, the answers of
            `conversation.tools.*` are used. For a type, `<id>` is the name of a field, or the name
            of the type for an object with all fields. An option can be given by its label. The user
            is asked only for answers that are not configured.

    Returns:
        The answer: `True` or `False`, a text, a number, an option, or a list of options. For a list
        of questions, a dictionary of the answers by question id. For a type, a validated instance.
        An optional question that is left open is None.

    Raises:
        UsageError: If `jp_nb` is not loaded, or if a form cannot show the type. The message names
            the field.
        ConfigError: If a configured answer is invalid. The message names its path.
        PromptUnavailable: If a required answer is missing and no user is available. A field with a
            default uses it then. An optional question takes its recommended or first option, or
            stays open. `reason` has the reason, and the message names the settings for the missing
            answers.
        PromptCancelled: If the user did not answer.
    """
    from jp_nb.session.questions.code_questions import read_questions

    cell_questions = _loaded().turns.cell_questions
    questions = read_questions(question, title=title)

    try:
        answers = cell_questions.ask(questions, label=label, tool=tool)
    except (JpNbError, KeyboardInterrupt) as exc:
        # The traceback only shows the caller's lines.
        raise exc.with_traceback(None) from exc.__cause__

    return answers if isinstance(question, list | tuple) else answers[questions[0].id]


def inbox(path: str | PathLike[str]) -> None:
    """Ask the user in the running cell about the open decisions of a batch.

    The forms show what no user decided in the runs of `jp-nb run -o OUT/`, each decision once for
    all runs that wait for it. Each answer is written to `OUT/answers.toml` at once:

        jp.inbox("OUT/")

    A folder that belongs to another user, or that others may write to, is shown without answers.

    Args:
        path: The output folder of the batch.

    Raises:
        UsageError: If `jp_nb` is not loaded, or if the folder is not that of a batch.
        PromptUnavailable: If no user is available. The decisions are printed before.
        StorageError: If the log cannot be read, or an answer cannot be written.
    """
    from jp_nb.batch.inboxes.inbox_in_cell import ask_about_batch

    try:
        ask_about_batch(path, _loaded().turns.cell_questions.ask_without_record)
    except (JpNbError, KeyboardInterrupt) as exc:
        # The traceback only shows the caller's lines.
        raise exc.with_traceback(None) from exc.__cause__


def call(
    tool: str | Callable[..., Any],
    /,
    arguments: Mapping[str, Any] | None = None,
    **named: Any,
) -> CallOutcome:
    """Run a tool as in a turn, but outside of the conversation. This is `%jp call` as a function.

    The arguments are validated, the user is asked for permission and for answers, and the cell
    shows the result that the model would read:

        assert jp.call("weather", city="Delft").content == "Sunny"

    When no user is available, the call ends as in a turn, and the outcome contains the reason.

    Args:
        tool: Name of the tool, or the function itself.
        arguments: Arguments as JSON values, or as values that JSON can express, such as a date, a
            path, or a pydantic model.
        named: Further arguments, by name.

    Returns:
        The outcome. Nothing is recorded. The user can approve a proposed configuration change, but
        it is not applied.

    Raises:
        UsageError: If `jp_nb` is not loaded, the caller is a tool, there is no such tool, or an
            argument is given twice or has no form in JSON.
        ConfigError: If the configuration is invalid.
        PromptUnavailable: In a strict run, if no user is available for a decision.
    """
    session = _loaded()
    by_name = dict(arguments or {})
    if repeated := by_name.keys() & named.keys():
        raise UsageError(f"given more than once: {', '.join(sorted(repeated))}")

    def run() -> CallOutcome:
        # The source of a named tool, such as a server, may have to start. A function needs none.
        names = [tool] if isinstance(tool, str) and tool else []
        tools = session.bench.find_tools(*names)
        return session.bench.call(tools, tools.find(tool), by_name | named)

    with session.report_errors():
        return session.active.line.run(run)  # after the turns that wait in line


def tools() -> tuple[PythonTool, ...]:
    """Return the Python tools that the model can call, in the order of their first definition."""
    from jp_nb.toolkit.function_tools.tool_registry import REGISTRY

    return tuple(REGISTRY.all().values())


def conversation() -> Conversation:
    """Return a read-only snapshot of this notebook's active conversation.

    Raises:
        UsageError: If `jp_nb` is not loaded.
    """
    from jp_nb.record.reading.turn_view import Conversation

    session = _loaded()
    turns = session.conversations.log()
    return Conversation.of(session.document.conversation, turns, session.config)

"""Subcommand `%jp qna`: list, show, search, or import answered questions.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, suggest_name
from jp_nb.record.reading.question_history import (
    DEFAULT_LIMIT,
    NO_HISTORY,
    LoggedAnswer,
    QuestionHistory,
    validate_limit,
)
from jp_nb.rendering.report import MAX_LINE_CHARS, add_note
from jp_nb.rendering.reports.question_table import render_question_sheets, render_question_table
from jp_nb.text import MAX_DIGITS, one_line

UNTRUSTED_QUESTIONS: Final = (
    "This notebook is not trusted, so its questions and answers are not listed. The history of "
    "the workspace is neither read nor written. `%jp trust` shows the settings and asks you."
)


def run_qna(call: Invocation) -> None:
    """Run `%jp qna`: list, show, search, or import answered questions."""
    verb, *words = call.options.words or ["list"]
    action = _QNA_COMMANDS.get(verb)
    if action is None:
        hint = suggest_name(verb, _QNA_COMMANDS, "qna")
        raise UsageError(
            f"There is no `%jp qna {one_line(verb, limit=60)}`. {hint}"
            f"Usage: `{call.subcommand.usage}`"
        )
    if verb not in ("list", "search") and call.options.limit is not None:
        raise UsageError("`--limit` works with `list` and `search` only.")

    action(call, words)


def _list_questions(call: Invocation, words: Sequence[str]) -> None:
    if words:
        raise UsageError(
            f"`list` takes no words, but got {' '.join(words)!r}. `%jp qna search TEXT` searches."
        )

    limit = _read_limit(call)
    if (history := _load_history(call)) is not None:
        _show_latest(
            call, history, history.answers, limit=limit, command="list", none_found=NO_HISTORY
        )


def _show_question(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1 or not _is_number(words[0]):
        raise UsageError(f"`get` takes the id of an answer, but got {' '.join(words)!r}.")

    if (history := _load_history(call)) is not None:
        found = history.get(int(words[0]))
        if not found:
            raise UsageError(history.format_unknown_id(int(words[0])))
        call.show(render_question_sheets(found))


def _search_questions(call: Invocation, words: Sequence[str]) -> None:
    limit = _read_limit(call)
    text = " ".join(words)
    if not text.strip():
        raise UsageError("`search` takes the text to search for.")

    if (history := _load_history(call)) is not None:
        found = history.containing(text)
        none_found = one_line(history.format_no_match(text))
        _show_latest(
            call, history, found, limit=limit, command="search TEXT", none_found=none_found
        )


def _import_questions(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1:
        raise UsageError("`import` takes one file, a table of `datetime;question;answer`.")

    session = call.session
    try:
        path = (session.files.folder / Path(words[0]).expanduser()).absolute()
        lines = session.active.questions.import_table(path)
    except (RuntimeError, ValueError) as exc:  # unknown home folder, or a null byte
        raise UsageError(f"{words[0][:80]!r} is not a valid file name: {exc}") from exc

    _print_lines(lines)


_QNA_COMMANDS: Final[Mapping[str, Callable[[Invocation, Sequence[str]], None]]] = {
    "list": _list_questions,
    "get": _show_question,
    "search": _search_questions,
    "import": _import_questions,
}


def _load_history(call: Invocation) -> QuestionHistory | None:
    """Return the history; None, with a message to the user, if the notebook is not trusted."""
    questions = call.session.active.questions

    # Import the file of earlier versions of jp_nb first, if there is one. The lines report it.
    _print_lines(questions.migrate_table())

    # The user also sees the answers of other people, which models do not get.
    history = questions.reader.read_history(includes_foreign=True)
    if not history.trusted:
        print(f"jp_nb: {UNTRUSTED_QUESTIONS}")
        return None

    return history


def _show_latest(
    call: Invocation,
    history: QuestionHistory,
    found: Sequence[LoggedAnswer],
    *,
    limit: int,
    command: str,
    none_found: str,
) -> None:
    """Show the latest of the answers that `command` has found, or the text `none_found`."""
    if not found:
        print(f"jp_nb: {none_found}")
        return

    latest = found[-limit:]
    notes = list[str]()
    if earlier := len(found) - len(latest):
        notes.append(f"{earlier} earlier: `%jp qna {command} --limit N` shows more")

    if history.left_out:
        notes.append(
            f"{history.left_out} not signed by you: models do not get them before "
            "`%jp trust --workspace`"
        )

    table = render_question_table(latest)
    if notes:
        table = add_note(table, "; ".join(notes))
    call.show(table)


def _read_limit(call: Invocation) -> int:
    """Return the number of `--limit`, or the default."""
    limit = call.options.limit
    if limit is None:
        return DEFAULT_LIMIT
    if _is_number(limit):
        limit = int(limit)
    return validate_limit(limit)  # it refuses a text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"jp_nb: {one_line(line, limit=MAX_LINE_CHARS)}")

"""`%jp qna`: the questions that were answered so far. Shown, and never sent to a model.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import MAX_DIGITS, Invocation, suggestion
from jp_nb.record.question_history import DEFAULT_LIMIT, NO_HISTORY, QuestionHistory, checked_limit
from jp_nb.rendering.question_table import question_sheets, question_table, with_note
from jp_nb.rendering.report import Report
from jp_nb.safe_text import one_line

UNTRUSTED: Final = (
    "This notebook is not trusted, so its questions and answers are not listed. The history of "
    "the workspace is neither read nor written. `%jp trust` shows the settings and asks you."
)
MAX_LINE: Final = 2000
"""Characters of a line about a file: names may be long."""


def qna(call: Invocation) -> None:
    """Do what the first word says; without one, list."""
    verb, *words = call.options.words or ["list"]
    action = _VERBS.get(verb)
    if action is None:
        hint = suggestion(verb, _VERBS, "qna")
        raise UsageError(
            f"There is no `%jp qna {one_line(verb, limit=60)}`. {hint}"
            f"Usage: `{call.subcommand.usage}`"
        )
    if verb not in ("list", "search") and call.options.limit is not None:
        raise UsageError("`--limit` works with `list` and `search` only.")
    action(call, words)


def _list(call: Invocation, words: Sequence[str]) -> None:
    if words:
        raise UsageError(
            f"`list` takes no words, but got {' '.join(words)!r}. `%jp qna search TEXT` searches."
        )
    limit = _limit(call)
    if (history := _history(call)) is None:
        return
    shown = history.latest(limit)
    if not shown:
        print(f"jp_nb: {NO_HISTORY}")
        return
    earlier = len(history.answers) - len(shown)
    note = f"{earlier} earlier: `%jp qna list --limit N` shows more" if earlier else ""
    call.show(_noted(question_table(shown), history, note))


def _get(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1 or not _is_number(words[0]):
        raise UsageError(f"`get` takes the id of an answer, but got {' '.join(words)!r}.")
    if (history := _history(call)) is None:
        return
    found = history.get(int(words[0]))
    if not found:
        raise UsageError(history.nothing_at(int(words[0])))
    call.show(question_sheets(found))


def _search(call: Invocation, words: Sequence[str]) -> None:
    limit, text = _limit(call), " ".join(words)
    if not text.strip():
        raise UsageError("`search` takes the text to search for.")
    if (history := _history(call)) is None:
        return
    found = history.containing(text)
    if not found:
        print(f"jp_nb: {one_line(history.nothing_like(text))}")
        return
    shown = found[-limit:]
    earlier = len(found) - len(shown)
    note = f"{earlier} earlier: `%jp qna search TEXT --limit N` shows more" if earlier else ""
    call.show(_noted(question_table(shown), history, note))


def _import(call: Invocation, words: Sequence[str]) -> None:
    if len(words) != 1:
        raise UsageError("`import` takes one file, a table of `datetime;question;answer`.")
    session = call.session
    try:
        path = (session.files.folder / Path(words[0]).expanduser()).absolute()
        told = session.active.questions.import_table(path)
    except (RuntimeError, ValueError) as exc:  # no such home, a name that no file can have
        raise UsageError(f"{words[0][:80]!r} is not a valid file name: {exc}") from exc
    _tell(told)


_VERBS: Final[Mapping[str, Callable[[Invocation, Sequence[str]], None]]] = {
    "list": _list,
    "get": _get,
    "search": _search,
    "import": _import,
}


def _history(call: Invocation) -> QuestionHistory | None:
    """Return what was answered; None, and why, if the notebook is not trusted."""
    questions = call.session.active.questions
    _tell(questions.migrated())
    history = questions.history(everybody=True)
    if not history.trusted:
        print(f"jp_nb: {UNTRUSTED}")
        return None
    return history


def _noted(shown: Report, history: QuestionHistory, note: str) -> Report:
    """Return `shown` with `note` below it, and what models are not given."""
    notes = [note] if note else []
    if history.left_out:
        notes.append(
            f"{history.left_out} not signed by you: models do not get them before "
            "`%jp trust --workspace`"
        )
    return with_note(shown, "; ".join(notes)) if notes else shown


def _limit(call: Invocation) -> int:
    given = call.options.limit
    return checked_limit(
        DEFAULT_LIMIT if given is None else int(given) if _is_number(given) else given
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"jp_nb: {one_line(line, limit=MAX_LINE)}")

"""Subcommands of `%jp` that change, save, or trust conversations.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from jp_nb.config.tree.compaction_settings import CompactionRule, TurnBound, parse_bound
from jp_nb.config.validation import make_unexpected_value_error
from jp_nb.errors import PromptCancelled, StorageError, UsageError
from jp_nb.interop.directories import find_folder, load_directory, save_directory
from jp_nb.interop.files import Dialect
from jp_nb.notebook.commands import Invocation, report_cancellation
from jp_nb.record.clock import utc_now
from jp_nb.record.compaction_text import format_compactions
from jp_nb.record.config_history import NOT_FOLLOWED
from jp_nb.record.conversation_list import ConversationInfo, list_conversations, make_title
from jp_nb.record.document import Document
from jp_nb.record.events import ChatRequest, read_words
from jp_nb.record.turn_numbers import to_shown_turn, to_stored_turn
from jp_nb.rendering.log import render_conversations
from jp_nb.rendering.report import make_table
from jp_nb.rendering.tables import (
    PENDING_HEAD,
    format_consent_value,
    list_pending_rows,
    render_compaction_preview,
    render_compactions,
)
from jp_nb.session.manual_compaction import CompactionOptions, ManualCompaction
from jp_nb.session.resume import TurnResumption
from jp_nb.storage import trust as trust_module
from jp_nb.text import MAX_PATH_LINE_CHARS, escape_invisible, one_line, plain, spell_invisible
from jp_nb.toolkit.question import Question


def resume_turn(call: Invocation) -> None:
    """Run `%jp resume`: continue the last turn, or recover a conversation from a journal."""
    with report_cancellation():
        if TurnResumption(call.session).run(call.word or "") is None:
            print(f"jp_nb: {plain(call.session.format_status())}")


def start_conversation(call: Invocation) -> None:
    """Run `%jp new`: start a conversation."""
    left = _active(call)
    call.session.conversations.new(keep_config=call.options.keep_config)
    _print_change(call, f"Left {_describe(left)}", left)


def fork_at_turn(call: Invocation) -> None:
    """Run `%jp fork`: continue in a copy that ends with a turn."""
    left = _active(call)
    number = call.number(at_least=1)
    if number is None:
        last = left.turns
        call.session.conversations.fork(None)
    else:
        last = number
        call.session.conversations.fork(to_stored_turn(number))

    done = f"Forked after turn {last}" if left.turns else "Forked"
    _print_change(call, done, left)


def undo_turn(call: Invocation) -> None:
    """Run `%jp undo`: continue without the last turn."""
    left = _active(call)
    last = call.session.document.conversation.last_turn()
    entries = last.entries if last else ()
    asked = next((read_words(each) for each in entries if isinstance(each, ChatRequest)), "")
    call.session.conversations.undo()
    done = f"Undid turn {left.turns}"
    if title := _quoted(make_title(asked)):
        done += f", {title}"

    _print_change(call, done, left)


def switch_to_conversation(call: Invocation) -> None:
    """Run `%jp switch`: activate another conversation, or list all."""
    if call.word is None:
        call.show(render_conversations(call.session.document, with_active=True))
        return

    left = _active(call)
    if call.session.conversations.switch(call.word):
        _print_change(call, f"Switched from {_describe(left)}", left)
    else:
        print(f"jp_nb: Already active: {_describe(left)}")


def drop_stored_conversation(call: Invocation) -> None:
    """Run `%jp drop`: delete a conversation."""
    dropped = call.session.conversations.drop(call.options.words[0])
    print(f"jp_nb: Dropped {_describe(dropped)} from this notebook. This cannot be undone")
    _print_active(call)


def _print_change(call: Invocation, done: str, left: ConversationInfo) -> None:
    """Print the change, the command that returns to the conversation `left`, and the active one."""
    hint = f". Go back: `%jp switch {left.id}`"
    if left.id not in call.session.document.ids():
        hint = ""  # empty conversations are not kept
    elif call.session.active.headless:  # the output is the same in each run
        hint = ". Go back: `%jp switch` lists the conversations"

    print(f"jp_nb: {done}{hint}")
    _print_active(call)


def _print_active(call: Invocation) -> None:
    words = plain(call.session.format_status())
    if title := _quoted(_active(call).title):
        words = f"{title} · {words}"

    print(f"jp_nb: Active: {words}")


def _active(call: Invocation) -> ConversationInfo:
    return list_conversations(call.session.document)[0]


def _describe(listed: ConversationInfo) -> str:
    if listed.damaged:
        return f"the damaged conversation {one_line(listed.id, limit=80)}"
    if not listed.turns:
        return "an empty conversation"
    title = _quoted(listed.title) or "a conversation"
    return f"{title} ({_count_turns(listed.turns)})"


def _count_turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def _quoted(title: str | None) -> str:
    return f"“{one_line(title, limit=80)}”" if title else ""


def save_record(call: Invocation) -> None:
    """Run `%jp save`: save the record now."""
    store = call.session.store
    where = call.session.active.location
    if store.unsaved_reason is not None:
        raise StorageError(
            f"The record cannot be saved here. It is {where}. `%jp export DIR` writes the "
            "conversation to a directory. `jp-nb import DIR NOTEBOOK` adds it to a notebook."
        )

    print(f"jp_nb: {plain(store.save())}")


def export_to_directory(call: Invocation) -> None:
    """Run `%jp export`: write the active conversation to a JP directory."""
    session = call.session
    dialect: Dialect = call.options.dialect or "native"
    folder = find_folder(call.options.words[0], session.files.folder)
    saved = save_directory(session.document.to_json(), folder, dialect)

    for line in saved.dropped:
        print(f"jp_nb: Omitted: {one_line(line, limit=1000)}")

    for name in saved.others:
        print(f"jp_nb: Also written, unchanged from the import: {one_line(name)}")

    print(f"jp_nb: Written to {plain(str(folder))}")


def import_from_directory(call: Invocation) -> None:
    """Run `%jp import`: continue with a conversation from a JP directory."""
    left = _active(call)
    folder = find_folder(call.options.words[0], call.session.files.folder)
    loaded = Document.load(load_directory(folder, clock=utc_now), clock=utc_now)
    call.session.conversations.adopt_imported(loaded)
    _print_change(call, f"Imported {_describe(_active(call))}", left)


NOTHING_TO_COMPACT = (
    "Nothing to compact: the selected turns contain nothing that would be omitted. "
    "By default, the first and the last turn are kept: `--keep-first 0 --keep-last 0` selects "
    "them as well. `--summarize` has a model summarize the selected turns."
)


def compact_context(call: Invocation) -> None:
    """Run `%jp compact`: compact the context, preview that, or undo it."""
    compaction = ManualCompaction(call.session.active, call.session.turns)
    if call.options.undo:
        _undo_compaction(call, compaction)
        return

    options = read_compaction_options(call.options)
    plan = compaction.plan(options)
    if not plan.steps:
        first = options.first
        count = compaction.stream.turn_count
        message = NOTHING_TO_COMPACT
        if first is not None and first.kind == "turn" and first.amount >= count:
            wanted = to_shown_turn(int(first.amount))
            message = f"There is no turn {wanted}. This conversation has {_count_turns(count)}."

        print(f"jp_nb: {message}")
    elif call.options.dry_run:
        call.show(render_compaction_preview(plan))
    else:
        entries = compaction.carry_out(plan, options)
        tokens = compaction.tokens()
        call.show(render_compactions(plan, compaction.stream, entries, now=tokens))


def _undo_compaction(call: Invocation, compaction: ManualCompaction) -> None:
    others = {name for name, value in vars(call.options).items() if value}
    if others - {"undo", "dry_run", "words"}:
        raise UsageError(
            "`--undo` reverts the last compaction. It can be combined with `--dry-run` only."
        )

    found = compaction.find_last() if call.options.dry_run else compaction.undo()
    words = format_compactions(found)
    if not found:
        print("jp_nb: There is no compaction to undo. All turns are sent in full.")
    elif call.options.dry_run:
        print(f"jp_nb: This would undo the last compaction ({words}).")
    else:
        tokens = f"{compaction.tokens():,} tokens"
        print(f"jp_nb: Undid the last compaction ({words}). Messages now take about {tokens}.")


def read_compaction_options(options: Namespace) -> CompactionOptions:
    """Convert the parsed options of `%jp compact`, or raise `UsageError`."""
    for one, other in (("first", "keep_first"), ("last", "keep_last")):
        if getattr(options, one) is not None and getattr(options, other) is not None:
            flag = {"first": "--from", "last": "--to"}[one]
            raise UsageError(f"Use `{flag}` or `--{other.replace('_', '-')}`, not both.")

    rules = _read_rules(options)
    _read_bound("--keep-first", options.keep_first)
    _read_bound("--keep-last", options.keep_last, may_be_last=False)

    return CompactionOptions(
        rules=rules,
        keep_first=options.keep_first,
        keep_last=options.keep_last,
        first=_read_turn("--from", options.first),
        last=_read_turn("--to", options.last),
        directives=tuple(options.directives),
    )


def _read_rules(options: Namespace) -> tuple[CompactionRule, ...] | None:
    """Return the rule of the options; None applies the configured rules."""
    if options.model is not None and not options.summarize:
        raise UsageError("`-m` names the model that writes a summary. Add `--summarize`.")
    if not (options.reasoning or options.tools or options.summarize):
        return None

    rule: dict[str, object] = {"reasoning": "strip"} if options.reasoning else {}
    if options.tools:
        rule["tool_calls"] = options.tools[-1]

    if options.summarize:
        rule["summary"] = {"model": {"id": options.model}} if options.model else {}

    try:
        return (CompactionRule.model_validate(rule),)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        if error["type"] == "literal_error":
            raise UsageError(str(make_unexpected_value_error(error))) from exc
        raise UsageError(error["msg"].removeprefix("Value error, ")) from exc


def _read_turn(flag: str, text: str | None) -> TurnBound | None:
    bound = _read_bound(flag, text)
    # A plain number is the number of a turn in `%jp log`.
    if bound is None or bound.kind != "count":
        return bound
    if not bound.amount:
        raise UsageError(f"`{flag}`: there is no turn 0. Turns are counted from 1, as in `%jp log`")

    return TurnBound("turn", to_stored_turn(int(bound.amount)))


def _read_bound(flag: str, text: str | None, *, may_be_last: bool = True) -> TurnBound | None:
    try:
        return None if text is None else parse_bound(text, may_be_last=may_be_last)
    except ValueError as exc:
        raise UsageError(f"`{flag}`: {exc}") from exc


def trust_record(call: Invocation) -> None:
    """Run `%jp trust`: show untrusted settings and ask the user, or withdraw the trust."""
    call.session.active.refuse_while_running()
    options = call.options
    session = call.session
    if options.workspace:
        _trust_workspace(call)
        return

    if options.revoke:
        was_trusted = session.active.revoke()
        state = "is no longer" if was_trusted else "was not"
        print(f"jp_nb: This conversation {state} trusted")
        return

    if session.active.trust.trusted:
        print("jp_nb: This conversation is already trusted")
        return

    ignored = session.settings.if_trusted()
    if unseen := next((path for path in ignored if path.startswith(NOT_FOLLOWED)), None):
        raise UsageError(
            "This conversation cannot be trusted: not all of its settings can be shown to you "
            f"({unseen[1:-1]}). `%jp new` starts a new conversation."
        )

    rows = _setting_rows(ignored)
    if rows and not options.yes and not _ask_for_trust(call, ("path", "value"), rows):
        raise PromptCancelled("This conversation remains untrusted", end="declined")

    session.active.accept()
    print("jp_nb: This conversation and its settings are trusted, and signed with your key")

    for line in session.active.questions.migrate_table():
        print(f"jp_nb: {one_line(line, limit=MAX_PATH_LINE_CHARS)}")


def _setting_rows(ignored: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Return the settings that a record would set if it were trusted: path and value."""
    rows = []
    for path, value in sorted(ignored.items()):
        if path.startswith("("):
            shown = escape_invisible(path)
        else:
            shown = format_consent_value(path, value)
        rows.append((spell_invisible(path), shown))

    return rows


def _moved_rows(call: Invocation) -> list[tuple[str, str, str]]:
    """Return the rows about conversations that the user signed in another workspace."""
    settings = _setting_rows(call.session.settings.if_trusted())
    folder = spell_invisible(str(call.session.active.signed_here.folder))
    everything = ("(all conversations)", "those that you signed, from any folder", folder)
    return [*((path, value, "(this notebook)") for path, value in settings), everything]


def _trust_workspace(call: Invocation) -> None:
    files = call.session.files
    if call.options.revoke:
        for line in trust_module.revoke_consent(files.folder):
            print(f"jp_nb: {one_line(line, limit=MAX_PATH_LINE_CHARS)}")
        return

    pending = call.session.pending()
    is_moved = call.session.active.trust.is_moved
    if not pending and not is_moved:
        print(f"jp_nb: {one_line(files.no_pending_reason(), limit=MAX_PATH_LINE_CHARS)}")
        return

    rows = list_pending_rows(pending)
    if is_moved:
        rows += _moved_rows(call)

    with files.discard_notices():  # no notices about ignored files: the user is about to decide
        agrees = call.options.yes or _ask_for_trust(call, PENDING_HEAD, rows)

    if not agrees:
        raise PromptCancelled("The files of this folder remain untrusted", end="declined")

    if is_moved:
        call.session.active.accept_moved()
        print("jp_nb: All conversations of this workspace that you signed are trusted here")

    if pending:
        call.session.active.consent(pending)
        print("jp_nb: These files and their settings are trusted until their content changes")


def _ask_for_trust(call: Invocation, head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    call.show(make_table(head, rows, limit=sys.maxsize))  # the user must see everything
    text = "Trust the settings above? They can run code and send data to other hosts."
    questions = [Question.boolean("trust", text)]
    answers = call.session.turns.cell_questions.ask(questions, label="Trust", tool=None)
    return answers["trust"] is True

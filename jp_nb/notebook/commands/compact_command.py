"""Run `%jp compact`: compact the context of the conversation.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from argparse import Namespace

from pydantic import ValidationError

from jp_nb.config.tree.compaction_settings import CompactionRule
from jp_nb.config.tree.turn_bounds import TurnBound, parse_bound
from jp_nb.config.validation_problems import make_unexpected_value_error
from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.conversation_commands import format_turn_count
from jp_nb.record.compactions.compaction_text import format_compactions
from jp_nb.record.entries.turn_numbers import to_shown_turn, to_stored_turn
from jp_nb.rendering.reports.compaction_report import render_compaction_preview, render_compactions
from jp_nb.session.past_turns.manual_compaction import CompactionOptions, ManualCompaction

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
    plan = compaction.make_plan(options)
    if not plan.steps:
        print(f"jp_nb: {_explain_empty_plan(options, compaction.stream.turn_count)}")
    elif call.options.dry_run:
        call.show(render_compaction_preview(plan))
    else:
        entries = compaction.carry_out(plan, options)  # the recorded compactions
        tokens = compaction.estimate_tokens()
        call.show(render_compactions(plan, compaction.stream, entries, now=tokens))


def _explain_empty_plan(options: CompactionOptions, turn_count: int) -> str:
    """Return why nothing is compacted: often, `--from` names a turn that does not exist.

    The record counts turns from 0, so the number `turn_count` is that after the last turn.
    """
    first = options.first
    begins_after_last_turn = (
        first is not None and first.kind == "turn" and first.amount >= turn_count
    )
    if first is None or not begins_after_last_turn:
        return NOTHING_TO_COMPACT

    number = to_shown_turn(int(first.amount))
    return f"There is no turn {number}. This conversation has {format_turn_count(turn_count)}."


def _undo_compaction(call: Invocation, compaction: ManualCompaction) -> None:
    """Undo the last compaction. With `--dry-run`, only show which one that is."""
    used_options = {name for name, value in vars(call.options).items() if value}
    if used_options - {"undo", "dry_run"}:
        raise UsageError(
            "`--undo` reverts the last compaction. It can be combined with `--dry-run` only."
        )

    undone = compaction.find_last() if call.options.dry_run else compaction.undo()
    described = format_compactions(undone)
    if not undone:
        print("jp_nb: There is no compaction to undo. All turns are sent in full.")
    elif call.options.dry_run:
        print(f"jp_nb: This would undo the last compaction ({described}).")
    else:
        tokens = f"{compaction.estimate_tokens():,} tokens"
        print(f"jp_nb: Undid the last compaction ({described}). Messages now take about {tokens}.")


def read_compaction_options(options: Namespace) -> CompactionOptions:
    """Convert the parsed options of `%jp compact`, or raise `UsageError`."""
    if options.first is not None and options.keep_first is not None:
        raise UsageError("Use `--from` or `--keep-first`, not both.")
    if options.last is not None and options.keep_last is not None:
        raise UsageError("Use `--to` or `--keep-last`, not both.")

    rules = _read_rules(options)
    # These two stay text, as in the configuration.
    _check_bound("--keep-first", options.keep_first)
    _check_bound("--keep-last", options.keep_last, allows_last_compaction=False)

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
        rule["tool_calls"] = options.tools[-1]  # of a repeated option, the last one counts

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
    """Return the turn in the text of an option; None without the option.

    `parse_bound` reads a plain number as a count of turns, as the configuration needs it. Here it
    is the number of a turn in `%jp log`, from 1.
    """
    if text is None:
        return None

    bound = _parse_bound(flag, text, allows_last_compaction=True)
    if bound.kind != "count":
        return bound
    if not bound.amount:
        raise UsageError(f"`{flag}`: there is no turn 0. Turns are counted from 1, as in `%jp log`")

    return TurnBound("turn", to_stored_turn(int(bound.amount)))


def _check_bound(flag: str, text: str | None, *, allows_last_compaction: bool = True) -> None:
    """Raise `UsageError` if the text of an option is no number of turns or other bound."""
    if text is not None:
        _parse_bound(flag, text, allows_last_compaction=allows_last_compaction)


def _parse_bound(flag: str, text: str, *, allows_last_compaction: bool) -> TurnBound:
    """Parse the text of the option `flag`.

    With `allows_last_compaction`, it may also be `last`: the end of the last compaction.
    """
    try:
        return parse_bound(text, allows_last_compaction=allows_last_compaction)
    except ValueError as exc:
        raise UsageError(f"`{flag}`: {exc}") from exc

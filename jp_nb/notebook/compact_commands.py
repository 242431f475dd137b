"""`%jp compact`: what a model is sent of a long conversation is made shorter, or whole again.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from argparse import Namespace

from pydantic import ValidationError

from jp_nb.agent.shortening import CompactionPlan
from jp_nb.config.tree.compaction_config import CompactionRule, TurnBound, read_bound
from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.record.compaction_words import in_words
from jp_nb.rendering.compaction_report import compaction_report, preview_report
from jp_nb.session.compacting import Compacting, CompactionOrder

NOTHING = (
    "Nothing to compact: the selected turns contain nothing that would be omitted. "
    "`--summarize` has a model summarize them; `--keep-last 0` includes the last turn."
)


def compact(call: Invocation) -> None:
    """Send earlier turns shorter from here on, show what would be, or take it back."""
    compacting = Compacting(call.session.active, call.session.turns)
    if call.options.undo:
        _undo(call, compacting)
        return
    order = order_of(call.options)
    plan = compacting.plan(order)
    if not plan.cuts:
        print(f"jp_nb: {_no_turn(order, compacting.stream.turn_count) or NOTHING}")
    elif call.options.dry_run:
        call.show(preview_report(plan))
    else:
        _carry_out(call, compacting, plan, order)


def _no_turn(order: CompactionOrder, count: int) -> str:
    """Return that there is no such turn, if `order` begins behind the last one; else ""."""
    first = order.first
    if first is None or first.kind != "turn" or first.amount < count:
        return ""
    turns = f"{count} turn{'' if count == 1 else 's'}"
    return f"There is no turn {first.amount:.0f}. This conversation has {turns}, numbered from 0."


def _carry_out(
    call: Invocation, compacting: Compacting, plan: CompactionPlan, order: CompactionOrder
) -> None:
    entries = compacting.carry_out(plan, order)
    call.show(compaction_report(plan, compacting.stream, entries, now=compacting.tokens()))


def _undo(call: Invocation, compacting: Compacting) -> None:
    others = {name for name, value in vars(call.options).items() if value}
    if others - {"undo", "dry_run", "words"}:
        raise UsageError(
            "`--undo` reverts the last compaction. It can be combined with `--dry-run` only."
        )
    dry = call.options.dry_run
    found = compacting.last_made() if dry else compacting.undo()
    if not found:
        print("jp_nb: There is no compaction to undo. All turns are sent in full.")
        return
    words = in_words(found)
    if dry:
        print(f"jp_nb: This would undo the last compaction ({words}).")
    else:
        tokens = f"{compacting.tokens():,} tokens"
        print(f"jp_nb: Undid the last compaction ({words}). Messages now take about {tokens}.")


# --- the line --------------------------------------------------------------------------------


def order_of(options: Namespace) -> CompactionOrder:
    """Return what the line of a `%jp compact` wants.

    Raises:
        UsageError: If one option is wrong, or two exclude each other.
    """
    for one, other in (("first", "keep_first"), ("last", "keep_last")):
        if getattr(options, one) is not None and getattr(options, other) is not None:
            flag = {"first": "--from", "last": "--to"}[one]
            raise UsageError(f"Use `{flag}` or `--{other.replace('_', '-')}`, not both.")
    return CompactionOrder(
        rules=_rules(options),
        keep_first=_kept("--keep-first", options.keep_first, may_be_last=True),
        keep_last=_kept("--keep-last", options.keep_last, may_be_last=False),
        first=_turn("--from", options.first),
        last=_turn("--to", options.last),
        directives=tuple(options.directives),
    )


def _rules(options: Namespace) -> tuple[CompactionRule, ...] | None:
    """Return the one rule that the line makes up; None if the configured ones count."""
    if options.model is not None and not options.summarize:
        raise UsageError("`-m` names the model that writes a summary. Add `--summarize`.")
    if not (options.reasoning or options.tools or options.summarize):
        return None
    given: dict[str, object] = {"reasoning": "strip"} if options.reasoning else {}
    if options.tools:
        given["tool_calls"] = options.tools[-1]
    if options.summarize:
        given["summary"] = {"model": {"id": options.model}} if options.model else {}
    try:
        return (CompactionRule.model_validate(given),)
    except ValidationError as exc:
        message = exc.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise UsageError(message) from exc


def _kept(flag: str, text: str | None, *, may_be_last: bool) -> str | None:
    if text is not None:
        _bound(flag, text, may_be_last=may_be_last)
    return text


def _turn(flag: str, text: str | None) -> TurnBound | None:
    """Return the bound that `text` is: a number is that of a turn, as `%jp log` shows it."""
    if text is None:
        return None
    bound = _bound(flag, text, may_be_last=True)
    return TurnBound("turn", bound.amount) if bound.kind == "count" else bound


def _bound(flag: str, text: str, *, may_be_last: bool) -> TurnBound:
    try:
        return read_bound(text, may_be_last=may_be_last)
    except ValueError as exc:
        raise UsageError(f"`{flag}`: {exc}") from exc

"""The report of a run as JSON.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from jp_nb.config.masking import masked
from jp_nb.headless.open_decisions import Undecided
from jp_nb.headless.run_report import (
    ReportedCell,
    ReportedQuestion,
    ReportedTurn,
    RunReport,
)
from jp_nb.headless.shown_text import shown_text
from jp_nb.json_values import JsonObject, storable
from jp_nb.record.turn_view import ConfigChange, ToolCall
from jp_nb.record.usage import TurnUsage

VERSION: Final = 1


def json_report(report: RunReport) -> str:
    """Return `report` as JSON text in ASCII, which ends with a line break."""
    return json.dumps(storable(to_json(report)), indent=2) + "\n"


def to_json(report: RunReport) -> JsonObject:
    """Return `report` as a JSON object; `docs/ci.md` has its shape."""
    failure = report.failure
    return {
        "version": VERSION,
        "notebook": report.notebook,
        "ok": failure is None,
        "failure": None
        if failure is None
        else {"cell": failure.cell, "name": failure.name, "message": shown_text(failure.message)},
        "record_error": report.record_error or None,
        "seconds": round(report.seconds, 3),
        "cells": [_cell(cell) for cell in report.cells],
        "turns": [_turn(turn) for turn in report.turns],
        "tokens": _tokens(report.usage),
        "unanswered": len(report.unanswered),
        "undecided": [_undecided(each) for each in report.undecided],
    }


def _cell(cell: ReportedCell) -> JsonObject:
    return {
        "cell": cell.number,
        "source": cell.source,
        "status": cell.status,
        "seconds": round(cell.seconds, 3),
        "error": cell.error or None,
    }


def _turn(reported: ReportedTurn) -> JsonObject:
    turn = reported.turn
    return {
        "conversation": reported.conversation,
        "turn": turn.number,
        "cell": reported.cell,
        "request": turn.request,
        "text": turn.text,
        "data": turn.data,
        "status": turn.status,
        "tool_calls": [_call(call) for call in turn.tool_calls],
        "questions": [_question(question) for question in reported.questions],
        "config_changes": [_change(change) for change in turn.config_changes],
        "tokens": _tokens(reported.usage),
    }


def _call(call: ToolCall) -> JsonObject:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": dict(call.arguments),
        "is_error": call.is_error,
        "content": call.content,
    }


def _question(question: ReportedQuestion) -> JsonObject:
    inquiry = question.inquiry
    return {
        "id": inquiry.id,
        "tool": question.tool,
        "question": inquiry.question,
        "type": inquiry.answer_type.get("type"),
        "end": question.end,
        "answer": inquiry.answer,
        "channel": inquiry.channel,
    }


def _undecided(one: Undecided) -> JsonObject:
    return {"kind": one.kind, "what": one.words, "why": one.why, "times": one.times}


def _change(change: ConfigChange) -> JsonObject:
    """Return what was changed; what may be a secret is not shown."""
    return {
        "set": masked(dict(change.delta)),
        "unset": list(change.unsets),
        "begins_again": change.begins_again,
        "proposed_by": [each.tool for each in change.proposed_by],
    }


def _tokens(usage: Mapping[str, TurnUsage]) -> JsonObject:
    """Return the tokens by model; those that no provider reported are left out."""
    counted = {model: asdict(tokens) for model, tokens in usage.items()}
    return {
        model: {name: count for name, count in counts.items() if count is not None}
        for model, counts in counted.items()
    }

"""Write a report of a headless run as JSON.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.headless.run_reports.run_report import ReportedQuestion, ReportedTurn, RunReport
from jp_nb.headless.terminal_text import format_text
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.token_usage import Usage
from jp_nb.record.reading.turn_view import ConfigChange
from jp_nb.storable_json import make_storable


def format_json_report(report: RunReport) -> str:
    """Return `report` as JSON text in ASCII."""
    return json.dumps(make_storable(to_json(report)), indent=2) + "\n"


def to_json(report: RunReport) -> JsonObject:
    """Return `report` as a JSON object with the shape in `docs/ci.md`."""
    failure = report.failure
    failure_json: JsonObject | None = None
    if failure is not None:
        message = format_text(failure.message)
        failure_json = {"cell": failure.cell, "name": failure.name, "message": message}

    return {
        "version": 1,
        "notebook": report.notebook,
        "ok": failure is None,
        "failure": failure_json,
        "record_error": report.record_error or None,
        "seconds": round(report.seconds, 3),
        "cells": [
            {
                "cell": cell.number,
                "source": cell.source,
                "status": cell.status,
                "seconds": round(cell.seconds, 3),
                "error": cell.error or None,
            }
            for cell in report.cells
        ],
        "turns": [_turn_to_json(turn) for turn in report.turns],
        "tokens": _format_usage_json(report.usage),
        "unanswered": len(report.unanswered),
        "undecided": [
            {
                "kind": decision.kind,
                "what": decision.description,
                "why": decision.why,
                "times": decision.times,
            }
            for decision in report.undecided
        ],
    }


def _turn_to_json(reported: ReportedTurn) -> JsonObject:
    turn = reported.turn
    return {
        "conversation": reported.conversation,
        "turn": turn.number,
        "cell": reported.cell,
        "request": turn.request,
        "text": turn.text,
        "data": turn.json,
        "status": turn.status,
        "tool_calls": [
            {
                "id": call.id,
                "name": call.name,
                "arguments": dict(call.arguments),
                "is_error": call.is_error,
                "content": call.content,
            }
            for call in turn.tool_calls
        ],
        "questions": [_format_question_json(question) for question in reported.questions],
        "config_changes": [_change_to_json(change) for change in turn.config_changes],
        "tokens": _format_usage_json(reported.usage),
    }


def _change_to_json(change: ConfigChange) -> JsonObject:
    """Return a configuration change as JSON, without secrets."""
    return {
        "set": mask_secrets(dict(change.delta)),
        "unset": list(change.unsets),
        "begins_again": change.begins_again,
        "proposed_by": [each.tool for each in change.proposed_by],
    }


def _format_question_json(question: ReportedQuestion) -> JsonObject:
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


def _format_usage_json(usage: Mapping[str, Usage]) -> JsonObject:
    return {model: tokens.to_json() for model, tokens in usage.items()}

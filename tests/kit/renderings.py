"""Text for the user: tables, prompts, calls, logs, requests, and differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jp_nb.record.reading.turn_timeline import find_shown_turn, read_timeline
from jp_nb.rendering import report, text_diff, turn_counts
from jp_nb.rendering.code_blocks import find_code_blocks
from jp_nb.rendering.prompt_texts import (
    card_text,
    editable_text,
    open_prompt_text,
    outcome_text,
    prompt_summary,
    question_card,
)
from jp_nb.rendering.reports import (
    call_outcome_text,
    model_table,
    request_difference,
    request_text,
    timeline_report,
    unused_reasoning,
    usage_tables,
)
from jp_nb.rendering.transcripts import (
    call_source,
    call_text,
    log,
    record_diff,
    recorded_change_text,
)
from jp_nb.toolkit.editing import confusing_characters, source_diff


def _show_card(answer_type: Any, answer: Any = None, *, answered: bool = True) -> dict[str, Any]:
    card = question_card.make_question_card(answer_type, answer, answered=answered)
    return {
        "words": card.words,
        "lines": card_text.format_card_lines(card),
        "markdown": card_text.render_card(card),
    }


def _list_code(markdown: str) -> list[tuple[str, str]]:
    return [(block.language, block.text) for block in find_code_blocks(markdown)]


def _show_timeline(document: Any, number: int | None = None, *, ordered: bool = False) -> Any:
    timeline = read_timeline(find_shown_turn(document.conversation, number))
    return timeline_report.render_timeline(timeline.without_times() if ordered else timeline)


def _compare_values(old: Any, new: Any, *, limit: int) -> list[str]:
    return text_diff.compare_values("x", old, new, limit=limit)[1]


RENDERINGS: Mapping[str, Callable[..., Any]] = {
    "note": report.make_note,
    "table": report.make_table,
    "model_table": model_table.render_model_table,
    "usage": usage_tables.render_usage,
    "timeline": _show_timeline,
    "input_changes": unused_reasoning.render_unused_reasoning,
    "token_counts": turn_counts.format_tokens,
    "prompt": prompt_summary.summarize_prompt,
    "text_box": editable_text.make_editable_text,
    "prompt_without_form": open_prompt_text.format_without_form,
    "question_card": _show_card,
    "question_outcome": outcome_text.format_outcome,
    "change": text_diff.diff_change,
    "value_difference": _compare_values,
    "code_blocks": _list_code,
    "call": call_text.render_call,
    "call_outcome": call_outcome_text.render_call_outcome,
    "call_source": call_source.write_call_source,
    "log": log.render_log,
    "proposing_tools": recorded_change_text.format_proposing_tools,
    "compared_record": record_diff.ComparedRecord.of,
    "record_difference": record_diff.diff_records,
    "request": request_text.render_request,
    "request_difference": request_difference.render_request_difference,
    "source_diff": source_diff.format_diff,
    "source_diff_lines": source_diff.diff_source_lines,
    "suspect_lines": confusing_characters.find_suspect_lines,
    "shared_prefix": request_difference.describe_shared_prefix,
}


def render(what: str, /, *values: Any, **options: Any) -> Any:
    """Return what the user reads: `render("usage", document, 10).text`.

    Reports and prompts have a text and Markdown; the others are texts or lists of lines.
    """
    return RENDERINGS[what](*values, **options)

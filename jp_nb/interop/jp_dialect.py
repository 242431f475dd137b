"""Convert a conversation of `jp_nb` to the dialect that the newest JP can load ("jp-head").

JP, a command-line assistant, refuses a whole conversation for one response to an inquiry that has
no answer, or for one unknown key in the settings of a tool. Keys that it ignores disappear when it
saves. The conversion removes or replaces all of these, and lists them: entries here, fields of
entries in `jp_entry_fields.py`, and the configuration in `jp_configuration.py`.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.setting_paths import look_up
from jp_nb.errors import StorageError
from jp_nb.interop.jp_configuration import MODEL_ID_PATH, JpConfiguration
from jp_nb.interop.jp_entry_fields import remove_unsupported_fields
from jp_nb.interop.omissions import Omissions
from jp_nb.json_values import JsonObject
from jp_nb.record.compactions.compaction import find_compactions, is_revert
from jp_nb.record.entries.entry_kinds import KNOWN
from jp_nb.record.entries.event_decoding import decode_event
from jp_nb.record.entries.events import Entry, Unknown
from jp_nb.record.entries.inquiry_events import InquiryRequest, InquiryResponse

JP_QUESTIONS = ("boolean", "select", "text")
"""The kinds of questions that JP reads."""
TAKEN_BACK_NOTE = "an undone compaction, which JP would apply: omitted"


def convert_to_jp_dialect(
    base_config: JsonObject, entries: Sequence[JsonObject]
) -> tuple[JsonObject, list[JsonObject], list[str]]:
    """Convert a conversation to the form that the current JP can load.

    Its texts are still plain: the export encodes them in base64 later (`jp_entries.py`).

    Returns the base configuration, the entries, and a line for each omission or replacement.
    Entries that need no change stay the same objects.

    Raises:
        StorageError: The conversation names no model that JP supports, so JP could not load it.
    """
    report = Omissions()
    configuration = JpConfiguration(base_config, report)
    unreadable = _find_unreadable_entries(entries)
    kept: list[JsonObject] = []
    # A base configuration without a model gets one of those that later changes set.
    models: list[JsonValue] = []

    for index, entry in enumerate(entries):
        if index in unreadable:
            report.add_entry(index, "", unreadable[index])
            continue

        kind = entry.get("type")
        if kind == "image":
            report.add_entry(index, "", "JP has no images: omitted")
        elif kind == "config_delta":
            converted = configuration.convert_delta(entry, index)
            if converted is not None:
                kept.append(converted)
                models.append(look_up(converted.get("delta"), MODEL_ID_PATH))
        elif isinstance(kind, str) and kind in KNOWN:
            kept.append(remove_unsupported_fields(entry, index, report))
        else:
            kept.append(entry)

    return configuration.finish_base(models), kept, report.format_lines()


def _find_unreadable_entries(entries: Sequence[JsonObject]) -> dict[int, str]:
    """Return the entries with which JP refuses a conversation: the reason for each, by index.

    - An entry that is not valid.
    - An inquiry whose question JP does not support: its request, and its response if there is one.
    - An inquiry whose response JP cannot read, for example because it has no answer: both entries.
      The response belongs to the first open request of its turn with the same id.
    - An undone compaction, and the entry that undoes it: JP would apply the compaction.
    """
    reasons: dict[int, str] = {}
    # Indexes of the requests of the turn without a response so far, by the id of the inquiry. JP
    # accepts those that stay open.
    open_requests: dict[str, list[int]] = {}
    views: list[Entry] = []  # as `jp_nb` reads the entries

    for index, entry in enumerate(entries):
        try:
            view = decode_event(entry, index)
            views.append(view)
        except StorageError as exc:
            reasons[index] = f"JP could not load a conversation with this entry: {exc}"
            views.append(Unknown())
            continue

        if entry.get("type") == "turn_start":
            open_requests = {}
        elif isinstance(view, InquiryRequest):
            open_requests.setdefault(view.id, []).append(index)
            kind = view.question.answer_type.type
            if kind not in JP_QUESTIONS:
                reasons[index] = f"JP does not support {kind} questions ({view.id})"
        elif isinstance(view, InquiryResponse):
            indexes = [index]
            if open_requests.get(view.id):
                indexes = [open_requests[view.id].pop(0), index]

            # If the request is omitted for its own reason, so is the response.
            why = reasons.get(indexes[0]) or _explain_unreadable_answer(view, entry)
            if why is not None:
                reasons |= dict.fromkeys(indexes, why)

    undone = [placed.position for placed in find_compactions(views) if placed.is_reverted]
    reverts = [index for index, view in enumerate(views) if is_revert(view)]
    return reasons | dict.fromkeys(undone + reverts, TAKEN_BACK_NOTE)


def _explain_unreadable_answer(view: InquiryResponse, entry: JsonObject) -> str | None:
    """Return the reason why JP cannot read an answer; None if it can."""
    if view.outcome != "answered" or "answer" not in entry:
        # An entry may say that the inquiry was answered, but have no answer.
        outcome = "closed" if view.outcome == "answered" else view.outcome
        return f"JP reads only answered inquiries; this one was {outcome} ({view.id})"

    if isinstance(view.answer, dict | list):
        return (
            "JP reads one option or one text as an answer; this answer has several options, or a "
            f"custom text ({view.id})"
        )
    return None

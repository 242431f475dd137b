"""Remove the fields of an entry that JP does not know. It would drop them when it saves.

JP is a command-line assistant that reads exported conversations. Each omission is reported to the
user (`Omissions`).

An entry that was imported from JP has the field `spelling`: JP's notation of the same values, so
that an export restores it (`jp_entries.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.interop.omissions import Omissions
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.entry_images import IMAGES_KEY
from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS


def remove_unsupported_fields(entry: JsonObject, index: int, report: Omissions) -> JsonObject:
    """Return entry `index` without the fields that JP ignores and drops when it saves.

    An entry that needs no change stays the same object.
    """
    changed = dict(entry)
    unsupported = ["event_id", "request_id", "claims"]
    if entry.get("type") == "inquiry_response":
        unsupported.append("outcome")
    if entry.get("type") not in CONVERSATION_KINDS:
        unsupported.append("metadata")

    for key in unsupported:
        if key in changed:
            del changed[key]
            report.add_entry(index, key, "JP has no such field")

    metadata = changed.get("metadata")
    if isinstance(metadata, dict) and IMAGES_KEY in metadata:
        changed["metadata"] = {key: item for key, item in metadata.items() if key != IMAGES_KEY}
        if not changed["metadata"]:
            del changed["metadata"]
        report.add_entry(index, f"metadata.{IMAGES_KEY}", "JP has no images: omitted")

    question = changed.get("question")
    if entry.get("type") == "inquiry_request" and isinstance(question, dict):
        changed["question"] = _convert_question(question, index, report)

    return entry if changed == entry else remove_spelling(changed)


def _convert_question(question: JsonObject, index: int, report: Omissions) -> JsonObject:
    """Return the question of an inquiry with the fields that JP has."""
    converted = dict(question)
    for key in ("context", "exclusive", "header", "required", "persistence"):
        if key in converted:
            del converted[key]
            report.add_entry(index, f"question.{key}", "JP has no such field")

    answer_type = converted.get("answer_type")
    if isinstance(answer_type, dict):
        converted["answer_type"] = _convert_answer_type(answer_type, index, report)
    return converted


def _convert_answer_type(answer_type: JsonObject, index: int, report: Omissions) -> JsonObject:
    """Return the type of an answer with the fields that JP has, such as its options."""
    converted: JsonObject = {}
    for key, item in answer_type.items():
        if key in ("type", "options"):
            converted[key] = item
        else:
            report.add_entry(index, f"question.answer_type.{key}", "JP has no such field")

    options = converted.get("options")
    if isinstance(options, list):
        converted["options"] = [_convert_option(option, index, report) for option in options]
    return converted


def _convert_option(option: JsonValue, index: int, report: Omissions) -> JsonValue:
    """Return an option without a label: the label becomes the first line of the description."""
    if not isinstance(option, dict) or "value" not in option:  # the short form of an option
        return {"value": option}

    label = option.get("label")
    description = option.get("description")
    if label is None:
        return option

    place = "question.answer_type.options.label"
    report.add_entry(index, place, "JP has no labels: moved to the description")
    texts = [text for text in (label, description) if isinstance(text, str)]
    rest = {key: item for key, item in option.items() if key not in ("label", "description")}
    return {**rest, "description": "\n".join(texts)}


def remove_spelling(entry: JsonObject) -> JsonObject:
    """Return `entry` without JP's notation of its values, which does not fit a changed entry."""
    return {key: item for key, item in entry.items() if key != "spelling"}

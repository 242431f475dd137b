"""The outcome of a question in words, such as `→ Yes (model)` or `— no answer: timed out`.

A `QuestionOutcome` has its *end*, such as `answered` or `declined`, the *channel* of the answer,
such as `form` or `model`, and *marks*, such as `auto` for an answer that no user chose.

Source: `docs/prompts.md`, `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.config.secrets.replacements import SECRET_ANSWER
from jp_nb.exact_form import format_user_name
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.reading.outcome_words import CHANNEL_WORDS, end_in_words


def format_outcome(outcome: QuestionOutcome, answer: str) -> str:
    """Return an outcome for the user: an arrow and the answer, or a dash and the reason for none.

    `answer` is the text of the answer, if there is one.
    """
    notes = format_marks(outcome)
    if outcome.is_secret:  # it is answered
        return f"→ {SECRET_ANSWER}{notes}"

    # The channel tells where the answer is from. For an answer in the form, it has no words.
    words = CHANNEL_WORDS.get(outcome.channel or "")
    origin = f" ({words.origin})" if words is not None and words.origin else ""

    if outcome.is_answered:
        return f"→ {answer}{origin}{notes}"

    cause = format_cause(outcome)
    if outcome.end == "declined":  # by the user, or by the answers file
        return f"— {cause}{origin}{notes}"

    if outcome.end == "open":
        return f"— {cause}{notes}"

    return f"— no answer: {cause}{notes}"


def format_cause(outcome: QuestionOutcome) -> str:
    """Return the reason for a missing answer, for the user.

    Another version may have stored a reason that this one does not know: it is shown as it is. Such
    an outcome is read as `cancelled`.
    """
    unknown_reason = outcome.unexpected if outcome.end == "cancelled" else None
    return unknown_reason or end_in_words(outcome.end, outcome.marks)


def format_marks(outcome: QuestionOutcome) -> str:
    """Return the marks of an outcome and its user, such as ` (chosen automatically) (by Ada)`."""
    notes = []

    timed_out = "timed_out" in outcome.marks
    if "auto" in outcome.marks:
        when = " when time ran out" if timed_out else ""
        notes.append(f"chosen automatically{when}")
    elif timed_out:  # the user had entered it, but had not sent it
        notes.append("the input when time ran out")

    if "empty" in outcome.marks:
        notes.append("left blank on purpose")

    marks = ""
    if notes:
        listed = "; ".join(notes)
        marks = f" ({listed})"

    return f"{marks}{format_author(outcome.by)}"


def format_author(name: str | None) -> str:
    """Return the sender of an answer as ` (by Ada)`; "" without a name."""
    return f" (by {format_user_name(name)})" if name is not None else ""

"""The text of a result of the built-in tool `ask`, as the model reads it.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jp_nb.record.entries.outcomes import QuestionEnd, QuestionOutcome
from jp_nb.record.reading.outcome_words import CHANNEL_WORDS, END_WORDS
from jp_nb.toolkit.builtin.ask_ends import EndedQuestion
from jp_nb.toolkit.question_types.answer_types import NONE_OF_THESE

_REPLIED: Final = ("cancelled", "the user replied instead")
"""Status and reason of a question that the user left open to send a reply."""
_AUTO: Final = "chosen automatically, because {}"
_UNSENT: Final = "selected before the time ran out, but not submitted"
_BLANK: Final = "(left blank on purpose: treat this point as undecided, or ask differently)"


def format_lines(answers: Sequence[EndedQuestion], reply: str | None) -> Iterator[str]:
    """Yield the lines of the result: the user's reply, the answers, and notes on ignored fields."""
    replied = reply is not None
    if reply is not None:
        text = reply if reply.strip() else "(nothing more)"
        yield _format_block("The user did not send the form, but replied to you", text)

    if len(answers) == 1:
        yield from _format_only_answer(answers[0], replied=replied)
    else:
        heading = "User answers" if any(map(_is_by_user, answers)) else "Answers"
        so_far = " so far" if replied else ""
        yield f"{heading}{so_far}:"
        yield from (_format_answer(answer, replied=replied) for answer in answers)

    for answer in answers:
        if answer.asked.ignored:
            names = ", ".join(f"`{name}`" for name in answer.asked.ignored)
            question_id = answer.asked.question.id
            yield f"({names} had no effect on {question_id!r}: its mode is freetext.)"


def _is_by_user(answer: EndedQuestion) -> bool:
    """Return True if the user answered in the form."""
    return answer.picks is not None and _format_source(answer.outcome) is None


def _format_only_answer(answer: EndedQuestion, *, replied: bool) -> Iterator[str]:
    """Yield the lines about the only question of a call, whose id they omit."""
    if answer.picks is None:
        status, reason = _describe_open(answer.outcome, replied=replied)
        yield f"{status.capitalize()}: {reason}."
        return

    selected_heading = "User selected"
    custom_heading = "User provided custom input"
    source = _format_source(answer.outcome)
    if source is not None:
        selected_heading = source[0].upper() + source[1:]
        custom_heading = f"{selected_heading}, as custom input"

    unsent = _format_unsent(answer.outcome)
    selected = _format_selected(answer)
    if selected is not None:
        yield f"{selected_heading}{unsent}: {selected}"

    custom = _format_custom(answer)
    if custom is not None:
        yield _format_block(f"{custom_heading}{unsent}", custom)


def _format_answer(answer: EndedQuestion, *, replied: bool) -> str:
    """Return the text about one of several questions, which begins with its id."""
    question_id = answer.asked.question.id
    if answer.picks is None:
        status, reason = _describe_open(answer.outcome, replied=replied)
        return f"{question_id}: {status} ({reason})"

    source = _format_source(answer.outcome)
    label = question_id if source is None else f"{question_id} ({source})"
    label += _format_unsent(answer.outcome)

    selected = _format_selected(answer)
    custom = _format_custom(answer)

    if custom is None:
        return f"{label}: {selected}"
    picked = "" if selected is None else f"{selected}; "
    return _format_block(f"{label}: {picked}custom input", custom)


def _describe_open(outcome: QuestionOutcome, *, replied: bool) -> tuple[str, str]:
    """Return the status of a question without an answer, and the reason."""
    if replied and outcome.end == "cancelled":
        return _REPLIED
    words = END_WORDS[outcome.end]
    return words.status, words.cause


def _format_source(outcome: QuestionOutcome) -> str | None:
    """Return the source of an answer; None if the user answered in the form."""
    if "auto" in outcome.marks:
        why: QuestionEnd = "timed_out" if "timed_out" in outcome.marks else "unavailable"
        return _AUTO.format(END_WORDS[why].cause)

    # The table has no words for the form, the channel of most answers.
    words = CHANNEL_WORDS.get(outcome.channel or "")
    return None if words is None else words.source


def _format_unsent(outcome: QuestionOutcome) -> str:
    """Return a note if the user had picked the answer, but the time ran out; "" otherwise."""
    # With `auto`, the answer was chosen for the user.
    is_unsent = "timed_out" in outcome.marks and "auto" not in outcome.marks
    return f" ({_UNSENT})" if is_unsent else ""


def _format_selected(answer: EndedQuestion) -> str | None:
    """Return the labels of the picked options; None if the answer is only a text, or none."""
    picks = answer.picks
    choice = answer.asked.choice
    if picks is None or choice is None:
        return None
    if picks.custom is not None and not picks.indices:
        return None

    labels = []
    for index in picks.indices:
        option = choice.options[index]
        label = option.shown
        if str(option.value) != label:
            label += f" (value: {option.value})"
        labels.append(label)

    if not choice.multi:
        return labels[0]  # without a text of their own, users pick exactly one option
    if not labels:
        return f"[] ({NONE_OF_THESE})"
    return f"[{', '.join(labels)}]"


def _format_custom(answer: EndedQuestion) -> str | None:
    """Return the user's own text, or a note if it is blank; None without one."""
    if answer.picks is None or answer.picks.custom is None:
        return None
    return answer.picks.custom if answer.picks.custom.strip() else _BLANK


def _format_block(label: str, text: str) -> str:
    if "\n" not in text:
        return f"{label}: {text}"
    return "\n  ".join([f"{label}:", *text.split("\n")])

"""Words for the outcomes of questions, for the user and the model.

An outcome (`outcomes.py`) has an *end*, such as `declined`, and a *channel*, the source of the
answer, such as `form`. Each has a row of texts, one for each place that shows it.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from jp_nb.exact_form import format_user_name
from jp_nb.record.entries.outcomes import AnswerMark, QuestionEnd, QuestionOutcome

NOT_IN_TIME: Final = "the user did not answer in time"


class EndWords(NamedTuple):
    """Words for an end without an answer.

    Attributes:
        user: For the user.
        status: For the model, in the result of `ask`.
        cause: For the model, in the result of `ask`, as the reason of the status.
        response: For the model, in the response to a call that ends without the answer.
    """

    user: str
    status: str = "cancelled"
    cause: str = "the user did not answer it"
    response: str = "Tool input cancelled by user."


END_WORDS: Final[Mapping[QuestionEnd, EndWords]] = {
    "declined": EndWords(
        "not answered",
        "not answered",
        "the user left it open on purpose",
        "Tool input declined by user.",
    ),
    "cancelled": EndWords("cancelled"),
    "timed_out": EndWords(
        "timed out", "timed out", NOT_IN_TIME, "The tool's question was not answered in time."
    ),
    "interrupted": EndWords(
        "interrupted",
        "not answered",
        "an interrupt closed the form",
        "The tool's question was not answered: an interrupt closed it.",
    ),
    "unavailable": EndWords("no user was available", "not answered", "no user was available"),
    "denied": EndWords("only a user may answer"),
    "invalid": EndWords("the prepared answer does not fit"),
    "failed": EndWords("no model could answer"),
    "open": EndWords("open"),
}
REFUSED: Final = "declined"
"""For the user, the end of a question that is `refused`: the user pressed Decline.

The end `declined` is also that of a question which the user only left open.
"""


def end_in_words(end: QuestionEnd, marks: Collection[AnswerMark]) -> str:
    """Return an end without an answer, for the user."""
    return REFUSED if "refused" in marks else END_WORDS[end].user


class ChannelWords(NamedTuple):
    """Words for the source of an answer.

    Attributes:
        origin: For the user, after the answer; "" if the user just gave it.
        source: For the model, before the answer in the result of `ask`; None for no words.
        person: For both, in the history of questions.
    """

    origin: str = ""
    source: str | None = None
    person: str = "the user"


CHANNEL_WORDS: Final[Mapping[str, ChannelWords]] = {
    "form": ChannelWords(),
    "stdin": ChannelWords(),
    "terminal": ChannelWords(),
    "remembered": ChannelWords(
        "remembered", "answered by the user earlier in this turn", "the user (remembered)"
    ),
    "recorded": ChannelWords("recorded", person="recorded"),
    "configured": ChannelWords(
        "configured", "configured by the user in advance", "the configuration"
    ),
    "answers": ChannelWords(
        "answers file", "answered by the user in advance", "the user, in an answers file"
    ),
    "model": ChannelWords("model", "answered by another model, not by the user", "a model"),
}


def describe_source(outcome: QuestionOutcome) -> str:
    """Return who answered, for the history of questions; "" if that is unknown."""
    if "auto" in outcome.marks:
        reason = " (timed out)" if "timed_out" in outcome.marks else ""
        return f"an automatic choice{reason}"

    channel = outcome.channel or ""
    words = CHANNEL_WORDS.get(channel)
    source = channel if words is None else words.person
    return source if outcome.by is None else f"{source} ({format_user_name(outcome.by)})"

"""Comments that the inbox writes above an answer: the place of the decision, and its subject.

    # 37 runs of walk.ipynb, cell 3, turn 1: Who is it for?

`DecisionGroup.askings` has the times that each run asked, by the id of the run, with their places.
The inbox writes the comments anew with each answer. All others are the user's own, and stay. The
two are told apart by the notebook at the beginning of a comment, and by the subject at its end.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.batch.inboxes.answer_entries import (
    AnswerEntry,
)
from jp_nb.batch.results.decision_groups import DecisionGroup
from jp_nb.storage.configuration.toml_text import (
    MAX_COMMENT_CHARS,
    format_comment,
)
from jp_nb.text import one_line

_GENERATED: Final = re.compile(r"# (?:\d+ runs of )?(?P<text>.*)", re.DOTALL)


def list_own_comments(entry: AnswerEntry | None, group: DecisionGroup) -> list[str]:
    """Return the comments of the user, without those that the inbox has written about `group`."""
    if entry is None:
        return []
    comments = entry.text.list_all_comments()
    return [line for line in comments if line and not _is_generated(line, group)]


def _is_generated(comment: str, group: DecisionGroup) -> bool:
    """Return True if `describe_asking` has written the comment, for any number of runs."""
    generated = _GENERATED.fullmatch(comment)
    if generated is None:
        return False

    text = generated["text"]
    notebook = one_line(group.notebook, limit=200)
    if not text.startswith((f"{notebook}, ", f"{notebook}: ")):
        return False

    # `format_comment` cuts a long text and adds the number of its other characters, so the subject
    # is not complete.
    is_cut = len(comment) > MAX_COMMENT_CHARS and comment.endswith(" more characters)")
    return is_cut or text.endswith(f": {_describe_subject(group)}")


def describe_asking(group: DecisionGroup, run: str | None) -> str:
    """Return the comment for one run; None is all runs of `group`, with the places of the first."""
    askings = group.askings[group.runs[0] if run is None else run]
    places = list(dict.fromkeys(asked.asking.place for asked in askings if asked.asking.place))
    runs = one_line(group.notebook, limit=200)
    if run is None:
        runs = f"{len(group.runs)} runs of {runs}"

    return format_comment(f"{', '.join([runs, *places[:3]])}: {_describe_subject(group)}")


def _describe_subject(group: DecisionGroup) -> str:
    return group.question_text or group.description

"""The answers to one decision of a batch: an entry for all runs, or an entry for each run.

A decision has an *identity* (`DecisionGroup.identity`): the key of its entry in the answers file,
and the exact arguments of a permission. Several notebooks may ask for it, each of which has a
`DecisionGroup`. Runs that ended with the open decision are *waiting*: when the batch is resumed,
they run again, with the answers.

An entry without a run is for all runs. It is made when the user has given all waiting runs the same
answer, and taken apart when the user withdraws the answer of one of them. The comments of the user
stay in either case.

Source: `docs/many-notebooks.md`, `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from jp_nb.batch.inboxes.answer_entries import AnswerEntry, AnswerValue, format_answer_value
from jp_nb.batch.inboxes.answers_comments import EntryText
from jp_nb.batch.inboxes.asking_comments import describe_asking, list_own_comments
from jp_nb.batch.results.decision_groups import DecisionGroup
from jp_nb.storage.configuration.answers_content import PreparedAnswer


@dataclass(frozen=True, slots=True)
class InboxAnswer:
    """An answer of the user. `skip` leaves a question unanswered, or refuses a consent."""

    value: AnswerValue = None
    skip: bool = False


@dataclass(slots=True)
class AskedDecision:
    """All groups with one identity.

    Attributes:
        notebooks: The notebooks of the groups.
        waiting_runs: The ids of their runs, in order.
        misfit_runs: The ids of the runs whose answer in the file did not fit when they used it.
    """

    notebooks: set[str] = field(default_factory=set)
    waiting_runs: dict[str, None] = field(default_factory=dict)
    misfit_runs: set[str] = field(default_factory=set)

    def add(self, group: DecisionGroup) -> None:
        """Add the runs of one notebook."""
        self.notebooks.add(group.notebook)
        self.waiting_runs.update(dict.fromkeys(group.runs))
        self.misfit_runs.update(group.misfits)


class DecisionAnswers:
    """The entries of the file for one decision.

    `asked` are the runs that wait for it: none for an entry of the file that no run asks for.
    """

    def __init__(self, asked: AskedDecision) -> None:
        self._asked = asked
        self._general: AnswerEntry | None = None  # the entry for all runs
        self._by_run: dict[str, AnswerEntry] = {}  # the entries for single runs

    def add_stored(self, answer: PreparedAnswer, text: EntryText) -> None:
        """Add an answer of the file. The first of equal entries counts; all comments stay."""
        earlier = self._general
        if answer.run is not None:
            earlier = self._by_run.get(answer.run)

        if earlier is not None:
            earlier.text.add(text.list_all_comments())
        elif answer.run is None:
            self._general = AnswerEntry(answer, text)
        else:
            self._by_run[answer.run] = AnswerEntry(answer, text)

    def find(self, run: str) -> PreparedAnswer | None:
        """Return the answer for `run`; None also if it did not fit when the run used it."""
        if run in self._asked.misfit_runs:
            return None
        entry = self._by_run.get(run) or self._general
        return None if entry is None else entry.answer

    def list_entries(self) -> Iterator[AnswerEntry]:
        """Yield all entries, the one for all runs first."""
        if self._general is not None:
            yield self._general
        yield from self._by_run.values()

    def decide(
        self,
        group: DecisionGroup,
        runs: Iterable[str],
        answer: InboxAnswer,
        *,
        may_combine: bool,
    ) -> None:
        """Set the answer to `group` in `runs`.

        With `may_combine`, an equal answer of all waiting runs becomes one entry for all runs.
        """
        for run in runs:
            prepared = PreparedAnswer(
                group.answer_key,
                line=0,  # it is not in the file so far
                skip=answer.skip,
                value=answer.value,
                arguments=group.arguments,
                run=run,
            )
            comments = list_own_comments(self._by_run.get(run), group)
            text = EntryText([*comments, describe_asking(group, run)])
            self._by_run[run] = AnswerEntry(prepared, text)
            self._asked.misfit_runs.discard(run)

        if may_combine:
            self._combine_equal(group)

    def _combine_equal(self, group: DecisionGroup) -> None:
        """Replace the entries of all waiting runs by one for all runs, if their answer is equal."""
        waiting = self._asked.waiting_runs
        entries = [self._by_run[run] for run in waiting if run in self._by_run]
        values = {format_answer_value(entry.answer) for entry in entries}
        if len(entries) < len(waiting) or len(values) > 1:
            return

        comments = dict.fromkeys(list_own_comments(self._general, group))
        for entry in entries:
            comments.update(dict.fromkeys(list_own_comments(entry, group)))
        only_run = group.runs[0] if len(waiting) == 1 else None

        text = EntryText([*comments, describe_asking(group, only_run)])
        self._general = AnswerEntry(replace(entries[0].answer, run=None), text)
        for run in waiting:
            del self._by_run[run]

    def leave_open(self, group: DecisionGroup, runs: Iterable[str]) -> list[str]:
        """Withdraw the answer to `group` in `runs`; return the user's comments about it."""
        comments = self._split_general(group)
        for run in runs:
            comments += list_own_comments(self._by_run.pop(run, None), group)
        return comments

    def _split_general(self, group: DecisionGroup) -> list[str]:
        """Replace the entry for all runs by an equal one of each, so that one can be withdrawn.

        The first of them gets the comments of the user, which are returned if there is none. The
        comments of the inbox, about the places where the runs asked, are those of each.
        """
        general = self._general
        if general is None:
            return []

        self._general = None
        own = list_own_comments(general, group)
        generated = [line for line in general.text.list_all_comments() if line not in own]

        for run in self._asked.waiting_runs:
            if run not in self._by_run:
                text = EntryText([*own, *generated])
                self._by_run[run] = AnswerEntry(replace(general.answer, run=run), text)
                own = []  # the comments of the user are kept once
        return own

"""Select the runs of a resumed batch: those that are not done, and those that the user names.

A run is done if it passed, failed, or waits for a decision, and its notebook is in the output
folder. `--failed` adds failed runs, `--answers` adds waiting runs for which the file has an answer,
and `--rerun PATTERN` adds runs by their id or the name of their notebook.

An answer that a waiting run has tried is none for it: the decision is still open, so the answer did
not fit, and would not fit again. It counts once it has changed.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from jp_nb.batch.plans.plan_review import matches_run_pattern
from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.batch.results.open_decisions import group_open_decisions
from jp_nb.batch.results.run_log import RunState
from jp_nb.headless.reported_decisions import DECISION_SECTIONS
from jp_nb.storage.configuration.answers_content import AnswersFile, PreparedAnswer


class RunSelection:
    """Selects runs by their `states` in the log of the folder `out`.

    Args:
        states: The states of the runs of earlier batches.
        out: The output folder.
        failed: True to select failed runs.
        rerun: Patterns of ids and of names of notebooks. Matching runs are selected.
        answers: The answers file, which selects waiting runs that it has an answer for.
    """

    def __init__(
        self,
        states: Iterable[RunState],
        out: Path,
        *,
        failed: bool = False,
        rerun: Sequence[str] = (),
        answers: AnswersFile | None = None,
    ) -> None:
        self._states = {state.run: state for state in states}
        self._out = out
        self._failed = failed
        self._rerun = rerun
        self._answers = answers.split_by_run() if answers is not None else {}

    def includes(self, spec: RunSpec | RunState) -> bool:
        """Return True if the run of `spec` has to start."""
        state = self._states.get(spec.run)
        if state is None or not state.is_done or self._is_lost(state):
            return True
        if self._failed and state.outcome == "failed":
            return True
        if state.outcome == "waiting" and self._has_new_answer(state):
            return True
        return self._is_rerun(spec)

    def _is_rerun(self, spec: RunSpec | RunState) -> bool:
        """Return True if a pattern of `--rerun` fits the id or the notebook of the run."""
        return any(matches_run_pattern(spec, pattern) for pattern in self._rerun)

    def find(self, run: str) -> RunState | None:
        """Return the state of a run in the log."""
        return self._states.get(run)

    def has_only_tried_answers(self, state: RunState) -> bool:
        """Return True if the answers file has answers for the run, and none of them is new."""
        is_answered = any(self._find_answers(state))
        return is_answered and not self._has_new_answer(state)

    def _has_new_answer(self, state: RunState) -> bool:
        """Return True if the answers file decides something for which the run waits.

        An answer in an environment variable is always new, because it has no digest: the user may
        have changed the variable.
        """
        found = self._find_answers(state)
        return any(answer.digest not in state.tried_answers for answer in found)

    def _find_answers(self, state: RunState) -> Iterator[PreparedAnswer]:
        """Yield the answer of the file to each decision for which the run waits."""
        # For a run that the file names: its own entries, and those for all runs. For any other run,
        # only those for all runs, which have the key None.
        answers = self._answers.get(state.run) or self._answers.get(None)
        if answers is None:
            return

        for group in group_open_decisions([state]).groups:
            # The key of an answer begins with the section of the file, then the names in it.
            section = DECISION_SECTIONS[group.kind]
            _, *names = group.answer_key
            answer = answers.find(section, *names, arguments=group.arguments)
            if answer is not None:
                yield answer

    def _is_lost(self, state: RunState) -> bool:
        """Return True if the run wrote a notebook that is no longer there."""
        return bool(state.output) and not (self._out / state.output).is_file()

"""Sort runs by their duration in an earlier batch, longest first, for `--order longest-first`.

Long runs at the end keep one worker busy while the others are idle. The log has the duration of
each run. A run without one takes as long as the runs of its notebook did on average, and if there
are none, it starts first, because it may be long.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from statistics import fmean

from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.batch.results.run_log import RunState


def sort_longest_first(specs: Iterable[RunSpec], states: Iterable[RunState]) -> list[RunSpec]:
    """Return runs of unknown duration, then the others by their durations in `states`.

    Runs of the same duration keep their order.
    """
    seconds_by_run: dict[str, float] = {}
    seconds_by_notebook: dict[str, list[float]] = {}
    for state in states:
        if state.is_done:
            seconds_by_run[state.run] = state.seconds
            seconds_by_notebook.setdefault(state.notebook, []).append(state.seconds)

    averages = {notebook: fmean(seconds) for notebook, seconds in seconds_by_notebook.items()}

    def estimate_seconds(spec: RunSpec) -> float:
        return seconds_by_run.get(spec.run, averages.get(spec.notebook, inf))

    return sorted(specs, key=estimate_seconds, reverse=True)

"""The order in which runs start: as given, or those first that took longest in an earlier batch.

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
    """Return the runs by their durations in `states`; equally long ones in the given order."""
    known: dict[str, float] = {}
    by_notebook: dict[str, list[float]] = {}
    for state in states:
        if state.is_done:
            known[state.run] = state.seconds
            by_notebook.setdefault(state.notebook, []).append(state.seconds)

    usual = {notebook: fmean(seconds) for notebook, seconds in by_notebook.items()}

    def estimate(spec: RunSpec) -> float:
        return known.get(spec.run, usual.get(spec.notebook, inf))

    return sorted(specs, key=estimate, reverse=True)

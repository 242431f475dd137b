"""Find the answers of an answers file that no run of a batch used.

Source: `docs/answers.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jp_nb.storage.configuration.answers_content import (
    AnswerKey,
    AnswersFile,
    PreparedAnswer,
)


def find_unused_answers(
    answers: AnswersFile,
    used_by_run: Mapping[str, Iterable[AnswerKey]],
    used_before: Iterable[AnswerKey] = (),
) -> list[PreparedAnswer]:
    """Return the answers that no run used.

    `used_by_run` has the keys of the answers that each run used, by its id. An answer for a
    run that is not in it was not needed: that run did not run. `used_before` has the keys that runs
    of earlier batches used, whose results still count.
    """
    used = set(map(tuple, used_before))
    for keys in used_by_run.values():
        used.update(map(tuple, keys))  # also for keys that are lists, as in JSON

    return [
        answer
        for answer in answers.answers
        if answer.identity not in used and (answer.run is None or answer.run in used_by_run)
    ]

"""Labels of the options of a question, in which the user can tell each option from the others.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

import json
from collections import Counter

from jp_nb.exact_form import make_lookalike_key, spell_invisible
from jp_nb.record.reading.recorded_answers import EMPTY


def spell_option_labels(options: tuple[str, ...]) -> list[str]:
    """Return a distinct label for each of `options`.

    Options that look alike get their JSON escapes, and equal labels a number.
    """
    labels: dict[str, None] = {}  # an ordered set
    equal_counts = Counter[str]()  # how many labels had the same text before
    lookalikes = Counter(map(make_lookalike_key, dict.fromkeys(options)))

    for option in options:
        text = spell_invisible(option) or EMPTY
        if lookalikes[make_lookalike_key(option)] > 1 and not option.isascii():
            text = f"{text} ({json.dumps(option)})"

        label = text
        while label in labels:  # widgets find an option by its label
            equal_counts[text] += 1
            label = f"{text} ({equal_counts[text] + 1})"
        labels[label] = None

    return list(labels)

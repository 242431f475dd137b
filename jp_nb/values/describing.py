"""Describe Python values for the model.

Source: `docs/values.md`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace

from jp_nb.values.container_contents import contents
from jp_nb.values.containers import describe_container
from jp_nb.values.cutting import cut_end, cut_middle, in_one_line
from jp_nb.values.description import Description, ValueBudget
from jp_nb.values.kinds import kind_of
from jp_nb.values.nested import NestedRules, NestedText, Special
from jp_nb.values.own_text import FAILURES, has_own_repr, own_text
from jp_nb.values.own_words import has_own_words, own_words
from jp_nb.values.privacy import hidden_value, private, without_hidden
from jp_nb.values.telling import BRIEF_CHARS, Telling


def describe(value: object, budget: ValueBudget | None = None, *, name: str = "") -> Description:
    """Describe a Python value for the model as text and images, within a size budget.

    Equal values have equal descriptions. The function runs code of the value, such as `__repr__`,
    so call it in the thread that uses the value. It raises no exception except `KeyboardInterrupt`:
    if the value's code fails, the text reports that.

    Args:
        value: Any value. It is not changed, displayed, or consumed. A lazy value is not computed,
            and a file is not read.
        budget: Limits of the description, with the attributes `chars`, `side`, and `images`; None
            for 20,000 characters and 4 images of at most 768 pixels a side.
        name: Expression for the value, such as a variable name. If a part is omitted, the text
            shows an expression for it.

    Returns:
        A description with the attributes `text` and `images`. A notebook displays both.
    """
    budget = budget or ValueBudget()
    telling = Telling(max(budget.chars, 0), budget.side, max(budget.images, 0), name, _describe)
    with warnings.catch_warnings(), private(budget.privacy):
        warnings.simplefilter("ignore")  # those of the libraries are not about what is asked
        said = _describe(value, telling)
        text = cut_middle(without_hidden(said.text), telling.chars)
    return Description(text, said.images[: telling.images])


def _describe(value: object, telling: Telling) -> Description:
    """Return what is said of `value`, by the first that knows how to say it."""
    if (hidden := hidden_value(value)) is not None:
        return Description(cut_end(hidden, telling.chars))
    said, problems = own_words(value, _budget(telling))
    if said is None:
        said = _by_kind(value, telling)
    if problems:
        room = telling.chars - sum(len(problem) + 1 for problem in problems)
        text = "\n".join([cut_middle(said.text, max(room, 0)), *problems])
        said = Description(cut_end(text, telling.chars), said.images)
    if telling.brief and "\n" in said.text:
        return replace(said, text=in_one_line(said.text, telling.chars))
    return said


def _budget(telling: Telling) -> ValueBudget:
    return ValueBudget(telling.chars, telling.side, telling.images)


def _by_kind(value: object, telling: Telling) -> Description:
    try:
        said = _known(value, telling)
        if said is None:
            said = own_text(value, telling.chars)
    except FAILURES:
        # A kind whose values are not what they should be: it is told as what it says of itself.
        said = own_text(value, telling.chars)
    if isinstance(said, Description):
        return replace(said, text=cut_end(said.text, telling.chars))
    return Description(cut_middle(said, telling.chars))


def _known(value: object, telling: Telling) -> Description | str | None:
    kind = kind_of(value)
    if kind is not None:
        return kind.describe(value, telling)
    if has_own_repr(value) and contents(value) is not None:
        return None
    return describe_container(value, telling, _special(telling), is_rich)


def _special(telling: Telling) -> Special:
    def special(value: object, room: int) -> str:
        part = telling.part(min(room, BRIEF_CHARS) if telling.brief else room, brief=True)
        return _describe(value, part).text

    return special


def in_order(items: Iterable[object]) -> list[object]:
    """Return the elements of a set in the order in which a description has them."""
    telling = Telling(BRIEF_CHARS, 0, 0, "", _describe)
    nested = NestedText(NestedRules(_special(telling)), greedy=False)
    return nested.sorted((None, item) for item in items)


def is_rich(value: object) -> bool:
    """Return True for a frame, a figure, an array, or what somebody has words of their own for."""
    kind = kind_of(value)
    return (kind is not None and kind.is_rich) or has_own_words(value)

"""A list of options with descriptions, several picks, an own text and a filter.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from importlib.resources import files

import traitlets
from anywidget import AnyWidget
from pydantic import JsonValue

_FILES = files(__package__)


class Choices(AnyWidget):
    """The list that a question with more than bare options is answered with.

    Its state is what the person did, so that a page that is loaded again shows it again. Nothing in
    it is trusted: whoever reads it holds it against the question.

    Attributes:
        question: What the list is called for those who do not see it.
        options: `{"label": text, "description": text}` each, in order; shown as text alone.
        multi: Whether several may be ticked.
        wanted: Says how many are to be picked; "": any number may be.
        recommended: Index of the option that is marked; None: none is.
        other: What the row with a box for an own text is called; "": there is none.
        optional: Whether a choice of one can be taken back.
        picks: Indices of what is picked, in the order of the clicks. Where only one may be picked
            it stays while an own text stands in its place.
        custom: The own text; None while it is no part of the answer.
        draft: The own text as it stands in the box.
        search: What the list is filtered by; changes nothing that is picked.
        writing: Whether the box for an own text has the focus.
    """

    _esm = (_FILES / "choices.js").read_text(encoding="utf-8")
    _css = (_FILES / "choices.css").read_text(encoding="utf-8")
    question = traitlets.Unicode("").tag(sync=True)
    options: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)
    multi = traitlets.Bool(False).tag(sync=True)
    wanted = traitlets.Unicode("").tag(sync=True)
    recommended = traitlets.Int(None, allow_none=True).tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    optional = traitlets.Bool(False).tag(sync=True)
    picks: traitlets.List[JsonValue] = traitlets.List().tag(sync=True)
    custom = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    draft = traitlets.Unicode("").tag(sync=True)
    search = traitlets.Unicode("").tag(sync=True)
    writing = traitlets.Bool(False).tag(sync=True)

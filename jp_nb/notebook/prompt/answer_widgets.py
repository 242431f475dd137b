"""The widgets of answers for which ipywidgets has none: a list of options, and a password field.

Their other half runs in the page: `js/src/widgets/choices.ts` and `secret.ts`, which are built
into `modules/`.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import traitlets
from anywidget import AnyWidget
from pydantic import JsonValue

NO_SUCH_OPTION = "That is not one of the options. Please choose again."

_FILES = files(__package__)


class Choices(AnyWidget):
    """List of options with descriptions, multiple choice, or a box for the user's own text.

    Its state is restored when the page is reloaded. The state comes from the page, so readers
    validate it against the question.

    Attributes:
        question: The question, as the name of the list for screen readers.
        multi: True if the user can select several options.
        recommended: Index of the recommended option; None if there is none.
        search: Content of the filter.
        options: One `{"label": text, "description": text}` per option, shown as plain text.
        wanted: Text that says how many options to select; "" if any number is allowed.
        other: Label of the row with a box for the user's own text; "" without such a row.
        optional: True if a single choice can be undone.
        picks: Indices of the selected options, in the order of the clicks. A single choice stays
            while the user's own text replaces it.
        custom: The user's own text; None if it is not part of the answer.
        draft: Content of the box for the user's own text.
        writing: True if that box has the focus.
    """

    _esm = (_FILES / "modules" / "choices.js").read_text(encoding="utf-8")
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

    @traitlets.validate("picks")
    def _validate_picks(self, proposal: Any) -> list[JsonValue]:
        # Too few picks are kept: the page says how many are missing.
        picks: list[JsonValue] = proposal["value"]
        known = {x for x in picks if type(x) is int and 0 <= x < len(self.options)}
        if len(known) < len(picks) or (len(picks) > 1 and not self.multi):
            raise traitlets.TraitError(NO_SUCH_OPTION)
        return picks


class SecretField(AnyWidget):
    """A password field. Its text stays in the page until the user sends it.

    Attributes:
        hint: Text in the empty field.
    """

    _esm = (_FILES / "modules" / "secret.js").read_text(encoding="utf-8")
    hint = traitlets.Unicode("").tag(sync=True)

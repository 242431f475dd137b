"""Show the difference of two sources in a form: highlighted code, with changed words marked.

The kernel renders it, so it looks the same in each front end that shows widgets.

Source: `docs/cells.md`, `docs/decisions.md` (D309).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import Final

import ipywidgets as widgets

from jp_nb.notebook.prompt.controls.form_messages import guard_widgets
from jp_nb.notebook.prompt.controls.form_widgets import (
    close_widgets,
    make_box,
    make_button,
    make_html,
    make_text,
)
from jp_nb.notebook.prompt.forms.exact_text import CodePiece, render_piece, split_code
from jp_nb.rendering.changed_words import CharRange, find_changed_words, pair_changed_lines
from jp_nb.text import pluralize, spell_lines
from jp_nb.toolkit.editing.source_diff import LineKind, SourceDiff, SourceDiffLine, format_fold

MAX_OPEN_DIFF_LINES: Final = 400
"""Lines of all differences together that are open when a form appears."""
MAX_DIFF_PART_LINES: Final = 400
"""Lines of a difference that are shown at once."""
MAX_DIFF_PART_CHARS: Final = 40_000
"""Characters of a difference that are shown at once, if they are more than one line."""

_TAGS: Final = {"removed": "del", "added": "ins", "same": "span"}
_SIGNS: Final = {
    # Screen readers read the name. Colors are not the only mark.
    "removed": '<span role="img" aria-label="removed:">-</span>',
    "added": '<span role="img" aria-label="added:">+</span>',
    "same": "<span></span>",
}


class SourceDiffView:
    """A difference in a form, which is rendered when it is opened, part by part.

    Attributes:
        widgets: The caption, the difference, and the buttons.
    """

    def __init__(self, caption: str, diff: SourceDiff, language: str | None) -> None:
        self._caption = caption
        self._renderer = DiffRenderer(diff, language)
        self._at = 0
        self._text_box = make_box("diff-box")
        self._buttons = widgets.HBox()
        self._buttons.add_class("jp-nb-pager")
        self.widgets = (make_text(caption, "caption"), self._text_box, self._buttons)
        self.collapse()

    def expand(self) -> None:
        """Show the difference."""
        self._turn(0)

    def collapse(self) -> None:
        """Hide the difference, with a button that opens it."""
        count = len(self._renderer.lines)
        label = f"Show the difference ({count:,} {pluralize('line', count)})"
        self._show((), [make_button(label, self.expand)])

    def _turn(self, step: int) -> None:
        parts = self._renderer.parts
        self._at = (self._at + step) % len(parts)
        part = parts[self._at]
        rows = "".join(self._renderer.render(part))
        name = escape(self._caption, quote=True)
        # Arrow keys scroll an element that has the focus.
        shown = make_html(
            f'<div class="jp-nb-lines" tabindex="0" role="group" aria-label="{name}">{rows}</div>',
            "diff",
        )

        count = len(self._renderer.lines)
        buttons: list[widgets.Widget] = []
        if len(parts) > 1:
            place = (
                f"Part {self._at + 1} of {len(parts)}: lines {part.start + 1:,} to {part.stop:,} "
                f"of {count:,} of the difference"
            )
            buttons.append(make_button("Previous part", lambda: self._turn(-1)))
            buttons.append(make_button("Next part", lambda: self._turn(1)))
            buttons.append(make_text(place, "part"))
        if count > MAX_OPEN_DIFF_LINES:
            buttons.append(make_button("Hide the difference", self.collapse))
        self._show((shown,), buttons)

    def _show(self, shown: Sequence[widgets.Widget], buttons: Sequence[widgets.Widget]) -> None:
        old = [*self._text_box.children, *self._buttons.children]
        self._text_box.children = tuple(shown)
        self._buttons.children = tuple(buttons)
        guard_widgets(self._text_box)
        guard_widgets(self._buttons)

        for each in old:
            close_widgets(each)


class DiffRenderer:
    """Renders the lines of a difference as HTML. Nothing is computed before it is needed."""

    def __init__(self, diff: SourceDiff, language: str | None) -> None:
        self._diff = diff
        self._language = language or ""

    @property
    def lines(self) -> list[SourceDiffLine]:
        """The lines of the difference."""
        return self._diff.lines

    @cached_property
    def parts(self) -> list[range]:
        """The indices of the lines of each part."""
        parts: list[range] = []
        start = 0
        chars = 0
        for index, line in enumerate(self.lines):
            is_full = index - start == MAX_DIFF_PART_LINES
            if index > start and (is_full or chars + len(line.text) > MAX_DIFF_PART_CHARS):
                parts.append(range(start, index))
                start = index
                chars = 0
            chars += len(line.text)
        return [*parts, range(start, len(self.lines))]

    def render(self, part: range) -> Iterator[str]:
        """Yield the HTML of each line in `part`."""
        before = self._highlight(part, "removed")
        after = self._highlight(part, "added")
        changed_words = self._find_changed_words(part)
        for index in part:
            line = self.lines[index]
            if line.kind == "folded":
                yield f"<i>{format_fold(line)}</i>"
                continue

            pieces = after if index in after else before
            ranges = changed_words.get(index, [])
            text = "".join(_render_pieces(pieces[index], ranges))
            text = text.replace("</b><b>", "")  # one mark across pieces
            tag = _TAGS[line.kind]
            # `bdo` shows all characters in their logical order, also right-to-left text.
            yield f'<{tag}>{_SIGNS[line.kind]}<bdo dir="ltr">{text}</bdo></{tag}>'

        if part.stop == len(self.lines) and self._diff.note:
            yield f"<i>{self._diff.note}</i>"

    def _highlight(self, part: range, kind: LineKind) -> dict[int, list[CodePiece]]:
        """Return the pieces of the lines of one source, by index.

        Only lines that are shown are highlighted: the highlighting of a long source takes seconds.
        """
        shown = [index for index in part if self.lines[index].kind in (kind, "same")]
        if not shown:
            return {}
        code = [self._texts[index] for index in shown]
        return dict(zip(shown, split_code(code, self._language), strict=True))

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The text of each line, with invisible characters spelled out."""
        texts: dict[int, str] = {}
        for index, line in enumerate(self.lines):
            _, spelled = spell_lines(line.text.removesuffix("\n"))
            texts[index] = "".join(spelled)
        return texts

    def _find_changed_words(self, part: range) -> dict[int, list[CharRange]]:
        """Return the changed characters of each changed line in `part`."""
        found: dict[int, list[CharRange]] = {}
        for removed, added in self._blocks:
            if max(removed[-1], added[-1]) < part.start or min(removed[0], added[0]) >= part.stop:
                continue

            before = [self._texts[index] for index in removed]
            after = [self._texts[index] for index in added]
            for i, j in pair_changed_lines(before, after):
                if removed[i] in part or added[j] in part:
                    changed = find_changed_words(before[i], after[j])
                    found[removed[i]] = changed.removed
                    found[added[j]] = changed.added
        return found

    @cached_property
    def _blocks(self) -> list[tuple[list[int], list[int]]]:
        """The indices of removed lines, and of the added lines that replace them."""
        blocks: list[tuple[list[int], list[int]]] = []
        removed: list[int] = []
        added: list[int] = []

        for index, line in enumerate([*self.lines, SourceDiffLine("same", "")]):
            if line.kind == "removed" and not added:
                removed.append(index)
            elif line.kind == "added":
                added.append(index)
            else:
                if removed and added:
                    blocks.append((removed, added))
                removed = [index] if line.kind == "removed" else []
                added = []
        return blocks


def _render_pieces(pieces: list[CodePiece], ranges: list[CharRange]) -> Iterator[str]:
    """Yield the HTML of a line, in which `ranges` are marked."""
    start = 0
    left = iter([*ranges])
    mark = next(left, None)

    for piece in pieces:
        end = start + len(piece.text)
        at = start
        # A mark may begin and end in other pieces.
        while mark is not None and mark.start < end:
            begin = max(mark.start, at)
            yield _render_slice(piece, at - start, begin - start)
            stop = min(mark.end, end)
            yield f"<b>{_render_slice(piece, begin - start, stop - start)}</b>"
            at = stop
            if mark.end > end:
                break
            mark = next(left, None)
        yield _render_slice(piece, at - start, end - start)
        start = end

    if mark is not None and mark.start >= start:
        yield "<b></b>"


def _render_slice(piece: CodePiece, start: int, end: int) -> str:
    return render_piece(piece._replace(text=piece.text[start:end]))

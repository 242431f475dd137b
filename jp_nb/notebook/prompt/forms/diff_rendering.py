"""Render the difference of two sources as HTML: highlighted code, with changed words marked.

A long difference is shown in *parts*: ranges of its lines. A *block* consists of removed lines and
the added lines that replace them.

Source: `docs/cells.md`, `docs/decisions.md` (D309).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from jp_nb.exact_form import spell_lines
from jp_nb.notebook.prompt.forms.code_pieces import CodePiece, render_piece, split_code
from jp_nb.rendering.changed_words import CharRange, find_changed_words, pair_changed_lines
from jp_nb.toolkit.editing.source_diff import LineKind, SourceDiff, SourceDiffLine, format_fold

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
        """The indices of the lines of each part, within both limits."""
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
        """Yield the HTML of each line in `part`.

        The two sources are highlighted separately. An unchanged line is in both.
        """
        pieces_before = self._highlight(part, "removed")
        pieces_after = self._highlight(part, "added")
        changed_words = self._find_changed_words(part)
        for index in part:
            line = self.lines[index]
            if line.kind == "folded":  # a number of unchanged lines, such as "… 12 unchanged lines"
                yield f"<i>{format_fold(line)}</i>"
                continue

            pieces = pieces_after if index in pieces_after else pieces_before
            ranges = changed_words.get(index, [])
            text = "".join(_render_pieces(pieces[index], ranges))
            text = text.replace("</b><b>", "")  # one mark across pieces
            tag = _TAGS[line.kind]
            # `bdo` shows all characters in their logical order, also right-to-left text.
            yield f'<{tag}>{_SIGNS[line.kind]}<bdo dir="ltr">{text}</bdo></{tag}>'

        # A fixed text about a line break at the end that was added or removed.
        if part.stop == len(self.lines) and self._diff.note:
            yield f"<i>{self._diff.note}</i>"

    def _highlight(self, part: range, kind: LineKind) -> dict[int, list[CodePiece]]:
        """Return the pieces of the lines of one source, by index.

        A *piece* is a text with one style. `split_code` returns a list of pieces for each line.
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
            # One line, or none if the text is empty.
            _, spelled_lines = spell_lines(line.text.removesuffix("\n"))
            texts[index] = "".join(spelled_lines)
        return texts

    def _find_changed_words(self, part: range) -> dict[int, list[CharRange]]:
        """Return the changed characters of each changed line in `part`."""
        changed_words: dict[int, list[CharRange]] = {}
        for removed, added in self._blocks:
            ends_before = max(removed[-1], added[-1]) < part.start
            begins_after = min(removed[0], added[0]) >= part.stop
            if ends_before or begins_after:
                continue

            before = [self._texts[index] for index in removed]
            after = [self._texts[index] for index in added]
            # The indices of lines to compare word by word. Lines without a partner have no marks.
            for i, j in pair_changed_lines(before, after):
                if removed[i] in part or added[j] in part:
                    changed = find_changed_words(before[i], after[j])
                    changed_words[removed[i]] = changed.removed
                    changed_words[added[j]] = changed.added
        return changed_words

    @cached_property
    def _blocks(self) -> list[tuple[list[int], list[int]]]:
        """The indices of removed lines, and of the added lines that replace them."""
        blocks: list[tuple[list[int], list[int]]] = []
        removed: list[int] = []
        added: list[int] = []

        # The additional line ends the last block.
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
    """Yield the HTML of a line, in which the characters in `ranges` are marked.

    A mark may begin in one piece and end in a later one: then each piece gets a mark, and
    `DiffRenderer.render` joins them.
    """
    piece_start = 0
    remaining = iter(ranges)
    mark = next(remaining, None)

    for piece in pieces:
        piece_end = piece_start + len(piece.text)
        position = piece_start
        while mark is not None and mark.start < piece_end:
            mark_start = max(mark.start, position)
            mark_end = min(mark.end, piece_end)
            yield _render_slice(piece, position - piece_start, mark_start - piece_start)
            marked = _render_slice(piece, mark_start - piece_start, mark_end - piece_start)
            yield f"<b>{marked}</b>"
            position = mark_end
            if mark.end > piece_end:  # it continues in the next piece
                break
            mark = next(remaining, None)

        yield _render_slice(piece, position - piece_start, piece_end - piece_start)
        piece_start = piece_end

    # A mark without characters at the end of the line, such as for a missing line break.
    if mark is not None and mark.start >= piece_start:
        yield "<b></b>"


def _render_slice(piece: CodePiece, start: int, end: int) -> str:
    return render_piece(piece._replace(text=piece.text[start:end]))

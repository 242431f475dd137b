"""Attach the last exception of a cell to a request, and explain it.

Source: `docs/guide.md`, `docs/decisions.md` D99.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import linecache
import sysconfig
import textwrap
import tokenize
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from jp_nb.config.secrets import NOT_SHOWN, looks_like_secret
from jp_nb.text import one_line, plain
from jp_nb.tools import base as base_module
from jp_nb.tools.notebook_access import DataSection, frame_sections
from jp_nb.tools.secrets import NotebookSecrets
from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe

MAX_LINKS = 5
"""Errors that led to one another."""
MAX_IN_GROUPS = 30
"""Errors of one exception group, with those of the groups in it."""
MAX_FRAMES = 30
"""Calls of one error: the first and the last of them."""
MAX_NAMES = 24
"""Names whose values are told, those nearest to the error first."""
FRAMES_WITH_NAMES = 3
"""Calls of the user's own code, the last ones, whose names are told."""
MAX_FAILING_LINES = 20
"""Lines of the statement that failed."""
AROUND = 2
"""Lines above and below it."""

LabelOf = Callable[[str], "str | None"]
"""Returns what a person calls the cell whose code has that file name; None: it is no cell's."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """One call on the way to an error.

    Attributes:
        where: Such as `Cell In[3], line 2, in f`.
        source: Lines of the user's own code by number; none of a library's.
        failing: The numbers of those that failed.
    """

    where: str
    source: Mapping[int, str]
    failing: range = range(0)


@dataclass(frozen=True, slots=True)
class Link:
    """One of the errors that led to one another.

    Attributes:
        said: Its type and text.
        calls: The calls to where it was raised, the last one last.
        left_out: So many of them are left out.
        left_out_at: In front of that one.
        caused: True if it was named as the cause of the next one; else it was being handled.
    """

    said: str
    calls: tuple[FailedCall, ...]
    left_out: int = 0
    left_out_at: int = 0
    caused: bool = False


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A name in a line that failed, and its value where that line is."""

    name: str
    where: str
    value: object


@dataclass(frozen=True, slots=True)
class LastError:
    """An error that left a cell.

    Attributes:
        cell: What a person calls the cell; "" if it is not known.
        source: The cell's source.
        line: The number of its line that failed; None if that is not known.
        links: The errors that led to one another, the last one last.
        names: What the names in the failing lines are.
    """

    cell: str
    source: str
    line: int | None
    links: tuple[Link, ...]
    names: tuple[NamedValue, ...]


def read_error(error: BaseException, label_of: LabelOf, *, raw_cell: str | None) -> LastError:
    """Return `error` with its causes, the cell that failed, and the names in the lines that did.

    Args:
        error: As it left the cell.
        label_of: Names cells by the file names of their code.
        raw_cell: The cell's source as the person wrote it, if known.
    """
    reader = _ErrorReader(label_of)
    chain = list(_chain(error))
    links = tuple(reader.link(each, caused=caused) for each, caused in chain)
    label, source, line = reader.failing_cell(error, raw_cell)
    return LastError(label, source, line, links, tuple(reader.names(reversed(chain))))


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield what led to `error`, it last, and and if each is named as the cause of the next."""
    found, seen = [(error, False)], {id(error)}
    while len(found) < MAX_LINKS:
        last = found[-1][0]
        before = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if before is None or id(before) in seen:
            break
        seen.add(id(before))
        found.append((before, last.__cause__ is before))
    yield from reversed(found)


class _ErrorReader:
    """Reads the calls of errors; the user's own code is whatever is not installed."""

    def __init__(self, label_of: LabelOf) -> None:
        self._label_of = label_of
        paths = sysconfig.get_paths()
        kinds = ("purelib", "platlib", "platstdlib", "stdlib")  # packages lie below the library
        self._libraries = [Path(paths[kind]) for kind in kinds]
        self._libraries.append(Path(__file__).parents[2] / "jp_nb")

    # --- calls -------------------------------------------------------------------------------

    def link(self, error: BaseException, *, caused: bool) -> Link:
        frames = self._frames(error)
        left_out = max(len(frames) - MAX_FRAMES, 0)
        at = MAX_FRAMES // 3
        if left_out:
            del frames[at : at + left_out]
        calls = tuple(self._call(frame, summary) for frame, summary in frames)
        return Link(self._said(error), calls, left_out, at, caused)

    def _frames(self, error: BaseException) -> list[tuple[FrameType, traceback.FrameSummary]]:
        """Return the calls of `error`, without what runs cells above the first own one."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        summaries = traceback.extract_tb(error.__traceback__)
        both = list(zip(frames, summaries, strict=False))  # `sys.tracebacklimit` cuts the latter
        nowhere = len(both) if isinstance(error, SyntaxError) else 0  # nothing of theirs was run
        own = (n for n, (_, each) in enumerate(both) if self._is_own(each.filename))
        return both[next(own, nowhere) :]

    def _call(self, frame: FrameType, summary: traceback.FrameSummary) -> FailedCall:
        where = self._where(summary)
        if not self._is_own(summary.filename):
            return FailedCall(where, {})
        failing = _failing(summary)
        around = 0 if summary.name == "<module>" else AROUND
        first = max(failing.start - around, frame.f_code.co_firstlineno, 1)
        lines = linecache.getlines(summary.filename, frame.f_globals)
        last = min(failing.stop + around, len(lines) + 1, _last_line(frame.f_code) + 1)
        wanted = range(first, max(last, failing.start))
        return FailedCall(
            where, {n: lines[n - 1].rstrip() for n in wanted if n <= len(lines)}, failing
        )

    def _where(self, summary: traceback.FrameSummary) -> str:
        inside = "" if summary.name == "<module>" else f", in {summary.name}"
        return f"{self._short(summary.filename)}, line {summary.lineno}{inside}"

    def _said(self, error: BaseException) -> str:
        if isinstance(error, BaseExceptionGroup):
            return "\n".join(_group(error, self._said))
        said = "".join(traceback.format_exception_only(error)).rstrip()
        if isinstance(error, SyntaxError) and error.filename:
            said = said.replace(f'File "{error.filename}"', self._short(error.filename), 1)
        return said

    # --- files -------------------------------------------------------------------------------

    def _is_own(self, filename: str) -> bool:
        if self._label_of(filename) is not None:
            return True
        return not filename.startswith("<frozen ") and self._library_of(filename) is None

    def _library_of(self, filename: str) -> Path | None:
        path = Path(filename)
        return next((base for base in self._libraries if path.is_relative_to(base)), None)

    def _short(self, filename: str) -> str:
        """Return `filename` as a person knows it: a cell's name, or a path from somewhere known."""
        if (label := self._label_of(filename)) is not None:
            return label
        path, library = Path(filename), self._library_of(filename)
        for base, sign in ((library, ""), (Path.cwd(), ""), (_home(), "~/")):
            if base is not None and path.is_relative_to(base):
                return f"{sign}{path.relative_to(base).as_posix()}"
        return filename

    # --- the cell ----------------------------------------------------------------------------

    def failing_cell(
        self, error: BaseException, raw_cell: str | None
    ) -> tuple[str, str, int | None]:
        """Return the name and the source of the cell that failed, and the line that did."""
        for filename, line in self._places(error):
            if (label := self._label_of(filename)) is None:
                continue
            source = "".join(linecache.getlines(filename))
            written = None if raw_cell is None else _as_written(raw_cell, source, line)
            return label, *(written or (source, line))
        return "", raw_cell or "", None

    def _places(self, error: BaseException) -> Iterator[tuple[str, int | None]]:
        for _, summary in self._frames(error):
            yield summary.filename, summary.lineno
        if isinstance(error, SyntaxError) and error.filename:
            yield error.filename, error.lineno

    # --- names -------------------------------------------------------------------------------

    def names(self, chain: Iterator[tuple[BaseException, bool]]) -> Iterator[NamedValue]:
        """Yield what the names in the failing lines of the user's code are, the nearest first."""
        seen: set[tuple[str, int]] = set()
        for error, _ in chain:
            own = [each for each in self._frames(error) if self._is_own(each[1].filename)]
            for frame, summary in own[: -FRAMES_WITH_NAMES - 1 : -1]:
                for name, value in _values(frame, summary):
                    if (name, id(value)) in seen or len(seen) == MAX_NAMES:
                        continue
                    seen.add((name, id(value)))
                    yield NamedValue(name, self._where(summary), value)


def _group(
    error: BaseExceptionGroup[BaseException], said: Callable[[BaseException], str]
) -> Iterator[str]:
    """Yield the lines of a group: its own, and those of the first errors in it, at any depth.

    The traceback module goes through all of a group whatever it shows: the same few errors may be
    in there a thousand times over.
    """
    waiting: list[tuple[int, str, BaseException]] = [(0, "", error)]
    told = 0
    while waiting and told < MAX_IN_GROUPS:
        depth, mark, each = waiting.pop()
        told += 1
        parts = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        text = (
            base_module.error_summary(each) if isinstance(each, BaseExceptionGroup) else said(each)
        )
        yield f"{'  ' * depth}{mark}{text}"
        nested = [(depth + 1, f"[{n}] ", part) for n, part in enumerate(parts[:MAX_IN_GROUPS])]
        waiting += reversed(nested)
    if waiting:
        yield "  … (more errors of the group are omitted)"


def _failing(summary: traceback.FrameSummary) -> range:
    first = summary.lineno or 1
    last = max(summary.end_lineno or first, first)
    return range(first, min(last, first + MAX_FAILING_LINES - 1) + 1)


def _last_line(code: CodeType) -> int:
    return max((line for *_, line in code.co_lines() if line is not None), default=0)


def _as_written(raw_cell: str, source: str, line: int | None) -> tuple[str, int | None] | None:
    """Return `raw_cell` with the line in it that is `line` of `source`, which IPython made of it.

    None if that line is another one: then what was made tells more.
    """
    lines = raw_cell.splitlines()
    while lines and not lines[0].strip():  # IPython leaves them out, and counts from there
        del lines[0]
    written, made = "\n".join(lines), source.splitlines()
    if line is None or not 0 < line <= len(lines):
        return None if made else (written, None)
    same = not made or (line <= len(made) and lines[line - 1].strip() == made[line - 1].strip())
    return (written, line) if same else None


def _values(frame: FrameType, summary: traceback.FrameSummary) -> Iterator[tuple[str, object]]:
    lines = linecache.getlines(summary.filename, frame.f_globals)
    failing = _failing(summary)
    code = "".join(lines[failing.start - 1 : failing.stop - 1])
    known = frame.f_locals
    for name in names_in(code):
        if name in known or name in frame.f_globals:
            value = known[name] if name in known else frame.f_globals[name]
            if not isinstance(value, ModuleType) and value is not getattr(builtins, name, frame):
                yield name, value


def names_in(code: str) -> list[str]:
    """Return the variables in `code`, lines of a program, in their order; attributes are none."""
    code = textwrap.dedent(code)
    for whole in (code, f"{code.rstrip()}\n    pass"):  # the head of a block
        try:
            tree = ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return list(dict.fromkeys(node.id for node in found))
    return list(dict.fromkeys(_words(code)))


def _words(code: str) -> Iterator[str]:
    """Yield the names in `code` that is no whole statement."""
    before = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.ERRORTOKEN and token.string[0] in "'\"":
                return  # in a text that does not end, Python 3.11 goes on
            is_name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            if is_name and before != ".":
                yield token.string
            before = token.string
    except (tokenize.TokenError, SyntaxError):  # it ends in the middle
        return


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # who runs this has none
        return None


MAX_LINE = 400
"""Characters of a line of source."""
MAX_SAID = 2000
"""Characters of what an error says."""
MAX_VALUE = 800
"""Characters of the description of one value."""
SHORTEST_ROOM = 2000
"""Characters of the whole, however small it is configured to be."""

ASKED = "Explain this error and how to fix it."
_CAUSED = "The error above was the direct cause of the following error:"
_HANDLED = "During handling of the error above, another error occurred:"


def error_request(
    error: LastError, question: str = "", *, room: int, namespace: Mapping[str, Any]
) -> str:
    """Return the request: what is asked, the cell, the traceback, and the values of names in it.

    What is of the notebook is at most about `room` characters, is marked as data, and has no
    secrets in it, as far as those can be told by their names, their looks or the variables of
    `namespace` that hold them. Call it on the thread on which the values live.
    """
    return _Writer(error, namespace).request(question.strip() or ASKED, max(room, SHORTEST_ROOM))


class _Writer:
    """Writes what a model is told of `error`, without the secrets in `namespace`."""

    def __init__(self, error: LastError, namespace: Mapping[str, Any]) -> None:
        self._error = error
        known = {named.name: named.value for named in error.names}
        self._hide = NotebookSecrets({**namespace, **known})

    def request(self, asked: str, room: int) -> str:
        calls = DataSection("traceback, most recent call last", self._traceback(room * 4 // 10))
        return frame_sections(
            f"{asked}\n", [*self._cell(room * 3 // 10), calls, *self._names(room // 4)]
        )

    def _cleared(self, text: str, *, code: bool = False) -> str:
        """Return `text` without secrets and escapes; lines stay lines."""
        return self._hide(plain(text, limit=len(text)), code=code)

    # --- the cell ----------------------------------------------------------------------------

    def _cell(self, room: int) -> Iterator[DataSection]:
        error = self._error
        if not error.source.strip():
            return
        at = "" if error.line is None else f", which failed at line {error.line}"
        lines = self._code(dict(enumerate(error.source.rstrip("\n").split("\n"), start=1)))
        failing = range(0) if error.line is None else range(error.line, error.line + 1)
        text = "\n".join(_excerpt(lines, failing, room))
        yield DataSection(f"{error.cell or 'the cell'}{at}", text)

    def _code(self, lines: Mapping[int, str]) -> dict[int, str]:
        """Return numbered `lines` without secrets, also where one takes several lines."""
        seen = (plain(line, limit=len(line)).replace("\n", " ") for line in lines.values())
        cleared = self._hide("\n".join(seen), code=True).split("\n")
        return dict(zip(lines, cleared, strict=True))

    # --- the traceback -----------------------------------------------------------------------

    def _traceback(self, room: int) -> str:
        """Return the calls of all errors; the first ones are left out where there is no room."""
        links = self._error.links
        lines: list[str] = []
        for link in links:
            lines += self._link(link, room // len(links))
            if link is not links[-1]:
                lines += ["", _CAUSED if link.caused else _HANDLED, ""]
        return "\n".join(lines)

    def _link(self, link: Link, room: int) -> Iterator[str]:
        said = self._cleared(link.said[:MAX_SAID]) + ("…" if len(link.said) > MAX_SAID else "")
        said = said[: max(room, MAX_LINE)]
        calls = [list(self._call(call)) for call in link.calls]
        first = _first_with_room(
            [sum(map(len, call)) + len(call) for call in calls], room - len(said)
        )
        beyond = link.left_out if first > link.left_out_at else 0
        yield from _left_out(first + beyond, "call")
        for number, call in enumerate(calls[first:], start=first):
            if link.left_out and not beyond and number == link.left_out_at:
                yield from _left_out(link.left_out, "call")
            yield from call
        yield said

    def _call(self, call: FailedCall) -> Iterator[str]:
        yield one_line(call.where)
        lines = self._code(call.source) if call.source else {}
        yield from (f"  {line}" for line in _excerpt(lines, call.failing, len(lines) * MAX_LINE))

    # --- values ------------------------------------------------------------------------------

    def _names(self, room: int) -> Iterator[DataSection]:
        text = "\n".join(self._values(self._error.names, room))
        if text:
            yield DataSection("values of the names in the failed lines, nearest first", text)

    def _values(self, names: Sequence[NamedValue], room: int) -> Iterator[str]:
        """Yield a text for each of `names`, as many as have `room`."""
        for number, each in enumerate(names):
            said = (
                f"{each.name} ({one_line(each.where)}): {self._value(each, min(MAX_VALUE, room))}"
            )
            room -= len(said) + 1
            if room < 0:
                yield from _left_out(len(names) - number, "name")
                return
            yield said

    def _value(self, named: NamedValue, room: int) -> str:
        value = named.value
        if (hidden := self._hide.name(named.name, value)) is not None:
            return hidden
        if isinstance(value, str | bytes) and len(value) < MAX_VALUE and _is_key(value):
            return NOT_SHOWN
        budget = ValueBudget(chars=max(room, 1), images=0, privacy=self._hide)
        return self._cleared(describe(value, budget).text)


def _is_key(value: str | bytes) -> bool:
    """Return True if `value` is one word that may be a key."""
    text = value if isinstance(value, str) else value.decode(errors="replace")
    return len(text.split()) == 1 and looks_like_secret(text)


def _first_with_room(sizes: Sequence[int], room: int) -> int:
    """Return from which of texts of such `sizes` on there is `room`; the last one always has it."""
    first = len(sizes)
    while first and room >= sizes[first - 1]:
        first -= 1
        room -= sizes[first]
    return min(first, max(len(sizes) - 1, 0))


def _excerpt(lines: dict[int, str], failing: range, room: int) -> Iterator[str]:
    """Yield numbered `lines`, the failing ones marked: those around them that have `room`."""
    width = len(str(max(lines, default=0)))
    shown = {
        number: f"{'→' if number in failing else ' '} {number:>{width}} {line[:MAX_LINE]}"
        for number, line in lines.items()
    }
    near = sorted(shown, key=lambda number: (abs(number - (failing.start or 1)), number))
    kept: set[int] = set()
    for number in near:
        room -= len(shown[number]) + 1
        if room < 0 and kept:
            break
        kept.add(number)
    above = sum(number < min(kept, default=0) for number in shown)
    below = len(shown) - len(kept) - above
    yield from _left_out(above, "line")
    yield from (shown[number].rstrip() for number in sorted(kept))
    yield from _left_out(below, "line")


def _left_out(count: int, what: str) -> Iterator[str]:
    if count:
        yield f"… ({count} {what}{'' if count == 1 else 's'} omitted)"

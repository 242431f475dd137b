"""Read the last exception of a cell, and write the request that asks the model about it.

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
"""Limit of chained exceptions."""
MAX_IN_GROUPS = 30
"""Limit of the exceptions of a group, with nested groups."""
MAX_FRAMES = 30
"""Limit of the calls of one exception: the first and the last of them."""
MAX_NAMES = 24
"""Limit of the names with values, nearest to the exception first."""
FRAMES_WITH_NAMES = 3
"""Number of the last calls in user code whose names have values."""
MAX_FAILING_LINES = 20
"""Limit of the lines of the failed statement."""
AROUND = 2
"""Lines of context above and below it."""
MAX_LINE = 400
"""Limit of the characters of a source line."""
MAX_MESSAGE = 2000
"""Limit of the characters of an exception message."""
MAX_VALUE = 800
"""Limit of the characters of a value."""
MIN_CHARS = 2000
"""Lower bound of the configured limit of a request."""
DEFAULT_QUESTION = "Explain this error and how to fix it."
_CAUSED = "The error above was the direct cause of the following error:"
_HANDLED = "During handling of the error above, another error occurred:"

LabelOf = Callable[[str], "str | None"]
"""Returns the label of the cell whose code has this file name; None for other files."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call in a traceback.

    Attributes:
        location: For example `Cell In[3], line 2, in f`.
        source: Lines of user code by number; empty for a library.
        failing: The numbers of the failed lines.
    """

    location: str
    source: Mapping[int, str]
    failing: range = range(0)


@dataclass(frozen=True, slots=True)
class ChainedError:
    """An exception in a chain of causes.

    Attributes:
        omitted_at: Index of the call after the omitted ones.
        caused: True if it is the `__cause__` of the next one, False if its `__context__`.
    """

    message: str
    calls: tuple[FailedCall, ...]
    omitted: int = 0
    omitted_at: int = 0
    caused: bool = False


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A name in a failed line, and its value there."""

    name: str
    location: str
    value: object


@dataclass(frozen=True, slots=True)
class LastError:
    """An exception that left a cell.

    Attributes:
        cell: Label of the cell; "" if it is unknown.
        line: Number of the failed line; None if it is unknown.
        links: The chain of exceptions, most recent last.
    """

    cell: str
    source: str
    line: int | None
    links: tuple[ChainedError, ...]
    names: tuple[NamedValue, ...]


def read_error(error: BaseException, label_of: LabelOf, *, raw_cell: str | None) -> LastError:
    """Read an exception with its causes, the failed cell, and the values of names in failed lines.

    `label_of` returns the labels of cells. `raw_cell` is the source as the user wrote it, if known.
    """
    reader = _ErrorReader(label_of)
    chain = list(_chain(error))
    links = tuple(reader.link(each, caused=caused) for each, caused in chain)
    label, source, line = reader.failing_cell(error, raw_cell)
    return LastError(label, source, line, links, tuple(reader.names(reversed(chain))))


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield the chain of `error`, most recent last, with True for an explicit cause."""
    chain, seen = [(error, False)], {id(error)}
    while len(chain) < MAX_LINKS:
        last = chain[-1][0]
        before = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if before is None or id(before) in seen:
            break
        seen.add(id(before))
        chain.append((before, last.__cause__ is before))
    yield from reversed(chain)


class _ErrorReader:
    """Reads exceptions. Files outside of the installed libraries are user code."""

    def __init__(self, label_of: LabelOf) -> None:
        self._label_of = label_of
        paths = sysconfig.get_paths()
        kinds = ("purelib", "platlib", "platstdlib", "stdlib")  # packages are inside the library
        self._libraries = [Path(paths[kind]) for kind in kinds]
        self._libraries.append(Path(__file__).parents[2] / "jp_nb")

    def link(self, error: BaseException, *, caused: bool) -> ChainedError:
        frames = self._frames(error)
        omitted = max(len(frames) - MAX_FRAMES, 0)
        at = MAX_FRAMES // 3
        if omitted:
            del frames[at : at + omitted]
        calls = tuple(self._call(frame, summary) for frame, summary in frames)
        return ChainedError(self._format_error(error), calls, omitted, at, caused)

    def _frames(self, error: BaseException) -> list[tuple[FrameType, traceback.FrameSummary]]:
        """Return the calls of `error` from the first one in user code."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        summaries = traceback.extract_tb(error.__traceback__)
        # `sys.tracebacklimit` limits only the summaries.
        both = list(zip(frames, summaries, strict=False))
        default = len(both) if isinstance(error, SyntaxError) else 0  # user code did not run
        own = (n for n, (_, each) in enumerate(both) if self._is_own(each.filename))
        return both[next(own, default) :]

    def _call(self, frame: FrameType, summary: traceback.FrameSummary) -> FailedCall:
        location = self._location(summary)
        if not self._is_own(summary.filename):
            return FailedCall(location, {})
        failing = _failing(summary)
        around = 0 if summary.name == "<module>" else AROUND
        first = max(failing.start - around, frame.f_code.co_firstlineno, 1)
        lines = linecache.getlines(summary.filename, frame.f_globals)
        last = min(failing.stop + around, len(lines) + 1, _last_line(frame.f_code) + 1)
        wanted = range(first, max(last, failing.start))
        return FailedCall(
            location, {n: lines[n - 1].rstrip() for n in wanted if n <= len(lines)}, failing
        )

    def _location(self, summary: traceback.FrameSummary) -> str:
        inside = "" if summary.name == "<module>" else f", in {summary.name}"
        return f"{self._short_path(summary.filename)}, line {summary.lineno}{inside}"

    def _format_error(self, error: BaseException) -> str:
        if isinstance(error, BaseExceptionGroup):
            return "\n".join(_format_group(error, self._format_error))
        message = "".join(traceback.format_exception_only(error)).rstrip()
        if isinstance(error, SyntaxError) and error.filename:
            message = message.replace(
                f'File "{error.filename}"', self._short_path(error.filename), 1
            )
        return message

    def _is_own(self, filename: str) -> bool:
        if self._label_of(filename) is not None:
            return True
        return not filename.startswith("<frozen ") and self._library_of(filename) is None

    def _library_of(self, filename: str) -> Path | None:
        path = Path(filename)
        return next((base for base in self._libraries if path.is_relative_to(base)), None)

    def _short_path(self, filename: str) -> str:
        """Return the label of a cell, or a path relative to a known folder."""
        if (label := self._label_of(filename)) is not None:
            return label
        path, library = Path(filename), self._library_of(filename)
        for base, prefix in ((library, ""), (Path.cwd(), ""), (_home(), "~/")):
            if base is not None and path.is_relative_to(base):
                return f"{prefix}{path.relative_to(base).as_posix()}"
        return filename

    def failing_cell(
        self, error: BaseException, raw_cell: str | None
    ) -> tuple[str, str, int | None]:
        """Return label and source of the failed cell, and its failed line."""
        for filename, line in self._locations(error):
            if (label := self._label_of(filename)) is None:
                continue
            source = "".join(linecache.getlines(filename))
            written = None if raw_cell is None else _as_written(raw_cell, source, line)
            return label, *(written or (source, line))
        return "", raw_cell or "", None

    def _locations(self, error: BaseException) -> Iterator[tuple[str, int | None]]:
        for _, summary in self._frames(error):
            yield summary.filename, summary.lineno
        if isinstance(error, SyntaxError) and error.filename:
            yield error.filename, error.lineno

    def names(self, chain: Iterator[tuple[BaseException, bool]]) -> Iterator[NamedValue]:
        """Yield the values of names in failed lines of user code, the nearest first."""
        seen: set[tuple[str, int]] = set()
        for error, _ in chain:
            own = [each for each in self._frames(error) if self._is_own(each[1].filename)]
            for frame, summary in own[: -FRAMES_WITH_NAMES - 1 : -1]:
                for name, value in _values(frame, summary):
                    if (name, id(value)) in seen or len(seen) == MAX_NAMES:
                        continue
                    seen.add((name, id(value)))
                    yield NamedValue(name, self._location(summary), value)


def _format_group(
    error: BaseExceptionGroup[BaseException], format_error: Callable[[BaseException], str]
) -> Iterator[str]:
    """Yield lines for a group and its first exceptions, at any depth.

    The traceback module visits every exception of a group, which can be very many.
    """
    waiting: list[tuple[int, str, BaseException]] = [(0, "", error)]
    count = 0
    while waiting and count < MAX_IN_GROUPS:
        depth, mark, each = waiting.pop()
        count += 1
        parts = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        is_group = isinstance(each, BaseExceptionGroup)
        text = base_module.error_summary(each) if is_group else format_error(each)
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
    """Return `raw_cell` and its line for `line` of `source`, which IPython made of it.

    None if IPython changed that line: then `source` is more helpful.
    """
    lines = raw_cell.splitlines()
    while lines and not lines[0].strip():  # IPython removes these
        del lines[0]
    written, transformed = "\n".join(lines), source.splitlines()
    if line is None or not 0 < line <= len(lines):
        return None if transformed else (written, None)
    same = not transformed or (
        line <= len(transformed) and lines[line - 1].strip() == transformed[line - 1].strip()
    )
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
    """Return the variables in lines of code, in order, without attributes."""
    code = textwrap.dedent(code)
    for whole in (code, f"{code.rstrip()}\n    pass"):  # the first line of a block
        try:
            tree = ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return list(dict.fromkeys(node.id for node in found))
    return list(dict.fromkeys(_token_names(code)))


def _token_names(code: str) -> Iterator[str]:
    """Yield the names in an incomplete statement."""
    before = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.ERRORTOKEN and token.string[0] in "'\"":
                return  # Python 3.11 continues inside an unclosed string
            is_name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            if is_name and before != ".":
                yield token.string
            before = token.string
    except (tokenize.TokenError, SyntaxError):  # the statement is incomplete
        return


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # the user has no home
        return None


def error_request(
    error: LastError, question: str = "", *, room: int, namespace: Mapping[str, Any]
) -> str:
    """Return a request with the question, the cell, the traceback, and the values of names.

    Content of the notebook has at most about `room` characters, and is marked as data. Secrets are
    hidden if their name, their form, or a variable of `namespace` identifies them. Call it on the
    cell's thread.
    """
    return _RequestWriter(error, namespace).request(
        question.strip() or DEFAULT_QUESTION, max(room, MIN_CHARS)
    )


class _RequestWriter:
    """Writes the request about `error`, without the secrets in `namespace`."""

    def __init__(self, error: LastError, namespace: Mapping[str, Any]) -> None:
        self._error = error
        known = {named.name: named.value for named in error.names}
        self._hide = NotebookSecrets({**namespace, **known})

    def request(self, question: str, room: int) -> str:
        calls = DataSection("traceback, most recent call last", self._traceback(room * 4 // 10))
        return frame_sections(
            f"{question}\n", [*self._cell(room * 3 // 10), calls, *self._names(room // 4)]
        )

    def _cleared(self, text: str, *, code: bool = False) -> str:
        """Return `text` without secrets and control characters, except line breaks."""
        return self._hide(plain(text, limit=len(text)), code=code)

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
        """Return numbered `lines` without secrets, also those that span lines."""
        plain_lines = (plain(line, limit=len(line)).replace("\n", " ") for line in lines.values())
        cleared = self._hide("\n".join(plain_lines), code=True).split("\n")
        return dict(zip(lines, cleared, strict=True))

    def _traceback(self, room: int) -> str:
        """Return the calls of all exceptions, without the first ones if there is no room."""
        links = self._error.links
        lines: list[str] = []
        for link in links:
            lines += self._link(link, room // len(links))
            if link is not links[-1]:
                lines += ["", _CAUSED if link.caused else _HANDLED, ""]
        return "\n".join(lines)

    def _link(self, link: ChainedError, room: int) -> Iterator[str]:
        message = self._cleared(link.message[:MAX_MESSAGE]) + (
            "…" if len(link.message) > MAX_MESSAGE else ""
        )
        message = message[: max(room, MAX_LINE)]
        calls = [list(self._call(call)) for call in link.calls]
        first = _first_with_room(
            [sum(map(len, call)) + len(call) for call in calls], room - len(message)
        )
        beyond = link.omitted if first > link.omitted_at else 0
        yield from _format_omitted(first + beyond, "call")
        for number, call in enumerate(calls[first:], start=first):
            if link.omitted and not beyond and number == link.omitted_at:
                yield from _format_omitted(link.omitted, "call")
            yield from call
        yield message

    def _call(self, call: FailedCall) -> Iterator[str]:
        yield one_line(call.location)
        lines = self._code(call.source) if call.source else {}
        yield from (f"  {line}" for line in _excerpt(lines, call.failing, len(lines) * MAX_LINE))

    def _names(self, room: int) -> Iterator[DataSection]:
        text = "\n".join(self._values(self._error.names, room))
        if text:
            yield DataSection("values of the names in the failed lines, nearest first", text)

    def _values(self, names: Sequence[NamedValue], room: int) -> Iterator[str]:
        """Yield a text for each of `names`, as long as there is `room`."""
        for number, each in enumerate(names):
            value = self._value(each, min(MAX_VALUE, room))
            text = f"{each.name} ({one_line(each.location)}): {value}"
            room -= len(text) + 1
            if room < 0:
                yield from _format_omitted(len(names) - number, "name")
                return
            yield text

    def _value(self, named: NamedValue, room: int) -> str:
        value = named.value
        if (hidden := self._hide.name(named.name, value)) is not None:
            return hidden
        if isinstance(value, str | bytes) and len(value) < MAX_VALUE and _is_key(value):
            return NOT_SHOWN
        budget = ValueBudget(chars=max(room, 1), images=0, privacy=self._hide)
        return self._cleared(describe(value, budget).text)


def _is_key(value: str | bytes) -> bool:
    """Return True if `value` is one word that looks like a key."""
    text = value if isinstance(value, str) else value.decode(errors="replace")
    return len(text.split()) == 1 and looks_like_secret(text)


def _first_with_room(sizes: Sequence[int], room: int) -> int:
    """Return the index from which on texts of these `sizes` fit `room`, at most the last one."""
    first = len(sizes)
    while first and room >= sizes[first - 1]:
        first -= 1
        room -= sizes[first]
    return min(first, max(len(sizes) - 1, 0))


def _excerpt(lines: dict[int, str], failing: range, room: int) -> Iterator[str]:
    """Yield numbered `lines` with marks on failed ones: the nearest ones that fit `room`."""
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
    yield from _format_omitted(above, "line")
    yield from (shown[number].rstrip() for number in sorted(kept))
    yield from _format_omitted(below, "line")


def _format_omitted(count: int, what: str) -> Iterator[str]:
    if count:
        yield f"… ({count} {what}{'' if count == 1 else 's'} omitted)"

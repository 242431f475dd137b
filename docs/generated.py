"""Generate parts of the reference pages from docstrings, settings, and help texts.

    python docs/generated.py            update the pages in `docs/reference/`
    python docs/generated.py --check    exit with status 1 if a page is outdated

A generated part begins with `<!-- generated: NAME -->` and ends with
`<!-- end of the generated part -->`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import jp_nb
from jp_nb import cli
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.setting_paths import format_path
from jp_nb.config.tree.base import ShortTable
from jp_nb.config.tree.ignored_settings import IGNORED_SETTINGS
from jp_nb.notebook.ask_options import ASK_OPTIONS, ASK_USAGE
from jp_nb.notebook.magic_help import list_groups

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES: Final = Path(__file__).parent / "reference"
END: Final = "<!-- end of the generated part -->"
_PART: Final = re.compile(rf"^<!-- generated: (\w+) -->$.*?^{END}$", re.M | re.S)


def fill(page: str) -> str:
    """Return `page` with every generated part updated."""
    return _PART.sub(
        lambda part: f"<!-- generated: {part[1]} -->\n\n{PARTS[part[1]]()}\n\n{END}", page
    )


def outdated() -> Iterator[tuple[Path, str]]:
    """Yield the path and the new text of each outdated page."""
    for path in sorted(PAGES.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if (current := fill(page)) != page:
            yield path, current


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# --- magics ----------------------------------------------------------------------------------


def magics() -> str:
    """Return tables of the options of `%%jp` and the subcommands of `%jp`."""
    asking = [(_code(option.spellings), option.help) for option in ASK_OPTIONS]
    options = _table(("option of `%%jp`", "effect"), asking)
    groups = [
        f"## {title}\n\n"
        + _table(("`%jp …`", "effect"), [(_code(how), does) for how, does in rows])
        for title, rows in list_groups()
    ]
    return "\n\n".join([f"```text\n{ASK_USAGE}\n```\n\n{options}", *groups])


# --- the command line ------------------------------------------------------------------------


def command_line() -> str:
    """Return a table of the arguments of each `jp-nb` command."""
    actions = cli._make_parser()._actions
    [commands] = [x for x in actions if isinstance(x, argparse._SubParsersAction)]
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return "\n\n".join(_command(n, helps[n], p) for n, p in commands.choices.items())


def _command(name: str, does: str, parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    taken = [x for x in parser._actions if not isinstance(x, argparse._HelpAction)]
    rows = [(_code(_argument(action)), action.help or "") for action in taken]
    parts = [f"## `jp-nb {name}`", f"{does[:1].upper()}{does[1:]}.", f"```text\n{usage}\n```"]
    return "\n\n".join([*parts, _table(("argument", "meaning"), rows)] if rows else parts)


def _argument(action: argparse.Action) -> str:
    return ", ".join(action.option_strings) or str(action.metavar or action.dest)


# --- docstrings ------------------------------------------------------------------------------


class Docstring(NamedTuple):
    """A Google-style docstring.

    Attributes:
        summary: The first paragraph, in one line.
        text: Everything outside of sections, as Markdown.
        sections: The text of each section by its title, without the indentation.
    """

    summary: str
    text: str
    sections: Mapping[str, str]

    @classmethod
    def of(cls, docstring: str | None) -> Docstring:
        """Parse the docstring of an object."""
        title, found = "", {"": [""]}
        for line in inspect.cleandoc(docstring or "").splitlines():
            if heading := _SECTION.match(line):
                title = heading[1]
                found[title] = []
                continue
            if title and line and not line.startswith(" "):
                title = ""
            found[title].append(line)
        texts = {name: textwrap.dedent("\n".join(x)).strip() for name, x in found.items()}
        text = _with_code_blocks(texts.pop(""))
        return cls(" ".join(text.partition("\n\n")[0].split()), text, texts)

    def items(self, title: str) -> dict[str, str]:
        """Return the entries of a section such as `Args`, each text in one line."""
        found: dict[str, str] = {}
        for line in self.sections.get(title, "").splitlines():
            name, _, text = line.partition(": ")
            if line.startswith(" "):
                found[[*found][-1]] += f" {line.strip()}"
            elif line:
                found[name] = text
        return found

    def markdown(self) -> str:
        """Return the docstring as Markdown."""
        parts = [self.text]
        if example := self.sections.get("Example"):
            parts.append(f"```pycon\n{example}\n```")
        for title, words in (("Args", "Arguments"), ("Attributes", "Attributes")):
            parts.append(_list(words, self.items(title)))
        if returns := self.sections.get("Returns"):
            parts.append(f"**Returns**: {' '.join(returns.split())}")
        parts.append(_list("Raises", self.items("Raises")))
        return "\n\n".join(filter(None, parts))


_SECTION: Final = re.compile(r"^(Args|Attributes|Example|Raises|Returns):$")


def _with_code_blocks(text: str) -> str:
    """Return `text` with fences around indented code."""
    return re.sub(
        r"(?m)^ {4}.*$(?:\n+^ {4}.*$)*",
        lambda code: f"```python\n{textwrap.dedent(code[0])}\n```",
        text,
    )


def _list(title: str, items: Mapping[str, str]) -> str:
    if not items:
        return ""
    return "\n".join([f"**{title}**", "", *(f"- `{name}`: {text}" for name, text in items.items())])


# --- Python ----------------------------------------------------------------------------------


def python() -> str:
    """Return a section for each public name of `jp_nb`, from its signature and docstring."""
    parts = [_described(f"jp.{name}", getattr(jp_nb, name)) for name in _public_names()]
    return "\n\n".join(parts)


def _public_names() -> list[str]:
    """Return the public names: functions, then classes, then errors."""

    def rank(name: str) -> tuple[int, str]:
        value = getattr(jp_nb, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        return (2 if is_error else int(isinstance(value, type))), name.lower()

    return sorted(set(jp_nb.__all__) - {"last", "Outcome"}, key=rank)


def _described(name: str, value: Any) -> str:
    title, doc = f"## `{name}`", Docstring.of(value.__doc__).markdown()
    if isinstance(value, type) and issubclass(value, Exception):
        return f"{title}\n\n{doc}"
    parts = [title]
    if name not in NOT_CONSTRUCTED:
        parts.append(f"```python\n{_signature(name, value)}\n```")
    parts.append(doc)
    return "\n\n".join([*parts, *(_members(value) if isinstance(value, type) else ())])


NOT_CONSTRUCTED: Final = frozenset({"jp.CallOutcome", "jp.Conversation", "jp.Turn"})
"""Classes whose instances only `jp_nb` creates."""


def _signature(name: str, value: Any) -> str:
    """Return a call of `value` with its parameters, on several lines if it is long."""
    parameters = [*_parameters(value)]
    line = f"{name}({', '.join(parameters)})"
    if len(line) <= MAX_LINE_CHARS:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), ")"])


MAX_LINE_CHARS: Final = 88


def _parameters(value: Any) -> Iterator[str]:
    if isinstance(value, type) and issubclass(value, BaseModel):
        yield from _fields(value)
        return
    before = None
    for each in inspect.signature(value).parameters.values():
        if before is each.POSITIONAL_ONLY and each.kind is not before:
            yield "/"
        if each.kind is each.KEYWORD_ONLY and before is not each.KEYWORD_ONLY:
            yield "*"
        before = each.kind
        yield _parameter(each)


def _parameter(each: inspect.Parameter) -> str:
    if each.default is each.empty:
        return str(each.replace(annotation=each.empty))
    return f"{each.name}={_shown_default(each.default)}"


def _shown_default(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value) if value is None or isinstance(value, (bool, int, float, tuple)) else "..."


def _fields(kind: type[BaseModel]) -> Iterator[str]:
    """Yield the arguments of a pydantic model.

    Its signature changes when pydantic completes the model, so it is not used.
    """
    own: list[inspect.Parameter] = []
    if "__init__" in vars(kind):
        _, *own, _ = inspect.signature(vars(kind)["__init__"]).parameters.values()
    by_position = {each.name for each in own}
    yield from (f"*{x.name}" if x.kind is x.VAR_POSITIONAL else x.name for x in own)
    if not any(each.kind is each.VAR_POSITIONAL for each in own):
        yield "*"
    for name, field in kind.model_fields.items():
        if name in by_position or name == "type":
            continue
        default = "" if field.is_required() else f"={_shown_default(field.default)}"
        yield f"{field.alias or name}{default}"


def _members(kind: type) -> Iterator[str]:
    """Yield the public methods and properties of a class: a list, then sections."""
    short: dict[str, str] = {}
    sections: list[str] = []
    for name in _public_members(kind):
        doc, call = Docstring.of(vars(kind)[name].__doc__), _call_of(kind, name)
        if doc.markdown() == doc.summary:
            short[call] = doc.summary
        else:
            code = f"```python\n{kind.__name__}.{call}\n```"
            sections.append(f"### `{kind.__name__}.{name}`\n\n{code}\n\n{doc.markdown()}")
    if short:
        yield _list("Methods and properties", short)
    yield from sections


def _public_members(kind: type) -> list[str]:
    return [
        name
        for name, value in vars(kind).items()
        if not name.startswith(("_", "model_"))
        and (inspect.isroutine(value) or isinstance(value, (property, cached_property)))
    ]


def _call_of(kind: type, name: str) -> str:
    member = getattr(kind, name)
    if not callable(member):
        return name
    parameters = [*_parameters(member)]
    if inspect.isfunction(member):
        del parameters[0]  # `self`
    return f"{name}({', '.join(parameters)})"


# --- settings --------------------------------------------------------------------------------


def settings() -> str:
    """Return tables of all settings, one for each table of the configuration."""
    return "\n\n".join(_part(node, keys) for node, keys in _tables(ROOT, (), ()))


def passed_over() -> str:
    """Return a list of the settings of JP that `jp_nb` ignores."""
    return "\n".join(f"- {_code(path)}" for path in sorted(IGNORED_SETTINGS))


def setting_paths() -> list[str]:
    """Return the paths in the tables of `settings`."""
    return [path for node, keys in _tables(ROOT, (), ()) for path, *_ in _rows(node, keys)]


def _tables(
    node: SchemaNode, keys: tuple[str, ...], above: tuple[Any, ...]
) -> Iterator[tuple[SchemaNode, tuple[str, ...]]]:
    """Yield each table of the configuration with its path, outer tables first.

    A recursive table is listed only once.
    """
    if node.kind in ("map", "list"):
        yield from _tables(node.item, (*keys, "*"), above)
    if node.table is None or node.table in above:
        return
    yield node, keys
    for name, child in node.fields.items():
        yield from _tables(child, (*keys, name), (*above, node.table))


def _part(node: SchemaNode, keys: tuple[str, ...]) -> str:
    assert node.table is not None
    about = Docstring.of(node.table.__doc__).text
    parts = [f"## `{format_path(keys)}`", about] if keys else [about]
    if rows := list(_rows(node, keys)):
        shown = [(_code(path), text, takes, default) for path, text, takes, default in rows]
        parts.append(_table(("setting", "meaning", "values", "default"), shown))
    return "\n\n".join(parts)


def _rows(node: SchemaNode, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str, str]]:
    """Yield path, meaning, values, and default of the settings in a table."""
    assert node.table is not None
    meanings: dict[str, str] = {}
    for kind in reversed(node.table.__mro__):
        meanings |= Docstring.of(kind.__doc__).items("Attributes") | _field_docs(kind)
    for name, child in node.fields.items():
        has_part = child.table is not None and child.table is not node.table
        if has_part and not child.takes_any_text and not child.choices and child.kind == "table":
            continue
        default = _default(node.table.model_fields[name])
        yield format_path((*keys, name)), meanings.get(name, ""), _takes(child), default


def _field_docs(kind: type) -> dict[str, str]:
    """Return the text below each field in the source of a table, in one line."""
    if not issubclass(kind, BaseModel) or kind is BaseModel:
        return {}
    [definition] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for pair in pairwise(definition.body):
        match pair:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _takes(node: SchemaNode) -> str:
    match node.kind:
        case "list":
            return f"list: {_takes(node.item)}"
        case "map":
            return f"map: {_takes(node.item)}"
        case "json":
            return "any JSON"
    words = [_code(word) for word in node.choices]
    others = [_NAMES[form] for form in _plain_forms(node.annotation)]
    if node.table is not None:
        others.append("table or short form" if issubclass(node.table, ShortTable) else "table")
    return ", ".join([*words, *dict.fromkeys(others)]) + _bounds(node)


_NAMES: Final[dict[Any, str]] = {str: "text", int: "whole number", float: "number"}


def _plain_forms(annotation: Any) -> Iterator[Any]:
    """Yield the types of text and numbers in an annotation, except inside of lists and tables."""
    if annotation in _NAMES:
        yield annotation
    elif get_origin(annotation) not in (list, dict, tuple, Literal):
        for inner in get_args(annotation):
            yield from _plain_forms(inner)


def _bounds(node: SchemaNode) -> str:
    found: list[str] = []
    for item in _metadata(node.annotation):
        match item:
            case Ge(ge=bound):
                found.append(f"at least {bound}")
            case Gt(gt=bound):
                found.append(f"above {bound}")
            case Le(le=bound):
                found.append(f"at most {bound}")
    return f" ({', '.join(found)})" if found else ""


def _metadata(annotation: Any) -> Iterator[Any]:
    for item in getattr(annotation, "__metadata__", ()):
        yield from item.metadata if isinstance(item, FieldInfo) else [item]
    for inner in getattr(annotation, "__args__", ()):
        yield from _metadata(inner)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if value in (None, []) or isinstance(value, (dict, BaseModel)):
        return ""
    if isinstance(value, list):
        return "built-in list"
    return _code(str(value).lower() if isinstance(value, bool) else str(value))


PARTS: Final[dict[str, Callable[[], str]]] = {
    "magics": magics,
    "command_line": command_line,
    "python": python,
    "settings": settings,
    "left_out": passed_over,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register IPython's lexer for `python`, because notebooks contain magics."""
    from ipython_pygments_lexers import IPython3Lexer

    app.add_lexer("python", IPython3Lexer)
    return {"parallel_read_safe": True}


def main() -> int:
    """Update the outdated pages, or with `--check` list them."""
    check = "--check" in sys.argv[1:]
    found = list(outdated())
    for path, page in found:
        print(f"{path.name} is outdated" if check else f"{path.name} is updated")
        if not check:
            path.write_text(page, encoding="utf-8")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())

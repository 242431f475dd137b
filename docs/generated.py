"""Write the generated parts of the reference pages, from the tables that the program itself reads.

    python docs/generated.py            rewrite the pages in `docs/reference/`
    python docs/generated.py --check    exit with 1 if one of them is not current

A part is between `<!-- generated: NAME -->` and `<!-- end of the generated part -->`.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import jp_nb
from jp_nb import cli
from jp_nb.config.paths import format_path
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.tree.left_out import LEFT_OUT
from jp_nb.config.tree.node import ShortTable
from jp_nb.notebook.subcommands import ASK_OPTIONS, ASK_USAGE, subcommand_groups

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES: Final = Path(__file__).parent / "reference"
END: Final = "<!-- end of the generated part -->"
_PART: Final = re.compile(rf"^<!-- generated: (\w+) -->$.*?^{END}$", re.M | re.S)


def fill(page: str) -> str:
    """Return `page` with every generated part replaced by its current text."""
    return _PART.sub(
        lambda part: f"<!-- generated: {part[1]} -->\n\n{PARTS[part[1]]()}\n\n{END}", page
    )


def outdated() -> Iterator[tuple[Path, str]]:
    """Yield each page whose generated parts are not current, with its new text."""
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
    """What `%%jp` and `%jp` take."""
    asking = [(_code(option.spellings), option.help) for option in ASK_OPTIONS]
    options = _table(("option of `%%jp`", "what it does"), asking)
    groups = [
        f"## {title}\n\n"
        + _table(("`%jp …`", "what it does"), [(_code(how), does) for how, does in rows])
        for title, rows in subcommand_groups()
    ]
    return "\n\n".join([f"```text\n{ASK_USAGE}\n```\n\n{options}", *groups])


# --- the command line ------------------------------------------------------------------------


def command_line() -> str:
    """What `jp-nb` takes, one table a command."""
    [commands] = [x for x in cli._parser()._actions if isinstance(x, argparse._SubParsersAction)]
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return "\n\n".join(_command(n, helps[n], p) for n, p in commands.choices.items())


def _command(name: str, does: str, parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    taken = [x for x in parser._actions if not isinstance(x, argparse._HelpAction)]
    rows = [(_code(_argument(action)), action.help or "") for action in taken]
    table = _table(("argument", "meaning"), rows) if rows else ""
    return f"## `jp-nb {name}`\n\n{does[:1].upper()}{does[1:]}.\n\n```text\n{usage}\n```\n\n{table}"


def _argument(action: argparse.Action) -> str:
    return ", ".join(action.option_strings) or str(action.metavar or action.dest)


# --- Python ----------------------------------------------------------------------------------


def python() -> str:
    """Describe each public name of `jp_nb`, with its signature and its docstring."""
    parts = [_described(f"jp.{name}", getattr(jp_nb, name)) for name in _public_names()]
    return "\n\n".join(parts)


def _public_names() -> list[str]:
    """Return the public names, functions first, errors last."""

    def rank(name: str) -> tuple[int, str]:
        value = getattr(jp_nb, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        return (2 if is_error else int(isinstance(value, type))), name.lower()

    return sorted(set(jp_nb.__all__) - {"last", "Outcome"}, key=rank)


def _described(name: str, value: Any) -> str:
    is_error = isinstance(value, type) and issubclass(value, Exception)
    title = f"## `{name}`"
    signature = "" if is_error else _signature(name.removeprefix("jp."), value)
    doc = (inspect.getdoc(value) or "").strip()
    members = [] if is_error or not isinstance(value, type) else list(_members(value))
    text = "\n\n".join(filter(None, (signature, doc)))
    listed = "\n\n" + "\n".join(members) if members else ""
    return f"{title}\n\n```text\n{text}\n```{listed}"


def _signature(name: str, value: Any) -> str:
    if isinstance(value, type) and issubclass(value, BaseModel):
        # The signature of such a class differs before and after it is first used.
        given = (key if x.is_required() else f"{key}=…" for key, x in value.model_fields.items())
        return f"{name}({', '.join(given)})"
    try:
        signature = f"{name}{inspect.signature(value)}"
    except (TypeError, ValueError):
        return ""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", re.sub(r" at 0x[0-9a-f]+", "", signature))


def _members(kind: type) -> Iterator[str]:
    """Yield a line for each public method and property that `kind` itself defines."""
    for name, value in vars(kind).items():
        if name.startswith(("_", "model_")):
            continue
        value = getattr(value, "__func__", value)
        doc = inspect.getdoc(value) if inspect.isroutine(value) or _is_property(value) else None
        if doc:
            yield f"- `{name}`: {doc.partition(chr(10) * 2)[0].replace(chr(10), ' ')}"


def _is_property(value: object) -> bool:
    return isinstance(value, (property, cached_property))


# --- settings --------------------------------------------------------------------------------


def settings() -> str:
    """Every path of the configuration, one table for each part of the tree."""
    return "\n\n".join(_part(node, keys) for node, keys in _tables(ROOT, (), ()))


def passed_over() -> str:
    """The paths that mean something to JP and nothing here, or nothing yet."""
    return "\n".join(f"- {_code(path)}" for path in sorted(LEFT_OUT))


def setting_paths() -> list[str]:
    """The paths that `settings` lists."""
    return [path for node, keys in _tables(ROOT, (), ()) for path, *_ in _rows(node, keys)]


def _tables(
    node: SchemaNode, keys: tuple[str, ...], above: tuple[Any, ...]
) -> Iterator[tuple[SchemaNode, tuple[str, ...]]]:
    """The tables of the tree, each before those in it; one that may hold itself only once."""
    if node.kind in ("map", "list"):
        yield from _tables(node.item, (*keys, "*"), above)
    if node.table is None or node.table in above:
        return
    yield node, keys
    for name, child in node.fields.items():
        yield from _tables(child, (*keys, name), (*above, node.table))


def _part(node: SchemaNode, keys: tuple[str, ...]) -> str:
    assert node.table is not None
    rows = list(_rows(node, keys))
    about = inspect.getdoc(node.table) or ""
    title = f"## `{format_path(keys)}`\n\n" if keys else ""
    if not rows:
        return f"{title}{about}"
    shown = [(_code(path), takes, _code(default)) for path, takes, default in rows]
    return f"{title}{about}\n\n{_table(('setting', 'takes', 'default'), shown)}"


def _rows(node: SchemaNode, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Path, accepted values and default of what stands in a table itself."""
    assert node.table is not None
    for name, child in node.fields.items():
        has_part = child.table is not None and child.table is not node.table
        if has_part and not child.takes_any_text and not child.words and child.kind == "table":
            continue
        yield format_path((*keys, name)), _takes(child), _default(node.table.model_fields[name])


def _takes(node: SchemaNode) -> str:
    match node.kind:
        case "list":
            return f"list: {_takes(node.item)}"
        case "map":
            return f"table by name: {_takes(node.item)}"
        case "json":
            return "any JSON"
    words = [_code(word) for word in node.words]
    others = [_NAMES[form] for form in _plain_forms(node.annotation)]
    if node.table is not None:
        others.append("table, or short" if issubclass(node.table, ShortTable) else "table")
    return ", ".join([*words, *dict.fromkeys(others)]) + _bounds(node)


_NAMES: Final[dict[Any, str]] = {str: "text", int: "whole number", float: "number"}


def _plain_forms(annotation: Any) -> Iterator[Any]:
    """The texts and numbers among what an annotation allows, not those within lists and tables."""
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
        return f"{len(value)} of the program's"
    return str(value).lower() if isinstance(value, bool) else str(value)


PARTS: Final[dict[str, Callable[[], str]]] = {
    "magics": magics,
    "command_line": command_line,
    "python": python,
    "settings": settings,
    "left_out": passed_over,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx read the tutorials' cells as IPython does."""
    from ipython_pygments_lexers import IPython3Lexer

    app.add_lexer("python", IPython3Lexer)  # notebooks name `python`, and hold magics
    return {"parallel_read_safe": True}


def main() -> int:
    """Rewrite the pages that are not current; with `--check` only name them."""
    check = "--check" in sys.argv[1:]
    found = list(outdated())
    for path, page in found:
        print(f"{path.name} is not current" if check else f"{path.name} is rewritten")
        if not check:
            path.write_text(page, encoding="utf-8")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())

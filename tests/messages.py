"""Print the sentences of the program, to be read from top to bottom.

Users and models read these sentences. A reviewer compares the lists before and after a change:

    python -m tests.messages >after.txt
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jp_nb"
WORD = re.compile(r"\b[A-Za-z][a-z']*\b")
CODE = re.compile(
    r"=>|;\n|</|[{}]\n|\bvar\(--|^\s*[.#\[][\w-]+.*\{|\(\?|\\[bsdw]|^\w+/\w+$", re.MULTILINE
)
COMMENT = re.compile(r"^\s*(//|/?\*).*$", re.MULTILINE)
SCRIPT_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`")


def render_messages() -> str:
    """Return each module with its sentences, in the order of the source.

    A sentence is a string of at least three words that is no docstring, or of two that begin with
    a capital. A part that the program fills in appears as its expression in braces.
    """
    parts = []
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js")]):
        find = find_messages if path.suffix == ".py" else find_script_messages
        messages = list(dict.fromkeys(find(path.read_text(encoding="utf-8"))))
        if messages:
            lines = "".join(f"- {text}\n" for text in messages)
            parts.append(f"{path.relative_to(ROOT).as_posix()}\n{lines}")
    return "\n".join(parts)


def find_messages(source: str) -> Iterator[str]:
    """Yield the sentences in the source of a module."""
    tree = ast.parse(source)
    docstrings = {id(node) for node in _docstrings(tree)}
    visitor = _Messages(docstrings)
    visitor.visit(tree)
    yield from visitor.found


def find_script_messages(script: str) -> Iterator[str]:
    """Yield the sentences in a script of a page."""
    for quoted, template in SCRIPT_STRING.findall(COMMENT.sub("", script)):
        text = quoted or template
        if _is_sentence(text):
            yield _on_one_line(text)


class _Messages(ast.NodeVisitor):
    def __init__(self, left_out: set[int]) -> None:
        self.found: list[str] = []
        self._left_out = left_out

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and id(node) not in self._left_out:
            self._add(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._add("".join(map(_part, node.values)))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value.value)

    def _add(self, text: str) -> None:
        if _is_sentence(text):
            self.found.append(_on_one_line(text))


def _is_sentence(text: str) -> bool:
    words = len(WORD.findall(text))
    if " " not in text.strip() or CODE.search(text):
        return False
    return words >= 3 or (words == 2 and text.strip()[:1].isupper())


def _on_one_line(text: str) -> str:
    return text.strip("\r\n").replace("\r", "").replace("\n", "⏎")


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield strings that stand alone: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print(render_messages(), end="")

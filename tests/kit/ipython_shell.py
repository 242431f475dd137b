"""IPython's own shell in this process: cells run as in a notebook, without a kernel."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jp_nb.notebook import extension
from jp_nb.notebook.completion.completion_names import Names
from jp_nb.notebook.completion.magic_completion import complete_cell
from jp_nb.session import get_session, set_current
from jp_nb.session.session import Session


@dataclass(frozen=True, slots=True)
class _RanCell:
    """A cell that has run.

    Attributes:
        printed: Text on stdout and stderr.
        shown: The plain text of its displays.
        markdown: The Markdown of its displays.
        error: The exception that the cell raised, or None.
    """

    printed: str
    shown: str
    markdown: str
    error: BaseException | None


class IPythonShell:
    """A shell that has loaded the extension, in the current folder."""

    def __init__(self) -> None:
        _forget_errors()
        config = Config()
        config.HistoryManager.enabled = False
        module: Any = ModuleType("notebook_of_a_test")
        ipython: Any = InteractiveShell  # it has no annotations
        publisher: Any = CapturingDisplayPublisher
        self.shell = ipython(config=config, user_module=module)
        self.shell.display_pub = publisher()
        self.shell.Completer.use_jedi = False  # it is slow, and not ours

    @property
    def session(self) -> Session:
        session = get_session()
        assert session is not None
        return session

    def load(self) -> str:
        """Load the extension; return what it printed."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            extension.load(self.shell, version="0")
        return printed.getvalue()

    def unload(self) -> None:
        extension.unload(self.shell)

    def run(self, code: str) -> _RanCell:
        """Run a cell to its end."""
        self.shell.display_pub.outputs.clear()
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            result = self.shell.run_cell(code, store_history=True)
        bundles = [output["data"] for output in self.shell.display_pub.outputs]
        return _RanCell(
            printed.getvalue(),
            "\n".join(bundle.get("text/plain", "") for bundle in bundles),
            "\n".join(bundle.get("text/markdown", "") for bundle in bundles),
            result.error_before_exec or result.error_in_exec,
        )

    def tab(self, cell: str) -> list[str]:
        """Return the cells that each match makes of `cell`, with the cursor at its `|`."""
        code = cell.replace("|", "", 1)
        found = self._complete(cell)
        return [code[: each.start] + each.text + code[each.end :] for each in found]

    def tab_notes(self, cell: str) -> dict[str, str]:
        """Return the note that IPython shows beside each match, by the text of the match."""
        return {each.text: each.type for each in self._complete(cell)}

    def _complete(self, cell: str) -> list[Any]:
        before, _, after = cell.partition("|")
        code = before + after
        with provisionalcompleter():
            found = self.shell.Completer.completions(code, len(before))
            return list(rectify_completions(code, found))

    @staticmethod
    def complete(cell: str, names: Session | Mapping[str, Any]) -> list[tuple[int, str]]:
        """Return the completions at the `|` in `cell`: where each begins in `cell`, and its text.

        `names` are those of a session, or given ones by kind, such as
        `{"tools": ["look"], "turn_count": 3}`.
        """
        known = Names(names) if isinstance(names, Session) else _GivenNames(names)

        before, _, after = cell.partition("|")
        line = before.count("\n")
        column = len(before) - before.rfind("\n") - 1
        found = complete_cell(before + after, line, column, known)

        assert 0 <= found.start <= column
        start = len(before) - column + found.start
        return [(start, text) for text in found.texts]

    def value(self, path: str) -> Any:
        """Return the effective value of a setting."""
        value: Any = self.session.config.model_dump(mode="json")
        for key in path.split("."):
            value = value[key]
        return value

    def close(self) -> None:
        kept = vars(self.shell).get("_jp_nb_session")
        if kept is not None:
            kept.close()
        set_current(None)
        self.shell.restore_sys_module_state()
        self.shell.history_manager.end_session()
        _forget_errors()


def _forget_errors() -> None:
    """Forget the errors of earlier cells, which IPython keeps where debuggers look."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)


class _GivenNames(Names):
    """Names of a session that does not exist. `list_keys` and others are functions."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        vars(self).update(names)

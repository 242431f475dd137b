"""The names that Tab offers out of a session, and IPython's way in.

`matches` asks the session, and is silent where that fails.

Source: `docs/guide.md`, and the Matcher API of IPython,
https://ipython.readthedocs.io/en/stable/api/generated/IPython.core.completer.html
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from IPython import get_ipython
from IPython.core.completer import SimpleCompletion

from jp_nb.config.paths import lookup, parse_path
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.tool_config import STAR
from jp_nb.errors import JpNbError
from jp_nb.notebook.completion import Completions, complete_cell
from jp_nb.record.conversations import Listed, listing
from jp_nb.session.session import Session
from jp_nb.session.structured import may_describe
from jp_nb.workspace.config_files import SUFFIXES, user_folder

MAX_ENTRIES = 5000
"""Of one folder."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def _or(nothing: _T, ask: Callable[[], _T]) -> _T:
    """Return what `ask` does, or `nothing` where a file or the record is wrong: others say so."""
    try:
        return ask()
    except (JpNbError, OSError) as exc:
        _log.debug("Cannot list names for completion: %s", exc)
        return nothing


class SessionFacts:
    """The names that `session` knows, for one Tab. What cannot be read is left out."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @cached_property
    def _config(self) -> AppConfig:
        return _or(AppConfig(), lambda: self._session.config)

    @cached_property
    def _dumped(self) -> dict[str, Any]:
        return self._config.model_dump(mode="json", exclude_none=True)

    # --- configuration -----------------------------------------------------------------------

    def keys(self, path: str) -> Sequence[str]:
        """Return the keys below `path` now."""
        found = lookup(self._dumped, parse_path(path))
        if isinstance(found, list):
            return [str(number) for number in range(len(found))]
        return list(found) if isinstance(found, dict) else []

    def tools(self) -> Sequence[str]:
        """Tools that are configured or registered, on or off."""
        return sorted(name for name in self._config.conversation.tools if name != STAR)

    def toolsets(self) -> Mapping[str, int]:
        """Return the number of tools in each toolset whose name is no tool's too."""
        conversation = self._config.conversation
        names = (name for name in conversation.toolset_names() if name not in conversation.tools)
        return {name: len(conversation.toolset(name)) for name in names}

    def aliases(self) -> Sequence[str]:
        """Aliases of models."""
        return list(self._config.providers.llm.aliases)

    def models(self) -> Sequence[str]:
        """The model in force, those that aliases mean, and what `%jp models` was told."""
        known = [self._config.assistant.model.id, *self._config.providers.llm.aliases.values()]
        known += self._told()
        return list(dict.fromkeys(str(model) for model in known if "/" in str(model)))

    def _told(self) -> list[str]:
        """Return what providers told in this kernel. Tab itself asks nobody."""
        session = self._session
        return list(session.turns.catalog.told(self._config)) if "turns" in vars(session) else []

    # --- files -------------------------------------------------------------------------------

    def config_files(self, folder: str) -> Sequence[str]:
        """Names without the suffix that `-c` can do without."""
        roots = (user_folder() / "config", self._session.files.root)
        places = [root / path / folder for root in roots for path in self._config.config_load_paths]
        found: list[str] = []
        for name in (name for place in places for name in _entries(place)):
            suffix = Path(name).suffix
            if name.endswith("/"):
                found.append(name)
            elif suffix and suffix in SUFFIXES:
                found.append(name.removesuffix(suffix))
        return found

    def entries(self, folder: str) -> Sequence[str]:
        """Return the names in `folder`, from the notebook's on."""
        return _or([], lambda: _entries(self._session.files.folder / Path(folder).expanduser()))

    # --- the record and the notebook ---------------------------------------------------------

    def conversations(self, *, damaged: bool) -> Sequence[str]:
        """Ids of the conversations that are not active."""
        found: list[Listed] = _or([], lambda: listing(self._session.document))
        return [x.id for x in found if not x.active and (damaged or not x.damaged)]

    def turns(self) -> int:
        """Return how many turns `fork` may keep."""
        return _or(0, lambda: self._session.document.conversation.turn_count)

    def answers(self) -> Sequence[str]:
        """Ids of the questions that were answered, the newest first."""
        history = _or(None, lambda: self._session.active.questions.history(everybody=True))
        return [str(answer.id) for answer in reversed(history.answers)] if history else []

    def variables(self) -> Sequence[str]:
        """Names that the user bound."""
        hidden = getattr(get_ipython(), "user_ns_hidden", {})
        names = list(self._session.host.namespace)
        return [n for n in names if isinstance(n, str) and n not in hidden]

    def schemas(self) -> Sequence[str]:
        """Names of models, types and JSON schemas that the user bound."""
        values = self._session.host.namespace
        names = (name for name in self.variables() if not name.startswith("_"))
        return [name for name in names if may_describe(values.get(name))]


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [f"{x.name}/" if x.is_dir() else x.name for x in islice(found, MAX_ENTRIES)]
    except (OSError, ValueError) as exc:  # `ValueError`: a name that no file can have
        _log.debug("Cannot read the folder %s: %s", folder, exc)
        return []


# --- IPython ---------------------------------------------------------------------------------


def matches(session: Session | None, context: Any) -> dict[str, Any]:
    """The result of a matcher of IPython's, for its `CompletionContext`. Never raises."""
    before: str = context.text_until_cursor
    found = Completions(len(before), [])
    try:
        if session is not None:
            place = context.cursor_line, context.cursor_position
            found = complete_cell(context.full_text, *place, SessionFacts(session))
    except Exception:  # IPython would print the traceback below the cell
        _log.debug("Completion failed for %r", before, exc_info=True)
    return {
        "completions": [
            SimpleCompletion(text=text, type=found.notes.get(text, "param")) for text in found.texts
        ],
        "matched_fragment": before[found.start :],
        "suppress": bool(found.texts),
        "ordered": True,
    }

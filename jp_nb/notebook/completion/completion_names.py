"""The names of a session that Tab offers on a line: tools, models, files, variables.

Nothing is evaluated or run. After the name of a provider, its list of models may be requested in
the background.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from IPython import get_ipython

from jp_nb.agent.model_info import ModelList
from jp_nb.config.setting_paths import look_up, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.declared_servers import SERVERS_PATH
from jp_nb.config.tree.provider_settings import PROVIDER_NAMES
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.errors import JpNbError
from jp_nb.record.documents.conversation_info import ConversationInfo
from jp_nb.record.documents.conversation_list import list_conversations
from jp_nb.session.rows.frame_libraries import find_frame_library
from jp_nb.session.session import Session
from jp_nb.session.turns.structured import is_schema_like
from jp_nb.storage.configuration.named_files import CONFIG_SUFFIXES
from jp_nb.storage.user_folders import get_config_folder

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Names:
    """The names in a session, for one completion of a line.

    Each kind of names is read when the line needs it, at most once. Unreadable files and records
    have no names.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    @cached_property
    def _config(self) -> AppConfig:
        """The effective configuration; the default one if it is not valid."""
        return _try(lambda: self.session.config, AppConfig())

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """The effective configuration as a tree of tables."""
        return self._config.model_dump(mode="json", exclude_none=True)

    def list_keys(self, path: str) -> Sequence[str]:
        """Return the keys below `path` in the effective configuration, or the indexes of a list."""
        value = look_up(self._settings, parse_path(path))
        if isinstance(value, list):
            return [str(number) for number in range(len(value))]
        return list(value) if isinstance(value, dict) else []

    @cached_property
    def tools(self) -> Sequence[str]:
        """Configured and registered tools, enabled or not."""
        return sorted(name for name in self._config.conversation.tools if name != STAR)

    @cached_property
    def toolsets(self) -> Mapping[str, int]:
        """Number of tools, by toolset. Toolsets with the name of a tool are omitted."""
        conversation = self._config.conversation
        names = (name for name in conversation.list_toolsets() if name not in conversation.tools)
        return {name: len(conversation.list_toolset_tools(name)) for name in names}

    @cached_property
    def providers(self) -> Sequence[str]:
        """Providers, and the model servers that the user has named in the configuration."""
        return [*PROVIDER_NAMES, *sorted(self.list_keys(SERVERS_PATH))]

    @cached_property
    def mcp_servers(self) -> Sequence[str]:
        """MCP servers of the configuration, which have tools."""
        return sorted(self._config.providers.mcp)

    @cached_property
    def aliases(self) -> Sequence[str]:
        """Aliases of models."""
        return list(self._config.providers.llm.aliases)

    def list_models(self, provider: str) -> Sequence[str]:
        """Return the current model, models with an alias, and those that `provider` lists.

        The list may be requested, but only from a provider whose name is complete.
        """
        known = [self._config.assistant.model.id, *self._config.providers.llm.aliases.values()]
        if provider in self.providers:
            catalog = self.session.turns.catalog
            # `offer` waits at most `TAB_SECONDS` for a missing list. Its request then continues in
            # the background.
            listed = _try(lambda: catalog.offer(provider, self._config), ModelList())
            current = (model.id for model in listed.models if model.state != "retired")
            known += [f"{provider}/{name}" for name in current]

        return list(dict.fromkeys(str(model) for model in known if "/" in str(model)))

    def list_config_files(self, folder: str) -> Sequence[str]:
        """Return the names in `folder` that `-c` accepts, without suffixes; see `list_entries`."""
        folders: list[Path] = []
        for root in (get_config_folder() / "config", self.session.files.root):
            folders += [root / path / folder for path in self._config.config_load_paths]

        entries: list[str] = []
        for place in folders:
            entries += _try(partial(_list_folder, place), list[str]())

        names = (_read_config_name(entry) for entry in dict.fromkeys(entries))
        return [name for name in names if name is not None]

    def list_entries(self, folder: str) -> Sequence[str]:
        """Return the names in `folder`, a path from the notebook's folder; folders end with `/`."""
        root = self.session.files.folder
        return _try(lambda: _list_folder(root / Path(folder).expanduser()), [])

    @cached_property
    def conversations(self) -> Mapping[str, bool]:
        """Ids of inactive conversations, with True for damaged ones."""
        listed: list[ConversationInfo] = _try(lambda: list_conversations(self.session.document), [])
        return {info.id: info.damaged for info in listed if not info.active}

    @cached_property
    def turn_count(self) -> int:
        """Number of turns of the active conversation."""
        return _try(lambda: self.session.document.conversation.turn_count, 0)

    @cached_property
    def answers(self) -> Sequence[str]:
        """Ids of answered questions, newest first, also of those that others have answered."""
        history = _try(
            lambda: self.session.active.questions.reader.read_history(includes_foreign=True), None
        )
        return [str(answer.id) for answer in reversed(history.answers)] if history else []

    @cached_property
    def variables(self) -> Sequence[str]:
        """Names of the user's variables, without those of IPython."""
        hidden = getattr(get_ipython(), "user_ns_hidden", {})
        names = list(self.session.host.namespace)
        return [name for name in names if isinstance(name, str) and name not in hidden]

    @cached_property
    def rows(self) -> Sequence[str]:
        """Names of variables with lists, series, and frames."""
        values = self.session.host.namespace
        names = (name for name in self.variables if not name.startswith("_"))
        return [name for name in names if _has_rows(values.get(name))]

    @cached_property
    def schemas(self) -> Sequence[str]:
        """Names of variables with models, types, and JSON schemas."""
        values = self.session.host.namespace
        names = (name for name in self.variables if not name.startswith("_"))
        return [name for name in names if is_schema_like(values.get(name))]


def _read_config_name(entry: str) -> str | None:
    """Return the name of an entry of a folder for `-c`; None if it is no configuration file.

    That is `writing` for `writing.toml`. A folder keeps its `/`.
    """
    if entry.endswith("/"):
        return entry

    suffix = Path(entry).suffix
    return entry.removesuffix(suffix) if suffix and suffix in CONFIG_SUFFIXES else None


def _has_rows(value: Any) -> bool:
    return isinstance(value, list | tuple) or find_frame_library(value) is not None


def _try(read: Callable[[], _T], default: _T) -> _T:
    """Return the result of `read`, or `default` if a file or the record cannot be read."""
    try:
        return read()
    except (JpNbError, OSError, ValueError) as exc:  # `ValueError`: a path with a null byte
        _log.debug("Cannot list names for completion: %s", exc)
        return default


def _list_folder(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        # A folder may be very large.
        return list(map(_format_entry, islice(entries, 5000)))


def _format_entry(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir() else entry.name

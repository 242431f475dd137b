"""Tables of settings for `%jp config`: their effective values, and the sources that set them.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jp_nb.config.assignments import format_setting_value
from jp_nb.config.masked_settings import format_masked, mask_secrets
from jp_nb.config.partials.partial import get_path
from jp_nb.config.setting_paths import format_path, parse_path
from jp_nb.config.tree.tool_settings import DEFAULTABLE, STAR
from jp_nb.errors import ConfigError
from jp_nb.notebook.commands import Invocation
from jp_nb.record.changes.provenance import BASE, CONVERSATION, Provenance
from jp_nb.rendering.report import make_table
from jp_nb.rendering.transcripts.recorded_change_text import format_proposing_tools
from jp_nb.session.session import Session
from jp_nb.text import plain


def show_values(call: Invocation, paths: Sequence[str]) -> None:
    """Show the effective values of the settings at `paths`, and who set each."""
    sources = call.session.settings.explain(paths)
    values = read_effective_values(call.session)
    rows = []

    for path in paths:
        source = _find_effective_source(sources[path])
        set_by = _describe_source(source, path) if source else "default"
        rows.append((path, values.format(path), set_by))

    call.show(make_table(("path", "value", "set by"), rows))


def show_provenance(call: Invocation, paths: Sequence[str]) -> None:
    """Show all sources of the settings at `paths`, weakest first, and the effective values."""
    rows: list[tuple[str, str, str]] = []
    settings = call.session.settings
    values = read_effective_values(call.session)

    for path in paths:
        # A setting of a tool that is unset has the value for all tools (`conversation.tools.*`). So
        # the sources of that value are shown too.
        path_for_all = _find_path_for_all_tools(path)
        explained_paths = [path]
        if path_for_all and not values.is_set(path):
            explained_paths.append(path_for_all)

        for explained in explained_paths:
            for source in settings.explain([explained])[explained]:
                value = "reverted"
                if not source.uncovers_layers:
                    value = format_masked(explained, source.value)
                rows.append((explained, _describe_source(source, explained), value))

        rows.append((path, "effective", values.format(explained_paths[-1])))

    call.show(make_table(("path", "set by", "value"), rows))


def _find_path_for_all_tools(path: str) -> str | None:
    """Return the path in `conversation.tools.*` that applies if the setting of a tool is unset."""
    match parse_path(path):
        case ("conversation", "tools", name, field, *rest) if name != STAR and field in DEFAULTABLE:
            return format_path(("conversation", "tools", STAR, field, *rest))
    return None


@dataclass(frozen=True, slots=True)
class EffectiveValues:
    """The effective values of all settings, as a tree of tables.

    `is_validated` is False if the configuration is not valid. Then a value is shown as it was
    written.
    """

    tree: Mapping[str, Any]
    is_validated: bool

    def is_set(self, path: str) -> bool:
        """Return True if the setting has a value."""
        return get_path(self.tree, path) is not None

    def format(self, path: str) -> str:
        """Return the value at `path` as text, without secrets."""
        value = get_path(self.tree, path)
        if self.is_validated:
            return format_setting_value(mask_secrets(value, parse_path(path)))
        return f"{format_masked(path, value)} (not validated)"


def read_effective_values(session: Session) -> EffectiveValues:
    """Return the effective values. If the configuration is not valid, tell the user why."""
    try:
        tree = session.config.model_dump(mode="json", exclude_none=True)
    except ConfigError as exc:
        print(f"jp_nb: The configuration is not valid: {plain(str(exc))}")
        return EffectiveValues(session.settings.read_valid_partial(), is_validated=False)

    return EffectiveValues(tree, is_validated=True)


def _find_effective_source(sources: Sequence[Provenance]) -> Provenance | None:
    """Return the one of `sources`, weakest first, that determines the value; None for the default.

    It is the last one, except in two cases:

    - The conversation has reverted its value. Then the last source outside of it applies.
    - The conversation began with the value that a file has. Then the file is named, because the
      value changes with the file.
    """
    if not sources:
        return None

    last = sources[-1]
    outside = [source for source in sources if source.source not in (BASE, CONVERSATION)]
    last_outside = outside[-1] if outside else None
    if last.uncovers_layers:
        return last_outside

    if last.source == BASE and last_outside is not None and last_outside.value == last.value:
        return last_outside
    return last


def _describe_source(source: Provenance, path: str) -> str:
    """Return the layer, and the file, variable, turn, or tools that set `path`."""
    parts = [source.source, *filter(None, (source.file, source.when))]
    return ", ".join([*parts, *format_proposing_tools(source.list_proposing_calls(path))])

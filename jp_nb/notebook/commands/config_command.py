"""Subcommand `%jp config`: show or change the configuration.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from jp_nb.config.assignments import format_setting_value
from jp_nb.config.directives import Directive
from jp_nb.config.masked_settings import format_masked, mask_secrets
from jp_nb.config.partials.partial import get_path
from jp_nb.config.setting_paths import format_path, parse_path
from jp_nb.config.tree.tool_settings import DEFAULTABLE, STAR
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.record.changes.provenance import BASE, CONVERSATION, Provenance
from jp_nb.rendering.report import make_table
from jp_nb.rendering.transcripts.recorded_change_text import format_proposing_tools
from jp_nb.session.configuration.config_file_changes import write_config_file
from jp_nb.session.session import Session
from jp_nb.text import plain

MAX_CONFIRMED_PATHS: Final = 3  # limit of paths in the confirmation of a change
MAX_CONFIRMED_CHARS: Final = 80  # longer values are not in the confirmation

FileLayer = Literal["user", "workspace"]


def configure(call: Invocation) -> None:
    """Run `%jp config`: show values and their sources, or change values."""
    options = call.options
    session = call.session
    changes: list[Directive] = options.directives
    paths: list[str] = options.words
    if changes and (paths or options.explain):
        raise UsageError(
            f"`%jp config` shows or changes settings, not both: {(paths or options.explain)[0]!r}."
        )
    if options.user and options.workspace:
        raise UsageError("Use `--user` or `--workspace`, not both: a change is saved in one file.")

    if options.user:
        _change_file(session, "user", changes)
    elif options.workspace:
        _change_file(session, "workspace", changes)
    elif changes:
        _change_conversation(session, changes)
    elif options.explain:
        _show_provenance(call, [*options.explain, *paths])
    else:
        _show_values(call, paths or session.settings.list_set_paths())


def _change_file(session: Session, layer: FileLayer, changes: Sequence[Directive]) -> None:
    if not changes:
        raise UsageError(f"`--{layer}` needs a change: `PATH=VALUE`, or `--unset PATH`.")

    session.active.refuse_while_running()
    projection = session.settings.projection
    # The change must be valid together with all layers, and replaces values of the conversation.
    session.notices += write_config_file(layer, changes, projection, session.files)
    session.notices += session.files.notices.take()
    print(f"Saved in your {layer} configuration file: {', '.join(map(_format_change, changes))}")


def _change_conversation(session: Session, changes: Sequence[Directive]) -> None:
    """Change the configuration from now on, and print the changed settings."""
    count_before = len(session.document.conversation.deltas)
    session.configure(*changes)
    new_deltas = session.document.conversation.deltas[count_before:]
    changed: dict[str, None] = {}  # the paths, in their order
    for delta in new_deltas:
        changed |= dict.fromkeys(delta.claims)  # its keys are the paths that the change sets

    # The value of a changed table has its fields, so the paths inside of it are not listed.
    tables = tuple(f"{path}." for path in changed)
    paths = [path for path in changed if not path.startswith(tables)]
    if paths:
        print(plain(_describe_changes(session, paths)))
    elif not session.notices:  # a notice explains why nothing changed
        print("Nothing changed: the configuration already has these values.")


def _describe_changes(session: Session, paths: Sequence[str]) -> str:
    """Return a line about the settings at `paths`, with the new values that are short."""
    values = _read_effective_values(session)
    parts = []
    for path in paths[:MAX_CONFIRMED_PATHS]:
        value = values.format(path)
        if not values.is_set(path):
            parts.append(f"{path} unset")
        elif len(value) <= MAX_CONFIRMED_CHARS:
            parts.append(f"{path} = {value}")
        else:
            parts.append(path)

    more = len(paths) - MAX_CONFIRMED_PATHS
    rest = f" and {more} more" if more > 0 else ""
    return f"Set for this conversation: {', '.join(parts)}{rest}"


def _format_change(change: Directive) -> str:
    """Return the text of `change` without secrets."""
    path, sign, value = change.text.partition("=")
    if change.kind == "unset":
        return f"{plain(path)} unset"
    if not sign:
        return plain(path)

    return plain(f"{path}={format_masked(path.rstrip(':+-'), value)}")


def _show_values(call: Invocation, paths: Sequence[str]) -> None:
    """Show the effective values of the settings at `paths`, and who set each."""
    sources = call.session.settings.explain(paths)
    values = _read_effective_values(call.session)
    rows = []

    for path in paths:
        source = _find_effective_source(sources[path])
        set_by = _describe_source(source, path) if source else "default"
        rows.append((path, values.format(path), set_by))

    call.show(make_table(("path", "value", "set by"), rows))


def _show_provenance(call: Invocation, paths: Sequence[str]) -> None:
    """Show all sources of the settings at `paths`, weakest first, and the effective values."""
    rows: list[tuple[str, str, str]] = []
    settings = call.session.settings
    values = _read_effective_values(call.session)

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
                if not source.is_uncovered:
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
class _EffectiveValues:
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


def _read_effective_values(session: Session) -> _EffectiveValues:
    """Return the effective values. If the configuration is not valid, tell the user why."""
    try:
        tree = session.config.model_dump(mode="json", exclude_none=True)
    except ConfigError as exc:
        print(f"jp_nb: The configuration is not valid: {plain(str(exc))}")
        return _EffectiveValues(session.settings.read_valid_partial(), is_validated=False)

    return _EffectiveValues(tree, is_validated=True)


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
    if last.is_uncovered:
        return last_outside

    if last.source == BASE and last_outside is not None and last_outside.value == last.value:
        return last_outside
    return last


def _describe_source(source: Provenance, path: str) -> str:
    """Return the layer, and the file, variable, turn, or tools that set `path`."""
    parts = [source.source, *filter(None, (source.file, source.when))]
    return ", ".join([*parts, *format_proposing_tools(source.list_proposing_calls(path))])

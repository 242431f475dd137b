"""Subcommand `%jp config`: change the configuration, or show it (`setting_tables.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from jp_nb.config.directives import Directive
from jp_nb.config.masked_settings import format_masked
from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.setting_tables import (
    read_effective_values,
    show_provenance,
    show_values,
)
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
        show_provenance(call, [*options.explain, *paths])
    else:
        show_values(call, paths or session.settings.list_set_paths())


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
    values = read_effective_values(session)
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

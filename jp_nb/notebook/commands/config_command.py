"""Subcommand `%jp config`: show or change the configuration.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

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

    if options.user or options.workspace:
        layer: FileLayer = "user" if options.user else "workspace"
        if not changes:
            raise UsageError(f"`--{layer}` needs a change: `PATH=VALUE`, or `--unset PATH`.")

        session.active.refuse_while_running()
        projection = session.settings.projection
        session.notices += write_config_file(layer, changes, projection, session.files)
        session.notices += session.files.take_notices()
        print(
            f"Saved in your {layer} configuration file: {', '.join(map(_format_change, changes))}"
        )
    elif changes:
        _change_conversation(session, changes)
    elif options.explain:
        _show_provenance(call, [*options.explain, *paths])
    else:
        _show_values(call, paths or session.settings.set_paths())


def _change_conversation(session: Session, changes: Sequence[Directive]) -> None:
    before = len(session.document.conversation.deltas)
    session.configure(*changes)
    deltas = session.document.conversation.deltas[before:]
    claimed: dict[str, None] = {}
    for delta in deltas:
        claimed |= dict.fromkeys(delta.claims)

    parents = tuple(f"{path}." for path in claimed)
    paths = [path for path in claimed if not path.startswith(parents)]
    if not paths:
        if not session.notices:  # a notice explains why nothing changed
            print("Nothing changed: the configuration already has these values.")
        return

    value_at = _value_reader(session)
    new = []

    for path in paths[:MAX_CONFIRMED_PATHS]:
        value = value_at(path)
        if value == "null":
            new.append(f"{path} unset")
        elif len(value) <= 80:
            new.append(f"{path} = {value}")
        else:
            new.append(path)

    more = (
        f" and {len(paths) - MAX_CONFIRMED_PATHS} more" if len(paths) > MAX_CONFIRMED_PATHS else ""
    )
    print(plain(f"Set for this conversation: {', '.join(new)}{more}"))


def _format_change(change: Directive) -> str:
    """Return the text of `change` without secrets."""
    path, sign, value = change.text.partition("=")
    if change.kind == "unset":
        return f"{plain(path)} unset"
    if not sign:
        return plain(path)

    return plain(f"{path}={format_masked(path.rstrip(':+-'), value)}")


def _show_values(call: Invocation, paths: Sequence[str]) -> None:
    sources = call.session.settings.explain(paths)
    value_at = _value_reader(call.session)
    rows = []

    for path in paths:
        source = _find_effective_source(sources[path])
        set_by = _describe_source(source, path) if source else "default"
        rows.append((path, value_at(path), set_by))

    call.show(make_table(("path", "value", "set by"), rows))


def _show_provenance(call: Invocation, paths: Sequence[str]) -> None:
    rows: list[tuple[str, str, str]] = []
    settings = call.session.settings
    value_at = _value_reader(call.session)

    for path in paths:
        default = _path_for_all_tools(path)
        applies = default if default and value_at(path) == "null" else None

        shown = [path]
        if applies:
            shown.append(applies)
        for each in shown:
            for source in settings.explain([each])[each]:
                value = "reverted" if source.is_reverted else format_masked(each, source.value)
                rows.append((each, _describe_source(source, each), value))

        rows.append((path, "effective", value_at(applies or path)))

    call.show(make_table(("path", "set by", "value"), rows))


def _path_for_all_tools(path: str) -> str | None:
    """Return the path in `conversation.tools.*` that applies if the setting of a tool is unset."""
    match parse_path(path):
        case ("conversation", "tools", name, field, *rest) if name != STAR and field in DEFAULTABLE:
            return format_path(("conversation", "tools", STAR, field, *rest))
    return None


def _value_reader(session: Session) -> Callable[[str], str]:
    """Return a function that formats the effective value at a path, without secrets."""
    try:
        config = session.config.model_dump(mode="json", exclude_none=True)
    except ConfigError as exc:
        partial = session.settings.read_valid_partial()
        print(f"jp_nb: The configuration is not valid: {plain(str(exc))}")
        return lambda path: f"{format_masked(path, get_path(partial, path))} (not validated)"

    return lambda path: format_setting_value(mask_secrets(get_path(config, path), parse_path(path)))


def _find_effective_source(sources: Sequence[Provenance]) -> Provenance | None:
    """Return the last of `sources` that determines the value, if there is one.

    A file has precedence over the base configuration of a conversation that began with the file's
    value. If the conversation reverted its own value, the source below applies.
    """
    last = sources[-1] if sources else None
    below = [x for x in sources if x.source not in (BASE, CONVERSATION)]
    if last is None or last.is_reverted:
        return below[-1] if below else None

    is_copy = last.source == BASE and below and below[-1].value == last.value
    return below[-1] if is_copy else last


def _describe_source(source: Provenance, path: str) -> str:
    """Return the layer, and the file, variable, turn, or tools that set `path`."""
    parts = [source.source, *filter(None, (source.file, source.when))]
    return ", ".join([*parts, *format_proposing_tools(source.list_proposing_calls(path))])

"""`%jp config`: shows the configuration, explains it, changes it.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from jp_nb.config.directives import Directive
from jp_nb.config.layers import to_text
from jp_nb.config.masking import masked, shown_value
from jp_nb.config.partial import get_path
from jp_nb.config.paths import format_path, parse_path
from jp_nb.config.tree.tool_config import DEFAULTABLE, STAR
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.record.provenance import BASE, CONVERSATION, Provenance
from jp_nb.rendering.conversation_log import by_tools
from jp_nb.rendering.report import table
from jp_nb.safe_text import plain
from jp_nb.session.session import Session

MAX_CONFIRMED: Final = 3
"""Paths that the line of a change names."""
MAX_CONFIRMED_CHARS: Final = 80
"""Of a longer value, that line gives the path alone."""
Layer = Literal["user", "workspace"]


def config(call: Invocation) -> None:
    """Show values, say who set them, or change them."""
    options, session = call.options, call.session
    changes: list[Directive] = options.directives
    paths: list[str] = options.words
    if changes and (paths or options.explain):
        raise UsageError(
            f"`%jp config` shows or changes settings, not both: {(paths or options.explain)[0]!r}."
        )
    layers: list[Layer] = [x for x in ("user", "workspace") if getattr(options, x)]
    if len(layers) > 1:
        raise UsageError("Use `--user` or `--workspace`, not both: a change is saved in one file.")
    for layer in layers:
        if not changes:
            raise UsageError(f"`--{layer}` needs a change: `PATH=VALUE`, or `--unset PATH`.")
        session.write_config(layer, *changes)
        said = ", ".join(_as_written(change) for change in changes)
        print(f"Saved in your {layer} configuration file: {said}")
    if layers:
        return
    if changes:
        _change(session, changes)
    elif options.explain:
        _explain(call, [*options.explain, *paths])
    else:
        _show(call, paths or session.settings.set_paths())


def _change(session: Session, changes: Sequence[Directive]) -> None:
    """Change the conversation's configuration, and print its new values in one line."""
    before = len(session.document.conversation.deltas)
    session.configure(*changes)
    deltas = session.document.conversation.deltas[before:]
    claimed = dict.fromkeys(path for delta in deltas for path in delta.claims)
    paths = [path for path in claimed if not any(path.startswith(f"{up}.") for up in claimed)]
    if not paths:
        if not session.notices:  # which say why nothing changed
            print("Nothing changed: the configuration already has these values.")
        return
    value_at = _values(session)
    values = [(path, value_at(path)) for path in paths[:MAX_CONFIRMED]]
    said = [_confirmed(path, now) for path, now in values]
    more = f" and {len(paths) - MAX_CONFIRMED} more" if len(paths) > MAX_CONFIRMED else ""
    print(plain(f"Set for this conversation: {', '.join(said)}{more}"))


def _confirmed(path: str, value: str) -> str:
    if value == "null":
        return f"{path} unset"
    return f"{path} = {value}" if len(value) <= MAX_CONFIRMED_CHARS else path


def _as_written(change: Directive) -> str:
    """Return `change` as the user wrote it, without secrets."""
    path, sign, value = change.text.partition("=")
    if not sign or change.kind == "unset":
        return f"{plain(path)} unset" if change.kind == "unset" else plain(path)
    return plain(f"{path}={shown_value(path.rstrip(':+-'), value)}")


def _show(call: Invocation, paths: Sequence[str]) -> None:
    said, value_at = call.session.settings.explain(paths), _values(call.session)
    rows = [
        (
            path,
            value_at(path),
            _who(decider, path) if (decider := _decider(said[path])) else "default",
        )
        for path in paths
    ]
    call.show(table(("path", "value", "set by"), rows))


def _explain(call: Invocation, paths: Sequence[str]) -> None:
    rows: list[tuple[str, str, str]] = []
    settings, value_at = call.session.settings, _values(call.session)
    for path in paths:
        default = _path_for_all_tools(path)
        applies = default if default and value_at(path) == "null" else None
        for each in (path, applies) if applies else (path,):
            rows += [
                (each, _who(x, each), "reverted" if x.taken_back else shown_value(each, x.value))
                for x in settings.explain([each])[each]
            ]
        rows.append((path, "effective", value_at(applies or path)))
    call.show(table(("path", "set by", "value"), rows))


def _path_for_all_tools(path: str) -> str | None:
    """Return the path in `conversation.tools.*` that applies if the setting of a tool is unset."""
    match parse_path(path):
        case ("conversation", "tools", name, field, *rest) if name != STAR and field in DEFAULTABLE:
            return format_path(("conversation", "tools", STAR, field, *rest))
    return None


def _values(session: Session) -> Callable[[str], str]:
    """Return what says in words what is in force at a path, also while the whole is not valid."""
    try:
        config = session.config.model_dump(mode="json", exclude_none=True)
    except ConfigError as exc:
        partial = session.settings.readable_partial()
        print(f"jp_nb: The configuration is not valid: {plain(str(exc))}")
        return lambda path: f"{shown_value(path, get_path(partial, path))} (not validated)"
    return lambda path: to_text(masked(get_path(config, path), parse_path(path)))


def _decider(said: Sequence[Provenance]) -> Provenance | None:
    """Return who a value is from; None if it is nobody's.

    If a conversation began with what a file says, it is the file; likewise if a conversation took
    back what it had set. What it unset is unset by it.
    """
    last = said[-1] if said else None
    below = [x for x in said if x.source not in (BASE, CONVERSATION)]
    if last is None or last.taken_back:
        return below[-1] if below else None
    begun = last.source == BASE and below and below[-1].value == last.value
    return below[-1] if begun else last


def _who(said: Provenance, path: str) -> str:
    """Return where the value of `path` comes from: layer, and file, variable, turn or tools."""
    where = [said.source, *filter(None, (said.file, said.when))]
    return ", ".join([*where, *by_tools(said.tools(path))])

"""What a new conversation starts from: files, environment, and the arguments of the run.

`%load_ext` needs this wherever something is configured, so it imports little.

Source: `docs/configuration.md`, `docs/decisions.md` D8, D34.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from jp_nb.config.authority import strip_untrusted
from jp_nb.config.defaults import DEFAULT_MODEL
from jp_nb.config.directives import Directive
from jp_nb.config.grants import rule_warnings, rules_in
from jp_nb.config.layers import FILE_ONLY, fold
from jp_nb.config.partial import Partial, apply, as_replacement, get_path, merge, strip_strategies
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError
from jp_nb.session.requested_changes import MODEL, model_set, requested_changes
from jp_nb.workspace import variables
from jp_nb.workspace.config_files import ConfigFiles


def base_config(files: ConfigFiles) -> Partial:
    """Return what a new conversation starts from: what somebody set, and the model (D8).

    What only an owner may decide stays in the owner's files and variables: there it counts for
    them, tightened later too, and nowhere else is it anybody's.

    Raises:
        ConfigError: If a file or a variable is wrong.
    """
    partial = with_model(fold(files.layers()))
    validate(partial)
    return strip_untrusted(to_store(partial))[0]


def continues_headless(files: ConfigFiles) -> bool:
    """Return whether `record.headless` says that a headless run continues a conversation (D18)."""
    return bool(get_path(fold(files.readable()[0]), "record.headless") == "continue")


def is_reproducible(files: ConfigFiles) -> bool:
    """Return whether `record.reproducible` has a headless run write what the last one wrote.

    An argument of the run that is wrong says nothing here: what begins with it says so.
    """
    below = fold(files.readable()[0])
    with suppress(ConfigError):
        below = merge(below, with_overrides({}, files))
    return get_path(below, "record.reproducible") is True


def to_store(partial: Partial) -> Partial:
    """Return `partial` as a record holds it: it replaces, and says nothing about files."""
    return {key: value for key, value in as_replacement(partial).items() if key not in FILE_ONLY}


def with_model(partial: Partial) -> Partial:
    """Return `partial` with its model resolved, or with the default one.

    Raises:
        ConfigError: If it names a model that there is not.
    """
    return merge(partial, model_set(get_path(partial, MODEL) or DEFAULT_MODEL, partial))


def overrides() -> list[Directive]:
    """Return the `-c` arguments of the run, if a runner gave some."""
    value = json.loads(os.environ.get(variables.OVERRIDES) or "[]")
    return [Directive("cfg", str(item)) for item in value]


def with_overrides(base: Partial, files: ConfigFiles) -> Partial:
    """Return `base` with the arguments of the run in it (D34).

    Raises:
        ConfigError: If one of them is wrong.
    """
    given = overrides()
    if not given:
        return base
    below = fold(files.layers())
    for directive in given:
        for change, _ in requested_changes(directive.text, merge(below, base), files):
            base = apply(base, change)
    validate(merge(below, base))
    return base


def registered_functions() -> Partial:
    """Return what each Python tool of this kernel brings along, by its name."""
    python = sys.modules.get("jp_nb.tooling.python")  # where there is none there is no tool
    functions = python.REGISTRY.all() if python is not None else {}
    return {name: dict(tool.registration) for name, tool in functions.items()}


def odd_rules(files: ConfigFiles, base: Partial) -> list[str]:
    """Say which rules about the configuration are hardly meant, where `base` lies over `files`.

    Files that are wrong are passed over.
    """
    registered: Partial = {"conversation": {"tools": registered_functions()}}
    return odd_rules_in(merge(merge(registered, fold(files.readable()[0])), base))


def odd_rules_in(partial: Partial) -> list[str]:
    """Say which rules about the configuration in `partial` are hardly meant."""
    found = rules_in(strip_strategies(partial))
    return [text for tool, rules in found for text in rule_warnings(tool, rules)]

"""Apply the `-c` arguments of `jp-nb run` to the settings of a conversation.

The runner passes them to the kernel in an environment variable.

Source: `docs/configuration.md`, `docs/decisions.md` D34.
"""

from __future__ import annotations

import json
import os

from jp_nb.config.directives import Directive
from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import apply_change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.validation import validate_config
from jp_nb.session.configuration.requested_changes import read_requested_changes
from jp_nb.storage import environment
from jp_nb.storage.configuration.config_files import ConfigFiles


def read_overrides() -> list[Directive]:
    """Return the `-c` arguments of the runner."""
    value = json.loads(os.environ.get(environment.OVERRIDES_VARIABLE) or "[]")
    return [Directive("cfg", str(item)) for item in value]


def apply_overrides(base: Partial, files: ConfigFiles) -> Partial:
    """Return `base` with the `-c` arguments of `jp-nb run` (D34).

    `base` is the part of the configuration above that of `files`: the base of a conversation, or {}
    for the arguments alone.

    Raises:
        ConfigError: An argument, or the configuration with all of them, is not valid.
    """
    directives = read_overrides()
    if not directives:
        return base

    files_partial = merge_layers(files.load_layers())
    for directive in directives:
        current = merge_partials(files_partial, base)
        # Only the changes of a turn are recorded with their files.
        for change, _file in read_requested_changes(directive.text, current, files):
            base = apply_change(base, change)

    validate_config(merge_partials(files_partial, base))
    return base

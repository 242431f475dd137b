"""Find out if the user's own configuration lets edits of cells be applied without a review.

By default, the user reviews each edit of a cell that the model proposes with the tool `edit_cells`.
Its setting `run = "unattended"` applies edits at once. But the effective configuration may have it
from a file of a folder, a notebook's record, or a change that a tool proposed. Someone else may
have written these, so the user's own settings must have it as well.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from typing import Final

from jp_nb.config.layers import ENVIRONMENT_LAYER, USER_FILE_LAYER
from jp_nb.config.partials.partial import get_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.configuration.run_overrides import apply_overrides
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.toolkit.builtin.cells import EDIT_CELLS

_RUN_PATH: Final = ("conversation", "tools", EDIT_CELLS, "run")
_OWN_LAYERS: Final = (USER_FILE_LAYER, ENVIRONMENT_LAYER)


def allows_unattended_edits(config: AppConfig, files: ConfigFiles) -> bool:
    """Return True if `config` and the user's own settings let edits be applied without a review.

    The user's own settings are the user's file, environment variables, and `-c` of `jp-nb run`.
    """
    tool = config.conversation.tools.get(EDIT_CELLS)
    if tool is None or tool.run != "unattended":
        return False

    # By decreasing priority: the `-c` arguments alone, environment variables, the user's file.
    values = [get_path(apply_overrides({}, files), _RUN_PATH)]
    values += [
        get_path(layer.partial, _RUN_PATH)
        for layer in reversed(files.load_layers())
        if layer.name in _OWN_LAYERS
    ]
    own_values = [value for value in values if value is not None]
    return bool(own_values) and own_values[0] == "unattended"

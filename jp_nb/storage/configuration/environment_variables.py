"""Read the settings in the environment variables of the process.

Imported only if such a variable exists, because the configuration schema loads slowly.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import os
from functools import lru_cache

from jp_nb.config.early_constants import ENVIRONMENT_PREFIX
from jp_nb.config.environment_layer import read_environment
from jp_nb.config.layers import Layer


def read_variables() -> Layer:
    """Return the layer of the environment. Raises the errors of `read_environment`."""
    variables = [
        (name, value) for name, value in os.environ.items() if name.startswith(ENVIRONMENT_PREFIX)
    ]
    return _read_variables(tuple(sorted(variables)))


@lru_cache(maxsize=16)  # the same variables give the same layer, so nothing is merged again
def _read_variables(variables: tuple[tuple[str, str], ...]) -> Layer:
    return read_environment(dict(variables))

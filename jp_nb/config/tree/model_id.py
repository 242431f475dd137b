"""Model ids: `PROVIDER/NAME` as a text or a table, or an alias of one.

An alias names another model id (`providers.llm.aliases`). It is resolved later (`aliases.py`), so
here any word without `/` is one.

A provider is built in, or a server that the user has named (`named_servers.py`). `PROVIDER_NAMES`
has all built-in providers, also those that only JP can use. Errors suggest only those that can be
used here (`AVAILABLE_PROVIDERS`). A server counts if any configuration that this process has read
declares it (`declared_servers.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any

from pydantic import AfterValidator

from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM, TABLE_OR_PLAIN_FORM, ConfigTable
from jp_nb.config.tree.declared_servers import is_declared_server
from jp_nb.config.tree.provider_settings import AVAILABLE_PROVIDERS, PROVIDER_NAMES
from jp_nb.config.tree.value_checks import before
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error

MODEL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_.:/~-]+")


def _check_provider(provider: str) -> str:
    if provider in PROVIDER_NAMES or is_declared_server(provider):
        return provider

    # Comparing a longer name takes long.
    near = difflib.get_close_matches(provider[:40], AVAILABLE_PROVIDERS, n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    known = ", ".join(AVAILABLE_PROVIDERS)
    cause = f"unknown provider {shorten_for_error(provider)!r}{meant}"
    raise UnexpectedValueError(f"one of {known}", cause=cause)


def _check_model_name(name: str) -> str:
    if MODEL_NAME_PATTERN.fullmatch(name):
        return name
    raise ValueError(
        f"model name {shorten_for_error(name)!r} may contain only letters, digits, and _ . : / ~ -"
    )


class ModelId(ConfigTable):
    """A model."""

    provider: Annotated[str, AfterValidator(_check_provider)]
    """Name of the provider, such as `anthropic`."""
    name: Annotated[str, AfterValidator(_check_model_name)]
    """Name of the model at the provider."""

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def read_model_id(value: Any) -> Any:
    """Convert `provider/name` to a table. Return an alias or a table as it is.

    The parts are checked here too, because some callers do not validate the table as a `ModelId`.

    Raises:
        ValueError: `value` has another type, is empty, or has an invalid provider or name.
    """
    if isinstance(value, (dict, ModelId)):
        return value
    if not isinstance(value, str):
        raise UnexpectedValueError(
            "a model id `provider/name`, an alias, or a table of provider and name", value
        )

    provider, slash, name = (part.strip() for part in value.partition("/"))
    if not slash:
        if not provider:
            raise ValueError("expected a model id `provider/name` or an alias, found nothing")
        return provider
    return {"provider": _check_provider(provider), "name": _check_model_name(name)}


ModelIdOrAlias = Annotated[
    Annotated[ModelId, TABLE_FORM] | Annotated[str, PLAIN_FORM],
    TABLE_OR_PLAIN_FORM,
    before(read_model_id),
]

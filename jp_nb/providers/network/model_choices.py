"""Instructions for the user, to choose a model and to set the key of its provider."""

from __future__ import annotations

import os
from typing import Final

from jp_nb.config.tree.provider_settings import ProviderConfig
from jp_nb.config.tree.providers_table import Llm

CHOOSE_MODEL: Final = "`%jp config assistant.model.id=PROVIDER/NAME`"
_KEEP_MODEL_COMMAND: Final = "`%jp config --user assistant.model.id=PROVIDER/NAME`"


def format_key_statement(variable: str) -> str:
    """Return the statement that sets a key in a running kernel with hidden input."""
    return f'import os, getpass; os.environ["{variable}"] = getpass.getpass()'


def format_model_choices(llm: Llm) -> str:
    """Return lines with the command for each provider, and the state of its key."""
    options: list[str] = []
    states: list[str] = []
    unset_variables: list[str] = []

    for name in llm.list_names():
        settings = llm.get_settings(name)
        if settings is None:
            continue  # the scripted provider

        options.append(f"%%jp -m {name}/MODEL")
        states.append(_describe_access(settings))
        variable = settings.api_key_env
        if variable is not None and not _is_set(variable):
            unset_variables.append(variable)

    width = max(map(len, options))
    lines = ["Choose a model; it is used for the rest of the conversation:"]
    for option, state in zip(options, states, strict=True):
        lines.append(f"  {option.ljust(width)}  {state}")

    if unset_variables:  # one statement is enough to show the form
        statement = format_key_statement(unset_variables[0])
        lines.append(f"Set a key in this running kernel: {statement}")

    lines.append(f"Keep a model for all notebooks: {_KEEP_MODEL_COMMAND}")
    return "\n".join(lines)


def _describe_access(settings: ProviderConfig) -> str:
    """Return the state of the provider's key; for a provider without one, its addresses."""
    variable = settings.api_key_env
    if variable is None:
        addresses = settings.DEFAULT_ADDRESSES
        if settings.base_url is not None:
            addresses = (settings.base_url,)
        return f"no key; server at {' or '.join(addresses)}"

    return f"{variable} is set" if _is_set(variable) else f"{variable} is not set"


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())

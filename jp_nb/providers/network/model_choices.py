"""Tell the user how to choose a model, and how to set its key."""

from __future__ import annotations

import os
from typing import Final

from jp_nb.config.tree.providers_table import Llm

CHOOSE: Final = "`%jp config assistant.model.id=PROVIDER/NAME`"


def format_key_statement(variable: str) -> str:
    """Return the statement that sets a key in a running kernel with hidden input."""
    return f'import os, getpass; os.environ["{variable}"] = getpass.getpass()'


def format_model_choices(llm: Llm) -> str:
    """Return lines that tell how to choose a model, and which keys are set."""
    rows: list[tuple[str, str]] = []
    missing: list[str] = []
    for name in llm.list_names():
        if (settings := llm.get_settings(name)) is None:
            continue  # the scripted provider
        variable = settings.api_key_env
        if variable is None:
            places = (
                settings.DEFAULT_ADDRESSES if settings.base_url is None else [settings.base_url]
            )
            state = f"no key; server at {' or '.join(places)}"
        elif os.environ.get(variable, "").strip():
            state = f"{variable} is set"
        else:
            state = f"{variable} is not set"
            missing.append(variable)
        rows.append((f"%%jp -m {name}/MODEL", state))

    width = max(len(option) for option, _ in rows)
    lines = [f"  {option.ljust(width)}  {state}" for option, state in rows]
    lines.insert(0, "Choose a model; it is used for the rest of the conversation:")

    if missing:
        lines.append(f"Set a key in this running kernel: {format_key_statement(missing[0])}")

    lines.append(f"Keep a model for all notebooks: {CHOOSE.replace('config ', 'config --user ')}")

    return "\n".join(lines)

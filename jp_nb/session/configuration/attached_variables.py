"""Resolve the variables of `%%jp -a NAME` to the URLs under which they are attached.

Source: `docs/guide.md`, `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jp_nb.config.directives import Directive
from jp_nb.config.tree.attachment_urls import AttachmentParts, parse_attachment_url
from jp_nb.session.attached_values import VALUE_SCHEME
from jp_nb.values.value_path import ValuePathError, read_value_path


def resolve_variables(
    directives: Sequence[Directive], namespace: Mapping[str, Any], folder: Path
) -> tuple[list[Directive], list[str]]:
    """Return `directives` with URLs for the variables of `-a`, and notices about the choice.

    A file has priority over a variable of the same name.
    """
    resolved: list[Directive] = []
    notices: list[str] = []

    for directive in directives:
        text = directive.text
        if directive.kind != "attach" or not _names_value(text, namespace):
            resolved.append(directive)
        elif (folder / text).exists():
            resolved.append(directive)
            notice = f"-a {text} attaches the file of that name. To attach the variable, use"
            notices.append(f"{notice} `-a {VALUE_SCHEME}:{text}`")
        else:
            url = AttachmentParts(VALUE_SCHEME, text).url
            resolved.append(replace(directive, text=url))
            name = parse_attachment_url(url).path
            notices.append(f"the variable {name} is attached and described again for each turn")

    return resolved, notices


def _names_value(text: str, namespace: Mapping[str, Any]) -> bool:
    """Return True if `text` is a variable of the notebook, or a part of one: `df.columns`."""
    try:
        read_value_path(text).follow(namespace)
    except ValuePathError:
        return False
    return True

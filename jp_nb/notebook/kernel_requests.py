"""Requests of the front end to the kernel, such as `execute_request`, which runs a cell.

`%load_ext` loads this module, so it imports little.

Source: https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_cell_request(kernel: Any) -> Mapping[str, Any]:
    """Return the request that runs the current cell. Call it on the cell's thread.

    It is empty in a terminal, where `kernel` is None, and for a kernel that is not ipykernel's.
    """
    if not hasattr(kernel, "get_parent"):
        return {}

    request = kernel.get_parent("shell")
    return request if isinstance(request, Mapping) else {}


def get_message_id(request: Any) -> str:
    """Return the id of a Jupyter message; "" if it has none."""
    header = request.get("header") if isinstance(request, Mapping) else None
    return str(header.get("msg_id", "")) if isinstance(header, Mapping) else ""

"""The page that sent the current message of the kernel: the request of the cell, or a click.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from typing import Any, Literal

from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.prompt.running_cell.running_kernel import get_running_kernel


def note_page() -> None:
    """Record that a page of this kernel shows forms."""
    if (kernel := get_running_kernel()) is not None:
        KernelPages.of(kernel).has_page = True


def find_sender(kind: Literal["comm_msg", "execute_request"]) -> str | None:
    """Return the collaborator whose page sent the current message, if it is of that kind.

    It is None if collaborators have no names, as for a single user.
    """
    message = _get_message(kind)
    if message is None:
        return None
    return KernelPages.of(get_running_kernel()).find_sender(message)


def note_form_answer() -> None:
    """Note which page sent the current message, the answer of a form. Cells are edited there."""
    message = _get_message("comm_msg")
    if message is not None:
        KernelPages.of(get_running_kernel()).note_answer(message)


def _get_message(kind: Literal["comm_msg", "execute_request"]) -> Any:
    """Return the current message of the kernel if it is of that kind."""
    kernel = get_running_kernel()
    message = kernel.get_parent("shell") if kernel is not None else {}
    is_of_kind = (message.get("header") or {}).get("msg_type") == kind
    return message if is_of_kind else None


def can_show_input_box() -> bool:
    """Return False if the page that sent the request of the running cell shows no input box.

    Such a page was reloaded, or has run the cell again. If no page can tell, or there is no kernel,
    return True. Call it on the cell's thread.
    """
    kernel = get_running_kernel()
    if kernel is None:
        return True

    is_possible = KernelPages.of(kernel).can_show_input(kernel.get_parent("shell"))
    return is_possible is not False

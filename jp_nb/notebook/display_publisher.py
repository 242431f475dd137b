"""Shows a MIME bundle in a cell, and another one in its place.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol
from uuid import uuid4

from jp_nb.notebook.output_capture import ours
from jp_nb.notebook.running_cells import RunningCells


class Publish(Protocol):
    """Shows a MIME bundle in the cell.

    `update`: in place of what was shown before. `final`: it will not be updated again.
    """

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show it."""
        ...


class DisplayPublisher:
    """Publishes the parts of one turn through IPython's display publisher.

    Each has a display id. While the turn runs the metadata have it too: a page finds by it the
    output to go on with. A `kernel` keeps what is shown for pages that are loaded again while its
    cell runs. What is shown `of_turn` is no tool's. Made on the cell's thread.
    """

    def __init__(
        self, publish: Callable[..., None], kernel: Any = None, *, of_turn: bool = False
    ) -> None:
        self._publish = publish
        self._around = ours if of_turn else nullcontext
        self._turn = f"jp-nb-{uuid4().hex}"
        self._parts = 0
        self._cells = RunningCells.of(kernel)
        self._request = kernel.get_parent("shell") if self._cells is not None else {}

    def __call__(self) -> Publish:
        """Return what publishes the next part."""
        display_id = f"{self._turn}-{self._parts}"
        self._parts += 1

        def show(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            metadata = {} if final else {"jp_nb": {"display_id": display_id}}
            transient = {"display_id": display_id}
            if self._cells is not None:
                self._cells.shows(self._request, display_id, bundle, metadata)
            with self._around():
                self._publish(data=bundle, metadata=metadata, transient=transient, update=update)

        return show

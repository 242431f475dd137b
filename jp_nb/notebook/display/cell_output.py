"""Outputs in the running cell, which are published and updated by their display ids.

A *bundle* is a MIME bundle, such as `{"text/markdown": "**Hi.**", "text/plain": "Hi."}`.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from jp_nb.notebook.cell_watch import watch_cells
from jp_nb.notebook.display.output_origin import mark_as_ours
from jp_nb.notebook.display.pending_output import flush_streams


class Publish(Protocol):
    """Publisher of one output."""

    def __call__(self, bundle: dict[str, Any], *, update: bool, final: bool) -> None:
        """Show a MIME bundle in the cell; with `update`, in place of the previous one.

        With `final`, no update follows.
        """


class OutputFactory:
    """Makes outputs in the running cell: those `of_turn`, or of a tool.

    Each output has a display id. Until the output is final, its metadata contain this id, so that
    a reloaded page finds the output. `RunningCells` keeps the output for such pages. Create the
    factory on the cell's thread.

    Args:
        publish: The method `publish` of IPython's `DisplayPublisher`.
    """

    def __init__(
        self, publish: Callable[..., None], kernel: Any = None, *, of_turn: bool = False
    ) -> None:
        self._publish_display = publish
        self._context = mark_as_ours if of_turn else nullcontext
        self._prefix = f"jp-nb-{uuid4().hex}"
        self._count = 0  # of outputs so far
        self._cells = watch_cells(kernel)
        self._request = kernel.get_parent("shell") if self._cells is not None else {}

    def __call__(self) -> Publish:
        """Return the publisher of a new output."""
        display_id = f"{self._prefix}-{self._count}"
        self._count += 1

        def publish(bundle: dict[str, Any], *, update: bool, final: bool) -> None:
            metadata = {} if final else {"jp_nb": {"display_id": display_id}}
            transient = {"display_id": display_id}
            if self._cells is not None:
                if not update:
                    # Text that was printed before is kept above the output.
                    flush_streams()
                self._cells.set_output(self._request, display_id, bundle, metadata, update=update)

            # `is_ours` is True inside of the context, so no tool's output is seen in it.
            with self._context():
                self._publish_display(
                    data=bundle, metadata=metadata, transient=transient, update=update
                )

        return publish


@dataclass(slots=True)
class ShownOutput:
    """An output of the cell, and the bundle that it shows; None until it is published."""

    publish: Publish
    bundle: dict[str, Any] | None = None

    @property
    def is_shown(self) -> bool:
        """True if the output was published."""
        return self.bundle is not None

    def show(self, bundle: dict[str, Any], *, final: bool = False) -> None:
        """Show `bundle` in the output, if it does not show it already. `final` ends its updates."""
        if final or bundle != self.bundle:
            self.publish(bundle, update=self.is_shown, final=final)
            self.bundle = bundle

    def show_again(self) -> None:
        """Publish the output again if it was published, because the cell was cleared."""
        if self.bundle is not None:
            self.publish(self.bundle, update=False, final=False)

"""The tool calls of one response of the model, as the display of the turn knows them."""

from __future__ import annotations

from typing import Any


class CallBatch:
    """Calls that run at the same time, and their displays.

    Attributes:
        is_over: True if all calls have ended. False before the first one begins, and unlike
            `is_running` it stays True when another one begins.
        images: MIME bundles of the images of the results, which are shown when the batch is over.
        calls_with_image: The ids of the calls whose functions displayed an image themselves.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.images: list[dict[str, Any]] = []
        self.calls_with_image: set[str] = set()
        self._open_calls: set[str] = set()  # ids of the calls that have not ended

    @property
    def is_running(self) -> bool:
        """True if a call has begun and has not ended."""
        return bool(self._open_calls)

    def begin(self, call_id: str) -> None:
        """Add a call."""
        self._open_calls.add(call_id)

    def end(self, call_id: str) -> None:
        """Note that a call has ended."""
        self._open_calls.discard(call_id)
        self.is_over = not self._open_calls

    def take_images(self) -> list[dict[str, Any]]:
        """Remove and return the images."""
        images = self.images
        self.images = []
        return images

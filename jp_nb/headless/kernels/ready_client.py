"""Wait for a new kernel of a headless run until it is ready, and no longer.

`jupyter_client` waits until a kernel has been silent for 0.2 seconds. Its status after the reply to
`kernel_info` says the same at once.

Source: `docs/decisions.md` D258,
https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

import time
from queue import Empty
from typing import Any, Final, Literal

from jupyter_client.asynchronous.client import AsyncKernelClient

RECONNECT_MS: Final = 10
"""Milliseconds between two attempts to connect to a kernel; 100 by default."""
REPLY_S: Final = 1.0
"""Seconds after which the question if a kernel is ready is asked again."""
STATUS_S: Final = 0.05
"""Seconds in which a ready kernel sends its status after its reply."""
MAX_MISSED_STATUSES: Final = 4
"""Replies without such a status, but with other messages, after which a kernel counts as ready."""


class ReadyKernelClient(AsyncKernelClient):
    """A client of a kernel that notices at once when the kernel is ready."""

    def start_channels(self, *args: Any, **options: Any) -> None:
        """Connect, and try again often: the kernel listens only after its imports."""
        self.context.reconnect_ivl = RECONNECT_MS
        super().start_channels(*args, **options)

    async def wait_for_ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until the kernel answers on all channels.

        Raises:
            RuntimeError: The kernel ended, or did not answer in `timeout` seconds.
        """
        deadline = time.monotonic() + timeout if timeout is not None else None
        missed_count = 0

        while True:
            self.kernel_info()
            reply = await self._read_info_reply()
            if reply is not None:
                status = await self._read_status(reply)
                if status == "missed":
                    missed_count += 1
                if status == "idle" or missed_count > MAX_MISSED_STATUSES:
                    self._handle_kernel_info_reply(reply)
                    return

            if not await self.is_alive():
                raise RuntimeError("Kernel died before replying to kernel_info")
            if deadline is not None and time.monotonic() > deadline:
                raise RuntimeError(f"Kernel didn't respond in {timeout:.0f} seconds")

    async def _read_info_reply(self) -> dict[str, Any] | None:
        """Return the reply to `kernel_info`; None if the next message is another one, or late."""
        try:
            reply: dict[str, Any] = await self.get_shell_msg(timeout=REPLY_S)
        except Empty:
            return None
        return reply if reply["msg_type"] == "kernel_info_reply" else None

    async def _read_status(self, reply: dict[str, Any]) -> Literal["idle", "missed", "silent"]:
        """Read the messages that follow `reply`, up to the status of the kernel.

        Return `idle` if the kernel has answered the request, `missed` if there were only other
        messages, and `silent` if there were none, because the channel was not yet connected. A
        silent kernel is asked again until the deadline.
        """
        request = reply["parent_header"].get("msg_id")
        result: Literal["missed", "silent"] = "silent"

        while True:
            try:
                message = await self.get_iopub_msg(timeout=STATUS_S)
            except Empty:
                return result

            result = "missed"
            is_idle = message["content"].get("execution_state") == "idle"
            if is_idle and message["parent_header"].get("msg_id") == request:
                return "idle"

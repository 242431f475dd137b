"""Manage kernels of headless runs: fork them, and notice at once when they are ready or have ended.

`jupyter_client` waits for times of silence instead, which is a third of a small run, and gives
kernels network ports that another program may take (`kernel_sockets.py`).

Source: `docs/many-notebooks.md`, `docs/decisions.md` D258 and D312,
https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from queue import Empty
from typing import Any, Final, Literal

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import default

from jp_nb.headless.kernels.kernel_sockets import get_socket_address, make_socket_folder
from jp_nb.headless.kernels.kernel_template import KernelTemplate, can_fork

RECONNECT_MS: Final = 10
"""Milliseconds between two attempts to connect to a kernel; 100 by default."""
REPLY_S: Final = 1.0
"""Seconds after which the question if a kernel is ready is asked again."""
STATUS_S: Final = 0.05
"""Seconds in which a ready kernel sends its status after its reply."""
MAX_MISSED_STATUSES: Final = 4
"""How often a kernel is asked that sends other messages, but no such status."""
END_POLL_S: Final = 0.01
"""Seconds between two looks at a kernel that shuts down; 0.1 in `jupyter_client`."""


class PromptKernelClient(AsyncKernelClient):
    """Waits for a kernel until it is ready, and no longer.

    `jupyter_client` waits until a kernel has been silent for 0.2 seconds. Its status after the
    reply says the same at once.
    """

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
        messages, and `silent` if there were none, because the channel was not yet connected.
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


class RunKernelManager(AsyncKernelManager):
    """Starts kernels of IPython as forks of `template`, if there is one, and notices ends soon.

    Their connection file and their sockets are in a folder that goes with the kernel.
    """

    template: KernelTemplate | None = None
    _folder: Path | None = None  # None: the kernel has ports, or it has ended

    @default("client_factory")
    def _make_client_factory(self) -> type[AsyncKernelClient]:
        return PromptKernelClient

    # `jupyter_client` calls all of these methods.

    async def _async_pre_start_kernel(self, **options: Any) -> tuple[list[str], dict[str, Any]]:
        """Choose where the kernel listens, before its connection file is written."""
        spec = self.kernel_spec
        if self._folder is None and spec is not None:
            self._folder = make_socket_folder(spec)

            if self._folder is not None:
                self.transport = "ipc"
                self.ip = get_socket_address(self._folder)
                self.connection_file = str(self._folder / "connection.json")

        return await super()._async_pre_start_kernel(**options)

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        """Remove what belongs to a kernel that has ended; a restarted one keeps its folder."""
        await super()._async_cleanup_resources(restart)
        if self._folder is not None and not restart:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    cleanup_resources = _async_cleanup_resources

    async def _async_finish_shutdown(
        self,
        waittime: float | None = None,
        pollinterval: float = END_POLL_S,
        restart: bool = False,
    ) -> None:
        """Wait for the end of the kernel, and look at it more often than `jupyter_client`."""
        await super()._async_finish_shutdown(waittime, pollinterval, restart)

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
        """Fork the kernel if there is a template for it; else start it as `jupyter_client` does."""
        provisioner: Any = self.provisioner
        is_local = isinstance(provisioner, LocalProvisioner)
        if self.template is None or not is_local or not can_fork(kernel_cmd):
            await super()._async_launch_kernel(kernel_cmd, **options)
            return

        cwd = str(options.get("cwd") or os.getcwd())
        kernel = self.template.fork(kernel_cmd, cwd=cwd, env=options["env"])
        provisioner.process = kernel
        provisioner.pid = kernel.pid
        provisioner.pgid = os.getpgid(kernel.pid)
        # As `jupyter_client` does after each start: the provisioner may have chosen the ports.
        self._reconcile_connection_info(provisioner.connection_info)

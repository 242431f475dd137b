"""Manage kernels of headless runs: fork them, and notice at once when they have ended.

`jupyter_client` looks for the end every 0.1 seconds, and gives kernels network ports that another
program may take. Here, kernels listen on sockets in a folder (`kernel_sockets.py`).
`ready_client.py` notices when they are ready.

Source: `docs/many-notebooks.md`, `docs/decisions.md` D258 and D312,
https://jupyter-client.readthedocs.io/en/stable/messaging.html.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import TraitError, default
from traitlets.config import Config

from jp_nb.headless.kernels.kernel_sockets import get_socket_address, make_socket_folder
from jp_nb.headless.kernels.kernel_template import KernelTemplate, can_fork
from jp_nb.headless.kernels.ready_client import ReadyKernelClient

ENCRYPTION: Final = "transport_encryption"  # setting of newer kernel managers
END_POLL_S: Final = 0.01
"""Seconds between two looks at a kernel that shuts down; 0.1 in `jupyter_client`."""


class RunKernelManager(AsyncKernelManager):
    """Starts kernels of IPython as forks of `template`, if there is one, and notices ends soon.

    Their connection file and their sockets are in a folder that goes with the kernel.
    """

    template: KernelTemplate | None = None
    _folder: Path | None = None  # None: the kernel has ports, or it has ended

    @default("client_factory")
    def _make_client_factory(self) -> type[AsyncKernelClient]:
        return ReadyKernelClient

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


def make_kernel_config() -> Config:
    """Return the configuration of kernels: encrypted messages, where the libraries can do that."""
    # Other users of the computer could read unencrypted messages, and kernels warn of them.
    config = Config()
    if ENCRYPTION in KernelManager.class_trait_names():
        with suppress(TraitError):  # the sockets library does not support it
            KernelManager(**{ENCRYPTION: "auto"})
            config.KernelManager[ENCRYPTION] = "auto"
    return config

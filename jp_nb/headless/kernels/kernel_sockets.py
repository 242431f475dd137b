"""Let a kernel listen on socket files in a folder of its own, and not on network ports.

`jupyter_client` chooses five free ports before the kernel binds them. In between, another program
may take one: the kernel then prints a traceback and never answers, and the run waits a minute for
it. Where many notebooks run side by side, this happens. No other program takes a socket file.

Source: `docs/decisions.md` D312,
https://jupyter-client.readthedocs.io/en/stable/kernels.html#connection-files.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jupyter_client.kernelspec import KernelSpec

MAX_SOCKET_PATH_BYTES: Final = 100
"""Length of a path at which a socket can listen: macOS allows 103 bytes, and Linux 107."""
_PREFIX: Final = "jp-nb-kernel-"
_SOCKETS: Final = "kernel"  # `jupyter_client` and the kernel append `-1` to `-5`
_RANDOM_CHARS: Final = 8  # of a name that `tempfile` draws


def make_socket_folder(spec: KernelSpec) -> Path | None:
    """Make a folder, which only this user can open, for the sockets of one kernel of `spec`.

    Return None if the kernel needs ports: it is no kernel of IPython (others may not know socket
    files), another program starts it, perhaps elsewhere, this is Windows, or the path would be too
    long.
    """
    # A provisioner in the kernel spec starts the kernel in its own way, perhaps on another machine.
    is_here = "kernel_provisioner" not in spec.metadata and _is_plain_ipython(spec.argv)
    if os.name != "posix" or not is_here:
        return None

    name = _PREFIX + "x" * _RANDOM_CHARS
    longest = Path(tempfile.gettempdir(), name, f"{_SOCKETS}-5")
    if len(os.fsencode(longest)) > MAX_SOCKET_PATH_BYTES:
        return None
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _is_plain_ipython(command: Sequence[str]) -> bool:
    """Return True if Python itself starts the kernel, and no program such as `docker` or `ssh`."""
    if not command or not Path(command[0]).name.startswith("python") or "-m" not in command[:-1]:
        return False
    module = command[command.index("-m") + 1]
    return module in ("ipykernel", "ipykernel_launcher")


def get_socket_address(folder: Path) -> str:
    """Return the address of a kernel with sockets in `folder`, the `ip` of its connection file."""
    return str(folder / _SOCKETS)

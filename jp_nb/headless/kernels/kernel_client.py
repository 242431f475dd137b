"""nbclient's client, with bounds for kernels that nobody watches: their processes and their output.

`Execution` (`execution.py`) makes one for each run. Without bounds it is nbclient's client, which
`jp-nb run` uses for one notebook. Workers of a batch set bounds.

Source: `docs/many-notebooks.md`, https://nbclient.readthedocs.io/.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Final

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from nbclient import NotebookClient
from nbformat.v4 import new_output

from jp_nb.headless.kernels.kernel_processes import KernelProcesses, format_left_processes
from jp_nb.headless.kernels.kernel_template import KernelTemplate, can_fork

MAX_CELL_OUTPUT_CHARS: Final = 20_000_000
"""Output of one cell of a batch that is kept. A notebook of this size still opens."""


@dataclass(frozen=True, slots=True)
class KernelBounds:
    """Bounds of a kernel; None: no such bound.

    Attributes:
        processes: Ends what the kernel leaves, and the kernel if this program is killed.
        terminate_after_s: Seconds after an interrupt at which the kernel gets SIGTERM.
        max_cell_output_chars: Output of a cell beyond which further output is dropped.
        template: The process from which kernels are forked.
    """

    processes: KernelProcesses | None = None
    terminate_after_s: float | None = None
    max_cell_output_chars: int | None = None
    template: KernelTemplate | None = None


class TemplateKernelManager(AsyncKernelManager):
    """Starts kernels of IPython as forks of `template`, and other kernels as usual."""

    template: KernelTemplate | None = None

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
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
        self._reconcile_connection_info(provisioner.connection_info)


class KernelClient(NotebookClient):
    """Client of one kernel with `bounds`.

    Attributes:
        warnings: What the user should know about the kernel's processes and output.
    """

    def __init__(self, notebook: Any, *, bounds: KernelBounds, **options: Any) -> None:
        if bounds.template is not None:
            options["kernel_manager_class"] = TemplateKernelManager
        super().__init__(notebook, **options)
        self.warnings: list[str] = []
        self._bounds = bounds
        self._sizes: dict[int, int] = {}

    async def async_start_new_kernel(self, **options: Any) -> None:
        """Start the kernel, and watch its processes."""
        if isinstance(self.km, TemplateKernelManager):
            self.km.template = self._bounds.template
        await super().async_start_new_kernel(**options)
        provisioner = getattr(self.km, "provisioner", None)
        pid = getattr(provisioner, "pid", None)
        if self._bounds.processes is not None and pid is not None:
            self._bounds.processes.add(pid)

    def end_processes(self) -> None:
        """End what the kernel has left. Call it after the kernel has ended."""
        if self._bounds.processes is None:
            return
        left = self._bounds.processes.end()
        if left:
            self.warnings.append(format_left_processes(left))

    def clear_output(self, outs: list[Any], msg: Any, cell_index: int) -> None:
        """Clear the outputs of a cell, which may then have new ones."""
        super().clear_output(outs, msg, cell_index)
        self._sizes.pop(cell_index, None)

    def output(self, outs: list[Any], msg: Any, display_id: str | None, cell_index: int) -> Any:
        """Add an output to a cell, unless the cell has too much of it."""
        limit = self._bounds.max_cell_output_chars
        if limit is None:
            return super().output(outs, msg, display_id, cell_index)

        content = msg["content"]
        before = self._sizes.get(cell_index, 0)
        size = before + _count_chars(content)
        self._sizes[cell_index] = size
        if size <= limit or msg["msg_type"] == "error":
            return super().output(outs, msg, display_id, cell_index)
        if before > limit:
            return None

        if msg["msg_type"] == "stream":
            text = content["text"][: limit - before]
            outs.append(new_output("stream", name=content["name"], text=text))
        note = f"cell {cell_index + 1} has more than {limit:,} characters of output"
        self.warnings.append(f"{note}: the rest was dropped")
        outs.append(new_output("stream", name="stderr", text=f"\n[jp-nb: {note}]\n"))
        return None


def _count_chars(content: Any) -> int:
    text = content.get("text")
    if isinstance(text, str):
        return len(text)
    data = content.get("data", {})
    texts = (each if isinstance(each, str) else json.dumps(each) for each in data.values())
    return sum(map(len, texts))

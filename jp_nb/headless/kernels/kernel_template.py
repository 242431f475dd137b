"""Start kernels by forking a process that has already imported their modules.

A kernel of IPython takes a second or two to import its modules, and a notebook's libraries take
longer. With `--preload pandas`, a worker of a batch starts one *template*: a process that imports
IPython's kernel and the named modules, and runs nothing else. Each kernel is a fork of it, so the
modules are there at once, and their memory is shared.

`fork_server.py` is the program of the template. It reads a request to fork as a line of JSON from
stdin, and answers with a process id.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from jp_nb.headless.kernels.fork_server import LAUNCHER

_LAUNCH_WORDS: Final = (sys.executable, "-m", LAUNCHER)
"""The beginning of the command of a kernel of IPython with this Python. Its arguments follow."""


class KernelTemplateError(Exception):
    """The template cannot be used. The message has the reason."""


class KernelTemplate:
    """A process with preloaded `modules`, from which kernels are forked.

    Raises:
        KernelTemplateError: A module cannot be imported, or the system cannot fork.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        if not hasattr(os, "fork") or sys.platform == "win32":
            raise KernelTemplateError("`--preload` needs a system that can fork: Linux or macOS")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jp_nb.headless.kernels.fork_server", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()  # the first answer comes after the imports

    @property
    def pid(self) -> int:
        """The process id of the template, which is the parent of its kernels."""
        return self._process.pid

    def fork(self, command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> ForkedKernel:
        """Start a kernel with the arguments of `command`, in a new session of processes.

        `can_fork` has accepted the command.

        Raises:
            KernelTemplateError: The template has ended.
        """
        arguments = list(command[len(_LAUNCH_WORDS) :])
        request = {"arguments": arguments, "cwd": cwd, "env": dict(env)}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise KernelTemplateError(f"the process with preloaded modules ended: {exc}") from exc
        return ForkedKernel(int(self._read()["pid"]))

    def _read(self) -> dict[str, Any]:
        """Wait for the next answer of the template, and return it.

        Raises:
            KernelTemplateError: The template has ended, or a module cannot be imported.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise KernelTemplateError(
                f"the process with preloaded modules ended with the code {code}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise KernelTemplateError(f"a module cannot be preloaded: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the template, whose program ends with its input."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()


class ForkedKernel:
    """The process of a kernel, with the methods of `subprocess.Popen` that `jupyter_client` uses.

    It is no child of this process, so its exit code is not known. The template ignores SIGCHLD, so
    an ended kernel is no zombie: its process id is gone.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return None while the kernel runs."""
        if self.returncode is None:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                self.returncode = 0
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return 0. `jupyter_client` calls it for a kernel that has ended."""
        return self.poll() or 0

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def can_fork(command: Sequence[str]) -> bool:
    """Return True if `command` starts a kernel of IPython with this Python."""
    return tuple(command[: len(_LAUNCH_WORDS)]) == _LAUNCH_WORDS

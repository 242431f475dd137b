"""Start kernels by forking a process that has already imported their modules.

A kernel of IPython takes a second or two to import its modules, and a notebook's libraries take
longer. With `--preload pandas`, a worker of a batch starts one *template*: a process that imports
IPython's kernel and the named modules, and runs nothing else. Each kernel is a fork of it, so the
modules are there at once, and their memory is shared.

This file is both sides. `KernelTemplate` is that of the worker. As a program, the file is the
template: it reads a request to fork as a line of JSON from stdin, and answers with a process id.

Only modules whose import starts no threads and opens no connections can be preloaded. Their exit
handlers (`atexit`) run at the end of the template, and not at the end of its kernels: otherwise the
first kernel to end would remove a temporary folder that all of them use.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

LAUNCHER: Final = "ipykernel_launcher"
"""The module that a kernel of IPython executes."""
_LAUNCH_WORDS: Final = (sys.executable, "-m", LAUNCHER)
"""The beginning of the command of such a kernel with this Python. Its arguments follow."""
KERNEL_MODULES: Final = ("ipykernel.kernelapp", "ipykernel.zmqshell", "ipykernel.ipkernel")
TURN_MODULES: Final = (
    "jp_nb.notebook.magics",
    "jp_nb.notebook.front_end",
    "jp_nb.notebook.kernel_notebook",
    "jp_nb.session.turns.turn_runner",
    "jp_nb.session.questions.question_log",
    "jp_nb.providers.http_provider",
)
"""Modules that `--preload jp_nb` adds: those that `%load_ext jp_nb` and the first turn import."""


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
            [sys.executable, "-P", "-m", "jp_nb.headless.kernels.kernel_template", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

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
        """End the template."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()


class ForkedKernel:
    """The process of a kernel, with the methods of `subprocess.Popen` that `jupyter_client` uses.

    It is no child of this process, so its exit code is not known.
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
        """Return the code of a kernel that has ended."""
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


# --- the template --------------------------------------------------------------------------------


def serve_forks(modules: Sequence[str]) -> None:
    """Import `modules`, and fork a kernel for each line of stdin until it ends.

    Write `{"ready": true}` to stdout after the imports, then `{"pid": …}` for each kernel; or
    `{"error": …}` if a module cannot be imported.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what modules print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended kernels need no `wait`

    def reply(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    added = TURN_MODULES if "jp_nb" in modules else ()
    for name in (*KERNEL_MODULES, *modules, *added):
        try:
            import_module(name)
        except Exception as exc:  # whatever the module raises
            reply(error=f"{name}: {type(exc).__name__}: {exc}")
            return

    # No collection in a kernel visits the objects of the modules, which stay in shared memory.
    gc.collect()
    gc.freeze()
    reply(ready=True)

    for line in sys.stdin:
        request = json.loads(line)
        reply(pid=_fork(request))


def _fork(request: Mapping[str, Any]) -> int:
    """Fork a kernel, and return its process id once it leads its process group.

    In the new process, this function does not return.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        os.read(read_end, 1)  # the kernel closes its end when it leads its group
        os.close(read_end)
        return pid

    code = 1
    try:
        os.setsid()
        os.close(read_end)
        os.close(write_end)
        _disown_ends()
        _become_kernel(request)
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _end_kernel(code)


def _disown_ends() -> None:
    """Forget what the modules have registered for the end of their process, the template.

    Services of the standard library are registered again. The same as in `multiprocessing`.
    """
    atexit._clear()
    atexit.register(logging.shutdown)

    finalize: Any = weakref.finalize
    finalize._registry.clear()  # such as those of temporary folders
    finalize._registered_with_atexit = False

    if "multiprocessing.util" in sys.modules:
        from multiprocessing import util
        from multiprocessing.process import BaseProcess

        BaseProcess._after_fork()  # type: ignore[attr-defined]
        atexit.register(util._exit_function)  # type: ignore[attr-defined]


def _end_kernel(code: int) -> NoReturn:
    """End this process as Python does, but without the modules of the template.

    IPython clears the user's variables at the end, so files that the notebook left open are
    flushed.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        gc.collect()
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(code)


def _become_kernel(request: Mapping[str, Any]) -> None:
    """Set up this process as the request says, and run the kernel until it ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)

    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.environ["JPY_PARENT_PID"] = str(os.getppid())  # the kernel ends with the template

    random.seed()  # forks must not draw the same numbers
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()

    sys.argv = [LAUNCHER, *request["arguments"]]
    runpy.run_module(LAUNCHER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve_forks(sys.argv[1:])

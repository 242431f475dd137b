"""The program of a template: a process with imported modules, of which each kernel is a fork.

    python -m jp_nb.headless.kernels.fork_server [MODULE …]

`KernelTemplate` (`kernel_template.py`) starts it. It reads a request to fork as a line of JSON from
stdin, and writes an answer as a line to stdout, until stdin ends:

    {"arguments": ["-f", "connection.json"], "cwd": "/work", "env": {…}}
    {"pid": 4711}

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
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

LAUNCHER: Final = "ipykernel_launcher"
"""The module that a kernel of IPython executes."""
KERNEL_MODULES: Final = ("ipykernel.kernelapp", "ipykernel.zmqshell", "ipykernel.ipkernel")
TURN_MODULES: Final = (
    "jp_nb.notebook.extension",
    "jp_nb.notebook.front_end",
    "jp_nb.notebook.kernel_notebook",
    "jp_nb.session.turns.turn_runner",
    "jp_nb.session.questions.question_log",
    "jp_nb.providers.http_provider",
)
"""Modules that `--preload jp_nb` adds: those that `%load_ext jp_nb` and the first turn import."""


def serve_forks(modules: Sequence[str]) -> None:
    """Import `modules`, and fork a kernel for each line of stdin until it ends.

    Write `{"ready": true}` to stdout after the imports, then `{"pid": …}` for each kernel; or
    `{"error": …}` if a module cannot be imported.
    """
    # Text that modules print to stdout goes to stderr, because it is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
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

    Services of the standard library are registered again. `multiprocessing` does the same in its
    forks.
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

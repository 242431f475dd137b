"""Run the tools of a notebook in a separate kernel.

Only the cells that define a tool run. They see `jp` and `jp_nb`; their other imports have to be in
the same cell. The kernel's output goes to stderr.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import NoSuchKernel
from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import read_notebook, require_notebook
from jp_nb.headless.kernels.kernel_manager import RunKernelManager, make_kernel_config
from jp_nb.headless.tool_server.tool_cells import iter_tool_cells
from jp_nb.headless.tool_server.tool_host import ServedTool
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.outcomes import QuestionEnd
from jp_nb.text import one_line, plain

START_S: Final = 60.0
"""Time in which the kernel has to start."""
_HOST: Final = "_jp_nb_host"
_REPLY: Final = "_jp_nb_reply"
"""Variables in the kernel: its `ToolHost`, and the text of its last reply."""
_SETUP: Final = """
import jp_nb
import jp_nb as jp
"""
"""Runs before the cells that define tools."""
_MAKE_HOST: Final = f"""
from pathlib import Path
from jp_nb.headless.tool_server.tool_host import ToolHost
{_HOST} = ToolHost(Path.cwd(), None, inline=True)
"""


class KernelTools:
    """The tools of one notebook. The kernel runs for as long as the `async with` block.

    It is a `ToolRunner` (`mcp_server.py`), and passes each call to the `ToolHost` in the kernel.

    Attributes:
        refused: The reasons why tools are not offered, by their names. `load` sets it.
    """

    def __init__(self, path: Path) -> None:
        self._path = require_notebook(path)
        self._notebook = read_notebook(path)
        kernelspec = self._notebook.metadata.get("kernelspec", {})
        name = str(kernelspec.get("name", "python3"))
        self._manager = RunKernelManager(kernel_name=name, config=make_kernel_config())
        self._client: AsyncKernelClient | None = None
        self._answers: dict[str, JsonObject] = {}  # the configured ones, by tool and question id
        self._lock = asyncio.Lock()  # held by `_execute`: the kernel runs one request at a time
        self.refused: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Start the kernel, and run the cells that define tools.

        Raises:
            UsageError: The kernel is not installed or does not start, or a cell failed.
        """
        cells = list(iter_tool_cells(self._notebook.cells))
        if not cells:
            raise UsageError(f"{self._path} has no cell with `@jp.tool`")

        try:
            await self._start()
            await self._execute(_SETUP, "the start")
            for number, source in cells:
                await self._execute(source, f"cell {number}")
            await self._execute(_MAKE_HOST, "the start")
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the kernel."""
        await self._stop()

    async def _start(self) -> None:
        """Start the kernel in the folder of the notebook, and connect to it."""
        try:
            await self._manager.start_kernel(cwd=str(self._path.resolve().parent))
            client = self._manager.client()
            client.start_channels()
            self._client = client
            await client.wait_for_ready(timeout=START_S)
        except NoSuchKernel as exc:
            raise UsageError(f"the kernel {exc.name!r} of {self._path} is not installed") from exc
        except (OSError, RuntimeError) as exc:  # its program is missing, ends, or does not answer
            name = self._manager.kernel_name
            raise UsageError(f"the kernel {name!r} of {self._path} does not start: {exc}") from exc

    async def _stop(self) -> None:
        if self._client is not None:
            self._client.stop_channels()
        if self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)
        else:
            await self._manager.cleanup_resources()  # of a kernel that ended, or never started

    async def load(self) -> list[ServedTool]:
        """Return the tools; `refused` then has the reasons for those that are not offered."""
        listed = as_object(json.loads(await self._ask(f"await {_HOST}.list_tools_json()")))
        self.refused = {name: str(why) for name, why in as_object(listed["refused"]).items()}

        tools: list[ServedTool] = []
        stored = listed["tools"]
        for item in stored if isinstance(stored, list) else []:
            tool = as_object(item)
            name = str(tool["name"])
            self._answers[name] = as_object(tool["answers"])
            tools.append(ServedTool(name, str(tool["description"]), as_object(tool["schema"])))

        return tools

    def get_configured_answers(self, name: str) -> JsonObject:
        """Return the configured answers to questions of a tool, by question id."""
        return self._answers[name]

    async def run(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        answers: Mapping[str, JsonValue],
        ends: Mapping[str, QuestionEnd],
    ) -> JsonObject:
        """Run a tool once in the kernel, as `ToolHost.run` does."""
        request = json.dumps(
            {
                "name": name,
                "arguments": dict(arguments),
                "answers": dict(answers),
                "ends": dict(ends),
            }
        )
        return as_object(json.loads(await self._ask(f"await {_HOST}.reply({request!r})")))

    async def _ask(self, expression: str) -> str:
        """Return the text that an expression has in the kernel, which sends it as `repr`."""
        reply = await self._execute(f"{_REPLY} = {expression}", "a call", {"reply": _REPLY})
        text = reply["user_expressions"]["reply"]["data"]["text/plain"]
        return str(ast.literal_eval(text))

    async def _execute(
        self, code: str, what: str, expressions: Mapping[str, str] | None = None
    ) -> Any:
        """Run `code` in the kernel, and return the content of the reply.

        `what` names the code in an error. The reply has the values of the `expressions`, by name.
        """
        client = self._client
        assert client is not None  # only in the block
        async with self._lock:
            try:
                reply = await client.execute_interactive(
                    code,
                    store_history=False,
                    allow_stdin=False,
                    user_expressions=dict(expressions or {}),
                    output_hook=_print_output,
                )
            except asyncio.CancelledError:
                await self._manager.interrupt_kernel()
                raise
            except RuntimeError as exc:
                raise StorageError(f"the kernel of {self._path} has ended") from exc

        content = reply["content"]
        if content["status"] != "ok":
            error = f"{content.get('ename')}: {content.get('evalue')}"
            hint = ". Put the imports of a tool into its cell" if "Name" in error else ""
            raise UsageError(f"{what} of {self._path} failed: {one_line(error, limit=500)}{hint}")
        return content


def _print_output(message: Mapping[str, Any]) -> None:
    if message["msg_type"] == "stream":
        print(plain(str(message["content"]["text"])), end="", file=sys.stderr, flush=True)

"""Load the tools of a module, a Python file, or a notebook for `jp-nb mcp`.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from jp_nb.errors import UsageError
from jp_nb.headless.tool_server.mcp_server import ToolRunner
from jp_nb.headless.tool_server.tool_host import ToolHost
from jp_nb.storage.trust import FolderTrust
from jp_nb.text import one_line


@asynccontextmanager
async def open_served_source(source: str) -> AsyncIterator[ToolRunner]:
    """Yield the tools of `source`. A notebook has a kernel, which ends with the block.

    Raises:
        UsageError: The module cannot be imported, or a notebook has no tools or no kernel.
        StorageError: The notebook cannot be read.
    """
    if source.endswith(".ipynb"):
        # The kernel client loads slowly, so it loads in a thread, and the
        # server answers the MCP client meanwhile.
        module = await asyncio.to_thread(import_module, "jp_nb.headless.tool_server.kernel_tools")
        async with module.KernelTools(Path(source)) as tools:
            yield tools
        return

    # The import registers the tools. `ToolHost` takes them from the registry.
    folder = await asyncio.to_thread(_import_source, source)
    yield ToolHost(folder, FolderTrust())


def _import_source(source: str) -> Path:
    """Import the module or the file `source`, and return its folder.

    Raises:
        UsageError: It cannot be imported.
    """
    folder = Path.cwd()
    try:
        if source.endswith(".py"):
            path = Path(source).resolve()
            folder = path.parent
            sys.path.insert(0, str(folder))
            _import_file(path)
        else:
            sys.path.insert(0, str(folder))
            import_module(source)
    except Exception as exc:  # whatever the code of the module raises
        reason = one_line(f"{type(exc).__name__}: {exc}", limit=500)
        raise UsageError(f"{source} cannot be imported: {reason}") from exc
    return folder


def _import_file(path: Path) -> None:
    """Import the file as a module with its name."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")

    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)

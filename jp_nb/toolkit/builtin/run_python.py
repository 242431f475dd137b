"""Tool that runs Python code in the notebook's kernel.

Source: `docs/notebook-tools.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.images import Image
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.notebook_access import CodeRun
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

RUN_PYTHON_DESCRIPTION: Final = """\
Run Python code in the notebook's kernel, like a cell of the notebook. Returns the printed text, \
the value of the last expression, figures, and errors. The code uses the variables of the \
notebook, and its changes remain. Usually the user sees the exact code before it runs, and can \
edit or refuse it. Write short code that does one thing. Print only the data that you need. Change \
nothing that the user did not ask you to change."""

RUN_PYTHON_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "contentMediaType": "text/x-python",
            "description": (
                "Python code for one cell. The value of the last expression is "
                "shown. `await` works at top level."
            ),
        }
    },
    "required": ["code"],
    "additionalProperties": False,
}
NOTHING_SHOWN: Final = "The code ran and showed no output."
NO_NOTEBOOK: Final = "This conversation has no notebook to run the code in. Do not try again."
NO_CODE: Final = "`code` is empty. Give the code to run, as a text."


class RunPython(Tool):
    """Tool that runs code in the cell's thread, in the user's namespace."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": "explicit",
        "run": "ask",
        "covers": "arguments",
        "description": RUN_PYTHON_DESCRIPTION,
    }
    schema = RUN_PYTHON_SCHEMA
    waits_for_cell = True

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | ToolFailure:
        """Return `arguments`, or a failure if there is no code."""
        code = arguments.get("code")
        return arguments if isinstance(code, str) and code.strip() else ToolFailure(NO_CODE)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run the code, and return its outputs and its error."""
        notebook = context.notebook
        if notebook is None:
            return ToolFailure(NO_NOTEBOOK)
        code = str(arguments.get("code", ""))
        return make_run_outcome(await cell.call(lambda: notebook.execute(code)))


def make_run_outcome(run: CodeRun) -> Success | ToolFailure:
    """Return the outputs and the error of a run for the model."""
    texts: list[str] = []
    images: list[Image] = []
    for output in run.outputs:
        text = output.text.removesuffix("\n")
        if text:
            texts.append(text)
        images += output.images
    printed = "\n".join(texts)

    if run.error is None:
        if not printed and not images:
            return Success(NOTHING_SHOWN)
        return Success(printed, images=tuple(images))

    parts = [run.error]
    if run.frames:
        parts.append(f"Raised in the code at:\n{run.frames}")
    if printed:
        parts.append(f"Output before the error:\n{printed}")
    if images:
        parts.append(
            "The code also showed images. Only the user sees them: an error is sent without images."
        )
    return ToolFailure("\n\n".join(parts))

"""`run_python`: the model runs code in the notebook's kernel, which a person has seen before.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.image import Image
from jp_nb.tooling.base import CellThread, ToolDefaults
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.notebook_access import CellOutput, CodeRun
from jp_nb.tooling.outcome import Failure, Outcome, Success

DESCRIPTION: Final = """\
Run Python code in the notebook's kernel, like a cell of the notebook. Returns the printed text, \
the value of the last expression, figures, and errors. The code uses the variables of the \
notebook, and its changes remain. Usually the user sees the exact code before it runs, and can \
edit or refuse it. Write short code that does one thing. Print only the data that you need. Change \
nothing that the user did not ask you to change."""

SCHEMA: Final[dict[str, JsonValue]] = {
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


class RunPython(ToolDefaults):
    """Runs code on the cell's thread, in the user's namespace."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": "explicit",
        "run": "ask",
        "covers": "arguments",
        "description": DESCRIPTION,
    }
    schema = SCHEMA
    waits_for_cell = True

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | Failure:
        """Return `arguments`, or that there is no code: nobody is asked about that."""
        code = arguments.get("code")
        return arguments if isinstance(code, str) and code.strip() else Failure(NO_CODE)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run the code once, and return what it showed and how it ended."""
        notebook = context.notebook
        if notebook is None:
            return Failure(NO_NOTEBOOK)
        code = str(arguments.get("code", ""))
        return _outcome(await cell.call(lambda: notebook.execute(code)))


def _outcome(run: CodeRun) -> Outcome:
    shown, images = _text(run.outputs), _images(run.outputs)
    if run.error is None:
        return Success(shown or ("" if images else NOTHING_SHOWN), images=images)
    parts = [run.error]
    if run.frames:
        parts.append(f"Raised in the code at:\n{run.frames}")
    if shown:
        parts.append(f"Output before the error:\n{shown}")
    if images:
        parts.append(
            "The code also showed images. Only the user sees them: an error is sent without images."
        )
    return Failure("\n\n".join(parts))


def _text(outputs: Iterable[CellOutput]) -> str:
    """Return the texts of `outputs`, each beginning in a line of its own."""
    return "\n".join(text for each in outputs if (text := each.text.removesuffix("\n")))


def _images(outputs: Iterable[CellOutput]) -> tuple[Image, ...]:
    return tuple(image for each in outputs for image in each.images)

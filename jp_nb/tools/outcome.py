"""What one run of a tool comes to.

Source: `spec/tools-and-turn-loop.md` section 3.4.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from jp_nb.tools.question import Question


class Success(BaseModel):
    """The tool is done: `content` is what the model reads.

    `config` (a partial configuration) and `unset` (paths) propose a change of the configuration.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: Literal["success"] = "success"
    content: str
    config: JsonValue = None
    unset: tuple[str, ...] = ()

    def __init__(self, content: str = "", /, **data: object) -> None:
        super().__init__(**({"content": content} | data))


class Failure(BaseModel):
    """The tool failed; `message` is written for the model.

    `trace` holds further lines. `transient` never reaches the model: advice on trying again
    belongs into the message (RFD 083).
    """

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: Literal["error"] = "error"
    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False

    def __init__(self, message: str = "", /, **data: object) -> None:
        super().__init__(**({"message": message} | data))


class NeedsInput(BaseModel):
    """The tool must know something first; it is run again with the answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    type: Literal["needs_input"] = "needs_input"
    question: Question

    def __init__(self, question: Question | None = None, /, **data: object) -> None:
        super().__init__(**(data if question is None else {"question": question} | data))


Outcome = Success | Failure | NeedsInput
OUTCOME: TypeAdapter[Outcome] = TypeAdapter(
    Annotated[Outcome, Field(discriminator="type")]
)  # for tools that speak JSON

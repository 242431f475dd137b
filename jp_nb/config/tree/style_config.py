"""Settings of the display, of interrupts, of prompts, and of the record.

Source: `docs/configuration.md`, `docs/guide.md`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from jp_nb.config.tree.node import (
    ConfigTable,
    Count,
    Flag,
    Number,
    Positive,
    before,
    found,
    shortened,
    table,
    word,
)
from jp_nb.config.tree.strategy import APPEND_SET

# --- what a cell shows -----------------------------------------------------------------------


_DISPLAYS = ("full", "hidden", "static")
# Of a terminal, and too lively for a cell.
_AS_STATIC = ("summary", "progress", "timer")


def _display(value: Any) -> Any:
    """A word, or how many characters are shown."""
    if value in _DISPLAYS:
        return value
    if value in _AS_STATIC:
        return "static"
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(
        f"expected one of {', '.join(_DISPLAYS)}, or a number of characters, {found(value)}"
    )


class ReasoningStyle(ConfigTable):
    """Display of reasoning.

    Attributes:
        display: `full` shows the reasoning folded, as does a number. `hidden` and `static` hide it.
    """

    display: Annotated[Literal["full", "hidden", "static"] | int, before(_display)] = "full"


class ToolCallStyle(ConfigTable):
    """Display of tool calls.

    Attributes:
        show: `false` to hide all tool calls.
    """

    show: Flag = True


_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?")


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError(
            f"expected a host, such as `example.org` or `localhost:8080`, not {shortened(value)!r}"
        )
    return value.lower()


Host = Annotated[str, AfterValidator(_host)]
REMOTE_IMAGES: Final = ("style", "remote_images")
"""Hosts that are sent what an image's address holds, as soon as an answer is shown."""


class Style(ConfigTable):
    """Display of a turn in a cell.

    Attributes:
        remote_images: Hosts whose images are loaded. Images of other hosts are shown as links.
        update_interval_ms: Interval between updates of the display, in milliseconds.
    """

    reasoning: ReasoningStyle = table()
    tool_call: ToolCallStyle = table()
    remote_images: Annotated[list[Host], APPEND_SET] = Field([])
    update_interval_ms: Count = 100


# --- interrupts ------------------------------------------------------------------------------

StreamingAction = Literal["prompt", "continue", "stop", "abort", "reply"]
ToolCallAction = Literal["prompt", "continue", "restart", "respond", "stop"]


class StreamingInterrupt(ConfigTable):
    """Effect of an interrupt while the model answers.

    Attributes:
        action: `prompt` opens a menu. `continue` ignores the interrupt. `stop` ends the turn and
            keeps the response so far, and `abort` discards it. `reply` asks you for a message to
            the model.
    """

    action: Annotated[StreamingAction, word(StreamingAction)] = "prompt"


class ToolCallInterrupt(ConfigTable):
    """Effect of an interrupt while tools run.

    Attributes:
        action: `prompt` opens a menu. `continue` ignores the interrupt. `restart` runs the calls
            again,
            and `stop` ends the turn. `respond` asks you for a message to the model.
    """

    action: Annotated[ToolCallAction, word(ToolCallAction)] = "prompt"


class Interrupt(ConfigTable):
    """Effect of an interrupt of the kernel on a turn.

    Attributes:
        escalation_cooldown_secs: Seconds in which a second interrupt ends the turn.
    """

    escalation_cooldown_secs: Count = 2
    streaming: StreamingInterrupt = table()
    tool_call: ToolCallInterrupt = table()


# --- prompts, record, interpolation ----------------------------------------------------------

Channel = Literal["auto", "widget", "stdin", "never"]
Notify = Literal["off", "on"]


def _on_off(value: Any) -> Any:
    """TOML writers put a boolean where `on` and `off` are meant."""
    return ("off", "on")[value] if isinstance(value, bool) else value


class Prompt(ConfigTable):
    """Prompts to the user.

    Attributes:
        channel: Display of questions: a form (`widget`), an input box (`stdin`), or `auto`. With
            `never`, no user is available.
        rendered_timeout_s: Seconds to wait until a page shows the form.
        timeout_s: Seconds to answer. 0 means no limit.
        notify: `off` to disable the mark in the page title and the notification.
        answers: Path of an answers file, relative to the notebook's folder.
    """

    channel: Annotated[Channel, word(Channel)] = "auto"
    rendered_timeout_s: Annotated[Number, Field(gt=0)] = 3.0
    timeout_s: Annotated[Number, Field(ge=0)] = 0.0
    notify: Annotated[Notify, word(Notify), before(_on_off)] = "on"
    answers: str | None = None


Headless = Literal["new", "continue"]
Rerun = Literal["ask", "replace", "append"]
ProjectLogUse = Literal["auto", "on", "off"]


class Record(ConfigTable):
    """Storage of the record and of answered questions.

    Attributes:
        headless: Headless runs start a `new` conversation, or `continue` that of the notebook.
        rerun: When a cell runs again: replace its turn in a branch, append another turn, or ask.
            Headless, it is always `append`.
        image_max_bytes: Maximum size of an image, in bytes. A larger one is neither stored nor
            sent. 0 stores and sends none.
        images_per_turn: Maximum number of images of a turn. Further ones are neither stored nor
            sent. 0 stores and sends none.
        project_log: Also store answers in `.jp/context/qna.jsonl`, for all notebooks of a
            workspace. With `auto`, they are stored there if the folder `.jp` exists.
        project_log_archives: Number of full files of this log that are kept. 0 keeps all.
        journal: Store entries in your data folder until the notebook contains them.
        reproducible: In headless runs, derive ids and times from positions, so that the same run
            writes the same file.
    """

    headless: Annotated[Headless, word(Headless)] = "new"
    rerun: Annotated[Rerun, word(Rerun)] = "ask"
    image_max_bytes: Count = 262_144
    images_per_turn: Count = 20
    project_log: Annotated[ProjectLogUse, word(ProjectLogUse), before(_on_off)] = "auto"
    project_log_archives: Count = 0
    journal: Flag = True
    reproducible: Flag = False


class Values(ConfigTable):
    """Descriptions of values for the model.

    Attributes:
        image_side: Maximum number of pixels of the longest side of an image.
    """

    image_side: Positive = 768


class Interpolation(ConfigTable):
    """Replacement of `{{name}}` in requests.

    Attributes:
        max_chars: Maximum length of the description of a value.
    """

    max_chars: Positive = 20_000

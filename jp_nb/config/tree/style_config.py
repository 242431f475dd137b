"""Settings of what a cell shows, of prompts, of interrupts and of the record.

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
    """Display of reasoning: folded, hidden, as a note, or truncated to a number of characters."""

    display: Annotated[Literal["full", "hidden", "static"] | int, before(_display)] = "full"


class ToolCallStyle(ConfigTable):
    """Display of tool calls."""

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

    `remote_images` names the hosts whose images are loaded; those of all others are links.
    """

    reasoning: ReasoningStyle = table()
    tool_call: ToolCallStyle = table()
    remote_images: Annotated[list[Host], APPEND_SET] = Field([])
    update_interval_ms: Count = 100


# --- interrupts ------------------------------------------------------------------------------

StreamingAction = Literal["prompt", "continue", "stop", "abort", "reply"]
ToolCallAction = Literal["prompt", "continue", "restart", "respond", "stop"]


class StreamingInterrupt(ConfigTable):
    """The action of an interrupt while a model answers."""

    action: Annotated[StreamingAction, word(StreamingAction)] = "prompt"


class ToolCallInterrupt(ConfigTable):
    """The action of an interrupt while tools run."""

    action: Annotated[ToolCallAction, word(ToolCallAction)] = "prompt"


class Interrupt(ConfigTable):
    """The effect of an interrupt of the kernel on a turn."""

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

    `answers` is a file that answers in their place; relative to the notebook's folder.
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

    `project_log` says whether answers are also kept in `.jp/context/qna.jsonl`, for all notebooks
    of a workspace; with `auto` they are where there is a `.jp/` folder. `project_log_archives` is
    how many full files of it are kept; 0 is all of them. `rerun` says what becomes of a cell whose
    request is in the conversation already: a branch before that turn (`replace`), another turn
    (`append`, as always where nobody is there), or what the person says. Images with more than
    `image_max_bytes`, and more of them in one turn than `images_per_turn`, are neither kept nor
    sent; 0 keeps none. `journal` keeps in the user's data directory what the notebook does not have
    yet. With `reproducible` the ids and times of a headless run are made of their positions, so
    that the same run writes the same file.
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
    """Description of values for models. `image_side` is the longest side of an image in pixels."""

    image_side: Positive = 768


class Interpolation(ConfigTable):
    """Limits of `{{value}}`."""

    max_chars: Positive = 20_000

"""`AppConfig`, the root of the configuration, and its smaller tables: display, prompts, record.

Unknown keys are errors, except in `model.parameters`. JP is another program that reads the same
files, so the settings that only JP has are accepted and ignored. A text in an unknown form is a
`ValueError` with the accepted forms. The types of settings, such as `Flag`, are in `base.py`, and
their merge rules, such as `APPEND_SET_MERGE`, in `merge_rules.py`. `before(read)` calls `read` with
a value as it is written, and validates the result. `table()` is the default of a table: one with
the defaults of all its fields. The texts below fields are their descriptions in
`docs/reference/settings.md`.

Source: `docs/configuration.md`, `docs/guide.md`.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field, JsonValue

from jp_nb.config.tree.assistant_settings import Assistant
from jp_nb.config.tree.base import ConfigTable, ShortTable, table
from jp_nb.config.tree.conversation_settings import ConversationConfig
from jp_nb.config.tree.merge_rules import APPEND_SET_MERGE, PRESERVE_MERGE
from jp_nb.config.tree.providers_table import Providers
from jp_nb.config.tree.server_settings import McpStartup
from jp_nb.config.tree.value_checks import (
    Count,
    Flag,
    Number,
    Positive,
    before,
    read_number,
    read_on_off,
)
from jp_nb.config.tree.value_errors import UnexpectedValueError, shorten_for_error

ReasoningDisplay = Literal["full", "hidden", "static"]


def _read_display(value: Any) -> Any:
    if value in get_args(ReasoningDisplay):
        return value
    if value in ("summary", "progress", "timer"):  # JP animates these in a terminal
        return "static"
    if (number := read_number(value)) is not None:
        return number
    listed = ", ".join(get_args(ReasoningDisplay))
    raise UnexpectedValueError(f"one of {listed}, or a number of characters", value)


class ReasoningStyle(ConfigTable):
    """Display of reasoning."""

    display: Annotated[ReasoningDisplay | int, before(_read_display)] = "full"
    """`full` shows the reasoning folded, as does a number. `hidden` and `static` hide it."""


class ToolCallStyle(ConfigTable):
    """Display of tool calls."""

    show: Flag = True
    """`false` to hide all tool calls."""


_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?")


def _read_host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError(
            "expected a host, such as `example.org` or `localhost:8080`, "
            f"not {shorten_for_error(value)!r}"
        )
    return value.lower()


ImageHost = Annotated[str, AfterValidator(_read_host)]
REMOTE_IMAGES: Final = ("style", "remote_images")
"""Path of the hosts whose images are loaded. No tool may change it (`proposal_reading.py`): a host
receives the address of each image, with any data that a tool has put into it."""


class Style(ConfigTable):
    """Display of a turn in a cell."""

    reasoning: ReasoningStyle = table()
    tool_call: ToolCallStyle = table()
    mcp_startup: McpStartup = table()
    remote_images: Annotated[list[ImageHost], APPEND_SET_MERGE] = Field(default_factory=list)
    """Hosts whose images are loaded. Images of other hosts are shown as links."""
    update_interval_ms: Count = 100
    """Interval between updates of the display, in milliseconds."""


class StreamingInterrupt(ConfigTable):
    """Effect of an interrupt while the model answers."""

    action: Literal["prompt", "continue", "stop", "abort", "reply"] = "prompt"
    """`prompt` opens a menu. `continue` ignores the interrupt. `stop` ends the turn and keeps the
    response so far, and `abort` discards it. `reply` asks you for a message to the model."""


class ToolCallInterrupt(ConfigTable):
    """Effect of an interrupt while tools run."""

    action: Literal["prompt", "continue", "restart", "respond", "stop"] = "prompt"
    """`prompt` opens a menu. `continue` ignores the interrupt. `restart` runs the calls again, and
    `stop` ends the turn. `respond` asks you for a message to the model."""


class Interrupt(ConfigTable):
    """Effect of an interrupt of the kernel on a turn."""

    escalation_cooldown_secs: Count = 2
    """Seconds in which a second interrupt ends the turn."""
    streaming: StreamingInterrupt = table()
    tool_call: ToolCallInterrupt = table()


PromptChannel = Literal["auto", "widget", "stdin", "never"]


class PromptConfig(ConfigTable):
    """Prompts to the user."""

    channel: PromptChannel = "auto"
    """Display of questions: a form (`widget`), an input box (`stdin`), or `auto`. With `never`, no
    user is available."""
    rendered_timeout_s: Annotated[Number, Field(gt=0)] = 3.0
    """Seconds to wait until a page shows the form."""
    timeout_s: Annotated[Number, Field(ge=0)] = 0.0
    """Seconds to answer. 0 means no limit."""
    notify: Annotated[Literal["off", "on"], before(read_on_off)] = "on"
    """`off` to disable the mark in the page title and the notification."""
    answers: str | None = None
    """Path of an answers file, relative to the notebook's folder."""


class Record(ConfigTable):
    """Storage of the record and of answered questions."""

    headless: Literal["new", "continue"] = "new"
    """Headless runs start a `new` conversation, or `continue` that of the notebook."""
    rerun: Literal["ask", "replace", "append"] = "ask"
    """When a cell runs again: replace its turn in a branch, append another turn, or ask. Headless,
    it is always `append`."""
    image_max_bytes: Count = 262_144
    """Maximum size of an image or PDF, in bytes. A larger one is neither stored nor sent. 0 stores
    and sends none."""
    images_per_turn: Count = 20
    """Maximum number of images and PDFs of a turn. Further ones are neither stored nor sent. 0
    stores and sends none."""
    project_log: Annotated[Literal["auto", "on", "off"], before(read_on_off)] = "auto"
    """Also store answers in `.jp/context/qna.jsonl`, for all notebooks of a workspace. With `auto`,
    they are stored there if the folder `.jp` exists."""
    project_log_archives: Count = 0
    """Number of full files of this log that are kept. 0 keeps all."""
    journal: Flag = True
    """Store entries in your data folder until the notebook contains them."""
    reproducible: Flag = False
    """In headless runs, derive ids and times from positions, so that the same run writes the same
    file."""


class Values(ConfigTable):
    """Descriptions of values for the model."""

    image_side: Positive = 768
    """Maximum number of pixels of the longest side of an image."""


class Interpolation(ConfigTable):
    """Replacement of `{{name}}` in requests."""

    max_chars: Positive = 20_000
    """Maximum length of the description of a value."""


class User(ConfigTable):
    """The user. These settings are never sent to a provider."""

    name: str | None = None
    """Name that is recorded with the user's requests."""


class Template(ConfigTable):
    """Variables for the prompt templates of JP. `jp_nb` does not use them."""

    values: dict[str, JsonValue] = Field(default_factory=dict)
    """Values by variable name."""


class Extend(ShortTable):
    """An included configuration file. A plain text is its path."""

    path: str
    """Path of the file, or a pattern for several files."""
    strategy: Literal["before", "after"] = "before"
    """With `before`, this file overrides the included one. With `after`, the included file
    overrides this one."""

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Return the table for a value that is not a table: a text, which is the path."""
        if isinstance(value, str):
            return {"path": value, "strategy": "before"}
        raise UnexpectedValueError("a path, or a table of path and strategy", value)


def _check_relative(value: str) -> str:
    absolute = PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()
    if not value.strip() or absolute:
        raise UnexpectedValueError("a path relative to the workspace", value)
    return value


class AppConfig(ConfigTable):
    """Settings of a configuration file itself."""

    # The reference lists the fields that are tables as sections of their own. The docstring is the
    # title of the others, which are settings of a file.

    inherit: Flag | None = None
    """`false` to ignore all weaker configuration files. Only in files."""
    id: str | None = None
    """Name of the file. Only in files; `jp_nb` does not use it."""
    extends: Annotated[list[Extend], PRESERVE_MERGE] = Field(default_factory=list)
    """Included configuration files. Only in files."""
    config_load_paths: Annotated[
        list[Annotated[str, AfterValidator(_check_relative)]], APPEND_SET_MERGE
    ] = Field(default_factory=list)
    """Folders that `-c NAME` searches for configuration files, relative to the workspace."""
    template: Template = table()
    user: User = table()
    assistant: Assistant = table()
    conversation: ConversationConfig = table()
    style: Style = table()
    interrupt: Interrupt = table()
    providers: Providers = table()
    prompt: PromptConfig = table()
    record: Record = table()
    interpolation: Interpolation = table()
    values: Values = table()

"""`AppConfig`, the root of the configuration, with settings of conversations and display.

Unknown keys are errors, except in `model.parameters`. JP is another program that reads the same
files, so the settings that only JP has are accepted and ignored. A text in an unknown form is a
`ValueError` with the accepted forms.

Source: `docs/configuration.md`, `docs/guide.md`, `docs/record.md` (RFD 064).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, ClassVar, Final, Literal, get_args
from urllib.parse import parse_qs, quote, unquote, urlencode

from pydantic import AfterValidator, Field, JsonValue

from jp_nb.config.tree.base import (
    APPEND_SET,
    DEEP,
    PLAIN,
    PRESERVE,
    TABLE,
    TABLE_OR_PLAIN,
    ConfigTable,
    Count,
    Flag,
    Merge,
    Number,
    Positive,
    ShortTable,
    UnexpectedValueError,
    before,
    describe_found,
    one_of,
    read_number,
    read_on_off,
    shorten_for_error,
    table,
)
from jp_nb.config.tree.model_settings import Assistant, AssistantOverrides, ModelChoice, Providers
from jp_nb.config.tree.server_settings import McpStartup
from jp_nb.config.tree.tool_settings import STAR, Command, Enable, ToolConfig

Display = Literal["full", "hidden", "static"]


def _read_display(value: Any) -> Any:
    if value in get_args(Display):
        return value
    if value in ("summary", "progress", "timer"):  # animated displays of a terminal
        return "static"
    if (number := read_number(value)) is not None:
        return number
    listed = ", ".join(get_args(Display))
    raise UnexpectedValueError(f"one of {listed}, or a number of characters", value)


class ReasoningStyle(ConfigTable):
    """Display of reasoning."""

    display: Annotated[Display | int, before(_read_display)] = "full"
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


Host = Annotated[str, AfterValidator(_read_host)]
REMOTE_IMAGES: Final = ("style", "remote_images")
"""Path of the hosts whose images are loaded. A host receives the address of each image."""


class Style(ConfigTable):
    """Display of a turn in a cell."""

    reasoning: ReasoningStyle = table()
    tool_call: ToolCallStyle = table()
    mcp_startup: McpStartup = table()
    remote_images: Annotated[list[Host], APPEND_SET] = Field(default_factory=list)
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


Channel = Literal["auto", "widget", "stdin", "never"]


class PromptConfig(ConfigTable):
    """Prompts to the user."""

    channel: Channel = "auto"
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


BoundKind = Literal["count", "turn", "from_end", "duration", "last"]

_SECONDS: Final = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
}  # fmt: skip
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}\s*[a-z]+\s*)+")
_PART: Final = re.compile(r"([0-9]{1,9})\s*([a-z]+)")
LAST: Final = "last-compaction"
_EXPECTED: Final = (
    "expected a number of turns, `@N` (turn N, counted from 1), `-N` (N turns before the last), "
    "or a duration such as `5h`"
)


@dataclass(frozen=True, slots=True)
class TurnBound:
    """One end of a range of turns."""

    kind: BoundKind
    """Meaning of `amount`. `count`: number of turns to keep. `turn`: 0-based number of the turn
    itself. `from_end`: number of turns before the last. `duration`: seconds. `last`: the turn after
    the newest compaction, without an amount."""
    amount: float = 0


def parse_bound(text: str, *, may_be_last: bool = True) -> TurnBound:
    """Return the bound for `text`."""
    word = text.strip().lower()
    if word in ("last", LAST) and may_be_last:
        return TurnBound("last")
    if _WHOLE.fullmatch(word):
        return TurnBound("count", int(word))
    if word[:1] == "-" and _WHOLE.fullmatch(word[1:]):
        return TurnBound("from_end", int(word[1:]))
    if word[:1] == "@" and _WHOLE.fullmatch(word[1:]) and int(word[1:]):
        return TurnBound("turn", int(word[1:]) - 1)
    parts = _PART.findall(word) if len(word) <= 80 and _DURATION.fullmatch(word) else []
    if not parts or not all(unit in _SECONDS for _, unit in parts):
        or_last = f", or `{LAST}`" if may_be_last else ""
        raise ValueError(f"{_EXPECTED}{or_last}, {describe_found(text)}")
    return TurnBound("duration", sum(int(count) * _SECONDS[unit] for count, unit in parts))


def _normalize_bound(value: Any, *, may_be_last: bool) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{_EXPECTED}, {describe_found(value)}")
    bound = parse_bound(value, may_be_last=may_be_last)
    return LAST if bound.kind == "last" else value.strip().lower()


FirstBound = Annotated[str, before(lambda value: _normalize_bound(value, may_be_last=True))]
LastBound = Annotated[str, before(lambda value: _normalize_bound(value, may_be_last=False))]


ToolCalls = Literal["strip", "strip-responses", "strip-requests", "omit"]
_SHORT: Final = {"s": "strip", "sres": "strip-responses", "sreq": "strip-requests", "o": "omit"}


def parse_tool_calls(value: Any) -> Any:
    """Return the long spelling of `tool_calls`; other values are not changed."""
    if not isinstance(value, str):
        return value
    return _SHORT.get(value, value.replace("_", "-"))


class SummaryConfig(ConfigTable):
    """A summary that replaces turns in the context."""

    model: ModelChoice = table()
    instructions: str | None = None
    """Instructions for the model that writes the summary."""
    context: str | None = None
    """The purpose of the summary. It is added to the instructions."""


class CompactionRule(ConfigTable):
    """A rule for a range of turns. Each rule makes one entry in the record."""

    keep_first: FirstBound = "1"
    """Start of the range: a number of turns to keep, `@N` for turn N (from 1), `-N` for N turns
    before the last, a duration such as `5h`, or `last-compaction`."""
    keep_last: LastBound = "1"
    """End of the range: as `keep_first`, without `last-compaction`."""
    reasoning: Literal["strip"] | None = None
    """`strip` to omit reasoning. It has no effect with a summary."""
    tool_calls: Annotated[ToolCalls | None, before(parse_tool_calls)] = None
    """Omit the arguments and results of tool calls, one of them, or with `omit` the calls as well.
    It has no effect with a summary."""
    summary: SummaryConfig | None = None


class AutoCompaction(ConfigTable):
    """Limits that start a compaction before a turn. 0 means no limit."""

    max_tokens: Count = 0
    """Maximum number of tokens of a request, by estimate."""
    max_turns: Count = 0
    """Maximum number of turns that are sent whole."""

    @property
    def is_on(self) -> bool:
        """True if there is a limit."""
        return self.max_tokens > 0 or self.max_turns > 0


class CompactionConfig(ConfigTable):
    """Compaction of long conversations."""

    rules: Annotated[list[CompactionRule], Merge("append", annotated=True)] = Field(
        default_factory=list
    )
    """The rules. Without a rule, reasoning and the arguments and results of tool calls are
    omitted."""
    auto: AutoCompaction = table()

    @property
    def effective_rules(self) -> tuple[CompactionRule, ...]:
        """The configured rules, or the default rules."""
        return tuple(self.rules) or (CompactionRule(reasoning="strip", tool_calls="strip"),)


IGNORED_SETTINGS: Final = frozenset(
    {
        "assistant.request.cache",
        "conversation.default_id",
        "conversation.inquiry.assistant.request.cache",
        "conversation.start_local",
        "conversation.title",
        "conversation.tools.*.questions.*.target.request.cache",
        "conversation.tools.*.style.error.results_file_link",
        "conversation.tools.*.style.results_file_link",
        "editor",
        "interrupt.*.compose_in_editor",
        "loader",
        "plugins",
        "providers.llm.*.auth",
        "style.code",
        "style.inline_code",
        "style.lock_wait",
        "style.markdown",
        "style.reasoning.background",
        "style.reasoning.extend_across_tool_calls",
        "style.reasoning.summary_model",
        "style.streaming",
        "style.tool_call.preparing",
        "style.tool_call.progress",
        "style.typewriter",
    }
)
"""Paths of settings that only JP has, with all settings below; `*` matches any key."""

IGNORED_PATTERNS: Final = tuple(tuple(path.split(".")) for path in sorted(IGNORED_SETTINGS))


def overlaps(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """Return True if `pattern` is at, above, or below `keys`; `*` in it matches any key."""
    return all(part in ("*", key) for part, key in zip(pattern, keys, strict=False))


def covers(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """Return True if `pattern` is at or above `keys`."""
    return len(pattern) <= len(keys) and overlaps(pattern, keys)


def is_ignored(keys: Sequence[str]) -> bool:
    """Return True if `keys` are a setting that only JP has, or below one."""
    return any(covers(pattern, keys) for pattern in IGNORED_PATTERNS)


_URL = re.compile(r"(?P<type>[A-Za-z][A-Za-z0-9+._-]+):(//)?(?P<rest>\S.*)", re.S)
_SAFE = "/:@!$&'()*+,;=~[]"


@dataclass(frozen=True, slots=True)
class AttachmentParts:
    """Parts of an attachment's URL. A parameter that is given twice has a list of values."""

    type: str
    path: str
    params: dict[str, str | list[str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL."""
        query = urlencode(self.params, doseq=True, quote_via=quote)
        return f"{self.type}://{quote(self.path, safe=_SAFE)}{'?' if query else ''}{query}"


def parse_attachment_url(url: str) -> AttachmentParts:
    """Return the parts of `url`."""
    match = _URL.fullmatch(url)
    if match is None:
        raise UnexpectedValueError("a URL such as file://notes.md", url)
    path, _, query = match["rest"].partition("?")
    values = parse_qs(query, keep_blank_values=True)
    params: dict[str, str | list[str]] = {
        name: one[0] if len(one) == 1 else one for name, one in values.items()
    }
    return AttachmentParts(match["type"], unquote(path), params)


def format_attachment_url(value: Any) -> str:
    """Return the URL of an attachment: a URL, or a table of type (or kind), path, and params."""
    if isinstance(value, AttachmentParts):
        return value.url
    if isinstance(value, str):
        parse_attachment_url(value)
        return value
    if not isinstance(value, dict):
        raise UnexpectedValueError(
            "a URL such as file://notes.md, or a table of type, path, and params", value
        )
    table = {"type" if key == "kind" else key: one for key, one in value.items()}
    unknown = [str(key) for key in table if key not in ("type", "path", "params")]
    if unknown or len(table) != len(value):
        wrong = f"unknown key {unknown[0]!r}" if unknown else "type and kind are both given"
        raise UnexpectedValueError("type, path, and params", cause=wrong)
    for key in ("type", "path"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise UnexpectedValueError(f"a text for {key!r}", table.get(key))
    params = {} if table.get("params") is None else table["params"]
    values = params.values() if isinstance(params, dict) else [None]
    texts = [text for one in values for text in (one if isinstance(one, list) else [one])]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("expected for 'params' a table of texts and lists of texts")
    return format_attachment_url(AttachmentParts(table["type"], table["path"], params).url)


def parse_attachment_argument(text: str, *, within: str = "") -> str:
    """Return the URL for the argument `text` of `-a`: a URL, or the path of a file.

    A relative path is relative to the folder `within` of the workspace.
    """
    if not text.strip():
        raise ValueError("expected the path of a file, or a URL such as file://notes.md")
    if _URL.fullmatch(text):
        return text
    if text.startswith("~"):
        return AttachmentParts("file", text).url
    path = posixpath.normpath(posixpath.join(within, text))
    return AttachmentParts("file", f"./{path}" if path.startswith("~") else path).url


Attachment = Annotated[str, before(format_attachment_url)]


class LabelCommand(ConfigTable):
    """A label whose value is the output of a command."""

    cmd: Command


class ApplyOn(ConfigTable):
    """New conversations that get the label."""

    new: Flag = True
    """Conversations that start empty."""
    fork: Flag = False
    """Copies of other conversations."""


class Label(ShortTable):
    """A label of conversations in JP. A plain text is its value. `jp_nb` does not use labels."""

    TEXT: ClassVar[str] = "value"
    FORMS: ClassVar[str] = "a text, or a table of value, apply_on, and run"

    value: Annotated[
        Annotated[str, PLAIN] | Annotated[LabelCommand, TABLE],
        TABLE_OR_PLAIN,
        one_of(str, dict, LabelCommand, expected="a text, or a table with the command `cmd`"),
    ]
    """The value, or a command that prints it."""
    apply_on: ApplyOn = table()
    run: Literal["ask", "unattended", "deny"] = "ask"
    """Permission to run the command."""


def _check_label_key(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value):
        cause = f"{shorten_for_error(value)!r} is not a label name"
        raise UnexpectedValueError("a letter, followed by letters, digits, _, or -", cause=cause)
    return value


LabelKey = Annotated[str, AfterValidator(_check_label_key)]


class InquiryConfig(ConfigTable):
    """The model that answers questions of tools instead of the user."""

    assistant: AssistantOverrides = table()


ATTACHMENTS = Merge("append", dedup=True, items="set", annotated=True)


class ConversationConfig(ConfigTable):
    """Settings of a conversation."""

    tools: dict[str, ToolConfig] = Field(default_factory=dict)
    """The tools, by name."""
    toolsets: dict[str, Enable] = Field(default_factory=dict)
    """Toolsets that are on or off, by name: `true`, `false`, or a table. A tool's own `enable`
    overrides its toolset."""
    attachments: Annotated[list[Attachment], ATTACHMENTS] = Field(default_factory=list)
    """Files, file patterns, and variables that are sent with each request."""
    labels: Annotated[dict[LabelKey, Label], DEEP] = Field(default_factory=dict)
    """Labels of the conversation, by name."""
    inquiry: InquiryConfig = table()
    compaction: CompactionConfig = table()

    def get_tool_state(self, name: str) -> tuple[bool, str]:
        """Return the state and the toggle rule of tool `name`.

        Each of the two comes from the tool, its toolset, the tool `*`, or the default (on, `any`).
        """
        tool = self.tools[name]
        star = self.tools.get(STAR)
        toolset = self.toolsets.get(tool.toolset) if tool.toolset else None
        candidates = (tool.enable, toolset, star.enable if star else None)
        sources = [source for source in candidates if source is not None]
        states = (source.state for source in sources if source.state is not None)
        rules = (source.allow_toggle for source in sources if source.allow_toggle is not None)
        return next(states, True), next(rules, "any")

    def list_toolset_tools(self, name: str) -> list[str]:
        """Return the names of the tools of toolset `name`."""
        return [tool for tool, config in self.tools.items() if config.toolset == name]

    def list_toolsets(self) -> list[str]:
        """Return the names of the toolsets that have tools, sorted."""
        return sorted({tool.toolset for tool in self.tools.values() if tool.toolset})

    def list_source_toolsets(self) -> list[str]:
        """Return the names of the toolsets of sources that discover their tools: `mcp.books`."""
        return sorted(name for name in self.toolsets if "." in name)

    def list_tools_from(self, source: str) -> list[str]:
        """Return the names of the tools with this `source`, such as `mcp.books.search`."""
        if "." not in source or source in self.toolsets:
            return []
        return [name for name, tool in self.tools.items() if tool.source == source]

    def tools_by_toolset(self) -> dict[str, list[str]]:
        """Return the names of the tools of each toolset."""
        return {name: self.list_toolset_tools(name) for name in self.list_toolsets()}


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
        """Return the table of a text, which is the path."""
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

    # The docstring describes the fields without a table in `docs/reference/settings.md`.

    inherit: Flag | None = None
    """`false` to ignore all weaker configuration files. Only in files."""
    id: str | None = None
    """Name of the file. Only in files; `jp_nb` does not use it."""
    extends: Annotated[list[Extend], PRESERVE] = Field(default_factory=list)
    """Included configuration files. Only in files."""
    config_load_paths: Annotated[
        list[Annotated[str, AfterValidator(_check_relative)]], APPEND_SET
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

"""The format of a script: the replies of a scripted model, as TOML.

    [[replies]]
    text = "I look."
    tool_calls = [{name = "read_file", arguments = {path = "a.txt"}}]

    [[replies]]
    text = "It is empty."

`Script.parse` reads it. Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from jp_nb.agent.provider_events import Usage
from jp_nb.errors import ConfigError, ProviderError
from jp_nb.providers.network.errors import classify_response

SCRIPTED_NAME: Final = "scripted"


class _ScriptPart(BaseModel):
    """A table of a script. Unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptedCall(_ScriptPart):
    """A tool call of a reply."""

    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ScriptedError(_ScriptPart):
    """HTTP error instead of an answer; in a reply with text, after the text, as a broken stream."""

    status: int = Field(ge=400, le=599)
    retry_after: float | None = Field(default=None, ge=0)
    message: str | None = None

    def to_error(self) -> ProviderError:
        """Return the exception that a real server's response would raise."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        body = json.dumps({"error": {"message": self.message}}) if self.message else ""
        return classify_response(self.status, headers, body, provider=SCRIPTED_NAME)


class Reply(_ScriptPart):
    """One reply of the script.

    Attributes:
        when: Texts that must be in the part of the request after the last response of the model.
            Otherwise the reply is skipped.
        expect: Texts that the instructions, attachments, or conversation must contain. Otherwise
            the request fails.
        reasoning: The reasoning of the model.
        text: The message of the model.
        data: The data of a structured answer.
        tool_calls: The calls of the model.
        chunk_ms: Pause between words; without it, a text is streamed at once.
        finish: The finish reason.
        usage: The tokens that the reply reports.
        error: The error with which the reply ends.
    """

    when: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    reasoning: str | None = None
    text: str | None = None
    data: JsonValue = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    chunk_ms: float | None = Field(default=None, ge=0)
    finish: Literal["completed", "max_tokens", "refused"] = "completed"
    usage: Usage | None = None
    error: ScriptedError | None = None

    @field_validator("when", "expect", mode="before")
    @classmethod
    def _split_single_text(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _require_content(self) -> Self:
        if not self.model_fields_set & {"reasoning", "text", "data", "tool_calls", "error"}:
            raise ValueError("needs one of `text`, `reasoning`, `data`, `tool_calls`, `error`")
        return self


class Script(_ScriptPart):
    """Replies of a scripted model.

    Attributes:
        replies: The replies, in order. A conversation gets each once.
        requests: For the quickstart notebook: texts of which a request must contain one. Each turn
            then begins with the first reply again. For another request,
            `ScriptedProvider.check_ready` reports that no model is configured.
        inquiries: Answers of the model to questions of tools. A key is `TOOL.QUESTION`, with the
            names of both.
        summary: Reply to each request for a summary. None: the next reply.
        name: Name of the script in messages and in the record.
    """

    replies: tuple[Reply, ...] = ()
    requests: tuple[str, ...] = ()
    inquiries: dict[str, JsonValue] = Field(default_factory=dict)
    summary: str | None = None
    name: str = "script"

    @classmethod
    def decode(cls, content: bytes, path: Path | Traversable) -> Self:
        """Parse the `content` of the script file at `path`.

        Raises:
            ConfigError: The content is not a script. The message names file and key.
        """
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ConfigError(f"cannot read the script: {exc}", layer=str(path)) from exc
        return cls.parse(text, name=path.name.removesuffix(".toml"), source=str(path))

    @classmethod
    @lru_cache(maxsize=16)  # each request reads the script again
    def parse(cls, text: str, *, name: str = "script", source: str = "<script>") -> Self:
        """Parse a script in TOML. `source` is its file, for messages.

        Raises:
            ConfigError: The text is not TOML or not a script. The message names the key.
        """
        try:
            return cls.model_validate({"name": name, **tomllib.loads(text)})
        except tomllib.TOMLDecodeError as exc:
            raise ConfigError(f"not TOML: {exc}", kind="malformed", layer=source) from exc
        except ValidationError as exc:
            raise ConfigError(_format_first_error(exc), kind="malformed", layer=source) from exc


def _format_first_error(error: ValidationError) -> str:
    """Return the first error of a script with the path of its key, and a suggestion."""
    first = error.errors()[0]
    path = "".join(map(_format_key, first["loc"])).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")

    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        key = str(first["loc"][-1])
        tables = (Reply, ScriptedCall, ScriptedError, Script)
        known = [name for table in tables for name in table.model_fields]
        near = difflib.get_close_matches(key, known, n=1)
        suggestion = f"; did you mean `{near[0]}`?" if near else ""
        message = f"unknown key{suggestion}"

    return f"{path}: {message}" if path else message


def _format_key(key: int | str) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"

"""Scripts of the scripted provider: their content, and the files that have it.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
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

from jp_nb.agent.provider import Usage
from jp_nb.errors import ConfigError, ProviderError
from jp_nb.file_reading import open_regular, read_regular
from jp_nb.providers.errors import classify_response

MAX_SCRIPT_BYTES: Final = 10_000_000
MAX_SCRIPTS: Final = 1_000
"""Limit of the TOML files in a folder that are searched for scripts."""
SCRIPTED_NAME: Final = "scripted"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptedCall(_Strict):
    """A tool call of a reply."""

    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ScriptedError(_Strict):
    """HTTP error instead of an answer, or after its text, as a broken stream."""

    status: int = Field(ge=400, le=599)
    retry_after: float | None = Field(default=None, ge=0)
    message: str | None = None

    def to_error(self) -> ProviderError:
        """Return the exception that a real server's response would raise."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        body = json.dumps({"error": {"message": self.message}}) if self.message else ""
        return classify_response(self.status, headers, body, provider=SCRIPTED_NAME)


class Reply(_Strict):
    """One reply of the script.

    The entries after the last response must contain the texts of `when`, else the reply is skipped.
    The system texts, attachments, or context must contain those of `expect`, else the request is an
    error.
    """

    when: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    reasoning: str | None = None
    text: str | None = None
    data: JsonValue = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    chunk_ms: float | None = Field(default=None, ge=0)  # between words; None: a few pieces at once
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


class Script(_Strict):
    """Replies of a scripted model.

    Attributes:
        inquiries: Answers of the model to questions of tools, by `tool.question`.
        requests: Texts of the accepted requests. Each turn must begin with a request that contains
            one of them, and gets the replies from the first one. For other requests, `check_ready`
            reports that no model is configured.
        summary: Reply to each request for a summary. None: the next reply.
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
    @lru_cache(maxsize=16)
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
    first = error.errors()[0]
    path = "".join(map(_format_key, first["loc"])).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")

    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        key = str(first["loc"][-1])
        known = [*Reply.model_fields, *ScriptedCall.model_fields, *Script.model_fields]
        near = difflib.get_close_matches(key, known, n=1)
        suggestion = f"; did you mean `{near[0]}`?" if near else ""
        message = f"unknown key{suggestion}"

    return f"{path}: {message}" if path else message


def _format_key(key: int | str) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"


ReadScript = Callable[[Path], bytes]
"""Returns the content of a script file in a folder. It raises a `ConfigError` if the file must not
be used, and an `OSError` if it cannot be read."""


def read_script(path: Path) -> bytes:
    """Return the content of the script file at `path`, of any owner.

    Raises:
        OSError: It cannot be read, is not a regular file, or has more than `MAX_SCRIPT_BYTES`.
    """
    return read_regular(path, max_bytes=MAX_SCRIPT_BYTES)


def load_script(name: str, folders: Sequence[Path], *, read: ReadScript = read_script) -> Script:
    """Return the script `name`, of the first file of that name that may be used.

    The places are `folders`, the `scripts/` folder of each, and the package. `read` reads the files
    of the folders.

    Raises:
        ConfigError: `name` is a path, there is no such script, or it is malformed. If `read`
            refused all files, it is the first refusal.
    """
    refused: ConfigError | None = None
    for file in _find_scripts(name, folders):
        try:
            if not isinstance(file, Path):
                content = file.read_bytes()
            elif file.parent == _packaged_scripts():
                content = read_script(file)
            else:
                content = read(file)
        except ConfigError as exc:
            refused = refused or exc
        except OSError as exc:
            raise ConfigError(f"cannot read the script: {exc}", layer=str(file)) from exc
        else:
            return Script.decode(content, file)

    assert refused is not None
    raise refused


def list_scripts(folders: Sequence[Path]) -> list[str]:
    """Return the names of the scripts in all places, in alphabetical order."""
    return _list_names(_list_places(folders))


def _find_scripts(name: str, folders: Sequence[Path]) -> Iterator[Path | Traversable]:
    """Yield the files of a script, in the order of the places. There is at least one."""
    path = "assistant.model.id.name"
    if not name or "/" in name or "\\" in name or name.startswith("."):
        raise ConfigError(f"{name!r} is not a script name", path=path)

    places = _list_places(folders)
    is_found = False
    for place in places:
        file = place.joinpath(f"{name}.toml")
        if file.is_file():
            is_found = True
            yield file

    if is_found:
        return
    raise ConfigError(
        f"script {name}.toml not found in "
        f"{', '.join(str(place) for place in places[:-1])} or in the package; "
        f"available: {', '.join(_list_names(places)) or 'none'}",
        path=path,
    )


def _list_places(folders: Sequence[Path]) -> list[Path | Traversable]:
    places: list[Path | Traversable] = []
    for folder in folders:
        places += [folder, folder / "scripts"]
    return [*places, _packaged_scripts()]


def _packaged_scripts() -> Traversable:
    return resources.files("jp_nb").joinpath("scripts")


def _list_names(places: Sequence[Path | Traversable]) -> list[str]:
    names: set[str] = set()
    for place in places:
        if place.is_dir():
            names.update(file.name.removesuffix(".toml") for file in _list_files(place))
    return sorted(names)


def _list_files(place: Path | Traversable) -> Iterator[Path | Traversable]:
    """Yield the scripts in `place`. The folder of a notebook contains other TOML files."""
    files = (file for file in place.iterdir() if file.name.endswith(".toml"))
    for file in islice(files, MAX_SCRIPTS):
        if not isinstance(file, Path) or _is_script(file, any_content=place.name == "scripts"):
            yield file


def _is_script(file: Path, *, any_content: bool) -> bool:
    try:
        with os.fdopen(open_regular(file), "rb") as content:
            begin = content.read(64 * 1024)  # enough to recognize the file
    except OSError:
        return False
    return any_content or b"[[replies]]" in begin

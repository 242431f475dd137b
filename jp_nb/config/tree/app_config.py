"""The configuration tree: every field, its type, its default.

Extra keys are errors everywhere but in `model.parameters`; maps are `dict[str, …]`. The tables
are in modules of their own, by topic; here is the root.

Source: `docs/configuration.md`, `docs/guide.md`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue

from jp_nb.config.tree.assistant_config import Assistant
from jp_nb.config.tree.conversation_config import ConversationConfig
from jp_nb.config.tree.node import ConfigTable, Flag, ShortTable, found, table, word
from jp_nb.config.tree.provider_config import Providers
from jp_nb.config.tree.strategy import APPEND_SET, PRESERVE
from jp_nb.config.tree.style_config import Interpolation, Interrupt, Prompt, Record, Style, Values


class User(ConfigTable):
    """The user. These settings are never sent to a provider.

    Attributes:
        name: Name that is recorded with the user's requests.
    """

    name: str | None = None


class Template(ConfigTable):
    """Variables for the prompt templates of JP. `jp_nb` does not use them.

    Attributes:
        values: Values by variable name.
    """

    values: dict[str, JsonValue] = Field({})


Place = Literal["before", "after"]


class Extend(ShortTable):
    """An included configuration file. A plain text is its path.

    Attributes:
        path: Path of the file, or a pattern for several files.
        strategy: With `before`, this file overrides the included one. With `after`, the included
            file overrides this one.
    """

    path: str
    strategy: Annotated[Place, word(Place)] = "before"

    @classmethod
    def expand(cls, value: Any) -> Any:
        """A text is the path."""
        if value is None or isinstance(value, (dict, Extend)):
            return value
        if isinstance(value, str):
            return {"path": value, "strategy": "before"}
        raise ValueError(f"expected a path, or a table of path and strategy, {found(value)}")


def _relative(value: str) -> str:
    from pathlib import PurePosixPath, PureWindowsPath

    absolute = PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()
    if not value.strip() or absolute:
        raise ValueError(f"expected a path relative to the workspace, {found(value)}")
    return value


class AppConfig(ConfigTable):
    """Settings of a configuration file itself.

    Attributes:
        inherit: `false` to ignore all weaker configuration files. Only in files.
        id: Name of the file. Only in files; `jp_nb` does not use it.
        extends: Included configuration files. Only in files.
        config_load_paths: Folders that `-c NAME` searches for configuration files, relative to the
            workspace.
    """

    inherit: Flag | None = None
    id: str | None = None
    extends: Annotated[list[Extend], PRESERVE] = Field([])
    config_load_paths: Annotated[list[Annotated[str, AfterValidator(_relative)]], APPEND_SET] = (
        Field([])
    )
    template: Template = table()
    user: User = table()
    assistant: Assistant = table()
    conversation: ConversationConfig = table()
    style: Style = table()
    interrupt: Interrupt = table()
    providers: Providers = table()
    prompt: Prompt = table()
    record: Record = table()
    interpolation: Interpolation = table()
    values: Values = table()

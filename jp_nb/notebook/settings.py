"""The configuration of a session: what is in force, and how it is changed.

Source: `design/interface.md` section 5, `design/architecture.md` D8, D13, D20, D34.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from jp_nb.config.app_config import AppConfig
from jp_nb.config.assign import parse_assignment
from jp_nb.config.layers import Layer, fold
from jp_nb.config.models import parse, resolve
from jp_nb.config.partial import Partial, at, build, merge, validate
from jp_nb.notebook.config_files import ConfigFiles
from jp_nb.notebook.document import variables
from jp_nb.record.events import ConfigDelta
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from jp_nb.tools.builtin import BUILTINS
from jp_nb.tools.python import REGISTRY

MODEL = "assistant.model.id"


def base_config(files: ConfigFiles) -> Partial:
    """What a new conversation starts from: all that somebody set, and the model (D8).

    Raises:
        ConfigError: If a file or a variable is wrong.
    """
    partial = fold(files.layers())
    return merge(partial, _model(validate(partial).assistant.model.id, partial))


def overrides() -> list[str]:
    """`-c` arguments of the run, if a runner gave some."""
    value = json.loads(os.environ.get(variables.OVERRIDES) or "[]")
    return [str(item) for item in value]


def with_overrides(base: Partial) -> Partial:
    """`base` with the arguments of the run in it (D34)."""
    for text in overrides():
        base = merge(base, _parse(text, base))
    return base


class Settings:
    """The configuration of one conversation, in one notebook.

    Args:
        stream: The conversation.
        files: Files and environment.
        trusted: Whether what the conversation holds already counts in full.
    """

    def __init__(self, stream: ConversationStream, files: ConfigFiles, *, trusted: bool) -> None:
        self._stream = stream
        self._files = files
        self.projection = Projection(stream, self._layers_below, trusted=trusted)

    def _layers_below(self) -> list[Layer]:
        tools: Partial = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
        tools |= {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}
        registrations = Layer("registrations", {"conversation": {"tools": tools}})
        return [registrations, *self._files.layers()]

    @property
    def config(self) -> AppConfig:
        """The configuration in force, with files, environment and tools as they are now."""
        self.projection.below_changed()
        return self.projection.config()

    @property
    def model(self) -> str:
        """The model in force, as `provider/name` or an alias."""
        found = at(fold(self.projection.layers()), MODEL)
        if isinstance(found, dict):
            return f"{found.get('provider')}/{found.get('name')}"
        return str(found)

    def warnings(self) -> list[str]:
        """What a stranger's record sets and is not followed in."""
        below = fold(self._layers_below())
        self.projection.layers()
        said = []
        foreign = [p for p, value in self.projection.ignored.items() if at(below, p) != value]
        if foreign:
            said.append(
                "this notebook's record also sets what only you may decide; ignored: "
                + ", ".join(sorted(foreign))
            )
        if self.projection.not_understood:
            unknown = ", ".join(sorted(set(self.projection.not_understood)))
            said.append(f"this notebook's record sets what jp_nb does not know: {unknown}")
        return said

    def change(self, *assignments: str, model: str | None = None) -> None:
        """Record changes: all of them or none.

        Raises:
            ConfigError: If one is malformed or the result is no valid configuration.
        """
        for partial in self._read(assignments, model=model):
            if partial:
                self._stream.append(ConfigDelta(delta=partial))

    def preview(self, assignments: Sequence[str], *, model: str | None = None) -> AppConfig:
        """The configuration that would be in force after `change`.

        Raises:
            ConfigError: As `change` does.
        """
        found = self._read(assignments, model=model)
        return validate(_over(self.projection.partial(), found))

    def _read(self, assignments: Sequence[str], *, model: str | None = None) -> list[Partial]:
        """The partials that assignments and `-m` ask for, checked against what is in force."""
        current = self.projection.partial()
        found: list[Partial] = []
        if model is not None:
            found.append(_model(parse(model), current))
        for text in assignments:
            found.append(_parse(text, _over(current, found)))
        config = validate(_over(current, found))
        resolve(config.assistant.model.id, config.providers.llm.aliases)
        return found


def _over(current: Partial, partials: Sequence[Partial]) -> Partial:
    return fold([Layer("", current), *(Layer("", partial) for partial in partials)])


def _parse(text: str, current: Partial) -> Partial:
    partial = parse_assignment(text, current)
    reference = at(partial, MODEL)
    if isinstance(reference, str):  # stored resolved: aliases may mean another model later
        partial = merge(partial, _model(parse(reference), merge(current, partial)))
    return partial


def _model(reference: Any, current: Partial) -> Partial:
    """A partial that sets the model which `reference` names under `current`'s aliases."""
    model = resolve(reference, validate(current).providers.llm.aliases)
    return build(MODEL, {"provider": model.provider, "name": model.name})

"""One kernel's assistant: its conversation, its configuration, and what runs its turns.

This is where the rooms are wired together. `%load_ext` needs little of them: `turns.py`, which
runs turns, is loaded with the first one.

Source: `design/architecture.md` sections 2 and 3, `design/interface.md` section 2.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from jp_nb.config.app_config import DEFAULT_MODEL, AppConfig
from jp_nb.config.layers import Layer, fold
from jp_nb.config.models import parse, resolve
from jp_nb.config.partial import Partial, at, build, merge, validate
from jp_nb.notebook.config_files import ConfigFiles
from jp_nb.notebook.document import homes, variables
from jp_nb.notebook.document.live import LiveStore
from jp_nb.record.events import ChatRequest, ConfigDelta
from jp_nb.record.projection import Projection
from jp_nb.record.stream import ConversationStream
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.tools.builtin import BUILTINS
from jp_nb.tools.python import REGISTRY

if TYPE_CHECKING:
    from jp_nb.notebook.turns import TurnRunner
    from jp_nb.record.turn_view import Turn

MODEL = "assistant.model.id"
RELOAD_TIMEOUT = 2.0


class Session:
    """The assistant of one shell, driven from the cell's thread.

    Attributes:
        document: The conversations of this notebook.
        store: Where they are kept.
        files: The configuration files around the notebook.
        projection: The configuration of the active conversation.
        restored: Whether the active conversation was in the notebook before.
        notices: What the person should be told once.
        last: The last turn, if there was one.
    """

    def __init__(
        self, shell: Any, *, clock: Clock = utc_now, previous: Session | None = None
    ) -> None:
        self.shell = shell
        self.notices: list[str] = []
        self.last: Turn | None = previous.last if previous is not None else None
        self._clock = clock
        place = homes.find(shell)
        self.files = ConfigFiles((place.path.parent if place.path else Path.cwd()).resolve())
        files = fold(self.files.layers())
        go_on = at(files, "record.headless") == "continue"
        base = self._base_config(files)
        self._opened = place.open(clock=clock, base_config=base, go_on=go_on)
        self.document, self.store = self._opened.document, self._opened.store
        self.restored = self._opened.restored
        self.notices += self._opened.notices
        if not self.restored:
            self._apply_overrides_to_base()
        self._trusted = not self.restored or (previous is not None and self._continues(previous))
        self._adopt()
        if self.restored and previous is None:
            self._apply_overrides_as_deltas()

    def should_reopen(self) -> bool:
        """Whether loading again is to read what the page has now. Closes this session if so."""
        if not isinstance(self.store, LiveStore):
            return False
        self.store.flush(RELOAD_TIMEOUT)
        if self.store.pull(RELOAD_TIMEOUT) is None:
            return False  # no page answers: what is here goes on
        self.close()
        return True

    def _continues(self, previous: Session) -> bool:
        """Whether what was read is what this kernel itself had made."""
        mine, theirs = self.document.conversation, previous.document.conversation
        same = (mine.id, mine.raw, mine.base_config) == (theirs.id, theirs.raw, theirs.base_config)
        return previous._trusted and same

    @cached_property
    def turns(self) -> TurnRunner:
        """What runs turns; made for the first one."""
        from jp_nb.notebook.turns import TurnRunner

        return TurnRunner(self)

    # --- configuration -----------------------------------------------------------------------

    def _base_config(self, files: Partial) -> Partial:
        """What a new conversation starts from: all that somebody set, and the model (D8)."""
        provider, _, name = DEFAULT_MODEL.partition("/")
        if files:
            config = validate(files)
            model = resolve(config.assistant.model.id, config.providers.llm.aliases)
            provider, name = model.provider, model.name
        return merge(files, build(MODEL, {"provider": provider, "name": name}))

    @staticmethod
    def _overrides() -> list[str]:
        """`-c` arguments of the run, if a runner gave some."""
        value = json.loads(os.environ.get(variables.OVERRIDES) or "[]")
        return [str(item) for item in value]

    def _apply_overrides_to_base(self) -> None:
        stream = self.document.conversation
        for text in self._overrides():
            stream.base_config = merge(stream.base_config, self._parse(text, stream.base_config))
            self.store.replaced()

    def _apply_overrides_as_deltas(self) -> None:
        for text in self._overrides():
            self.configure(text)

    def _adopt(self) -> None:
        """Make the document's active conversation the one that turns run on."""
        stream = self.document.conversation
        stream.on_change = self.store.changed
        self.projection = Projection(stream, self._layers_below, trusted=self._trusted)
        if not self._trusted:
            self._warn_of_ignored()

    def _layers_below(self) -> list[Layer]:
        tools: Partial = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
        tools |= {name: dict(tool.registration) for name, tool in REGISTRY.all().items()}
        registrations = Layer("registrations", {"conversation": {"tools": tools}})
        return [registrations, *self.files.layers()]

    def _warn_of_ignored(self) -> None:
        below = fold(self._layers_below())
        self.projection.layers()
        foreign = [p for p, value in self.projection.ignored.items() if at(below, p) != value]
        if foreign:
            self.notices.append(
                "this notebook's record also sets what only you may decide; ignored: "
                + ", ".join(sorted(foreign))
            )
        if self.projection.not_understood:
            unknown = ", ".join(sorted(set(self.projection.not_understood)))
            self.notices.append(f"this notebook's record sets what jp_nb does not know: {unknown}")

    @property
    def config(self) -> AppConfig:
        """The configuration in force."""
        self.projection.below_changed()  # files, environment and tools may be other ones now
        return self.projection.config()

    @property
    def model(self) -> str:
        """The model in force, as `provider/name` or an alias."""
        found = at(fold(self.projection.layers()), MODEL)
        if isinstance(found, dict):
            return f"{found.get('provider')}/{found.get('name')}"
        return str(found)

    def summary(self) -> str:
        """One line: model, conversation, and where the record is kept. Stable from run to run."""
        turns = self.document.conversation.turn_count
        conversation = "new conversation"
        if self.restored and turns:
            conversation = f"conversation restored ({turns} turn{'' if turns == 1 else 's'})"
        return f"model {self.model} · {conversation} · {self.store.where}"

    def configure(self, *assignments: str, model: str | None = None) -> None:
        """Record changes of the configuration: all of them or none.

        Raises:
            ConfigError: If one is malformed or the result is no valid configuration.
        """
        self._record(self._changes(assignments, model=model))

    def _changes(self, assignments: Sequence[str], *, model: str | None = None) -> list[Partial]:
        """The partials that assignments and `-m` ask for, checked against what is in force."""
        current = self.projection.partial()
        found: list[Partial] = []
        if model is not None:
            found.append(_model(parse(model), current))
        for text in assignments:
            found.append(self._parse(text, fold([Layer("", current), *_layers(found)])))
        config = validate(fold([Layer("", current), *_layers(found)]))
        resolve(config.assistant.model.id, config.providers.llm.aliases)
        return found

    @staticmethod
    def _parse(text: str, current: Partial) -> Partial:
        from jp_nb.config.assign import parse_assignment

        partial = parse_assignment(text, current)
        reference = at(partial, MODEL)
        if isinstance(reference, str):  # stored resolved: aliases may mean another model later
            partial = merge(partial, _model(parse(reference), merge(current, partial)))
        return partial

    def _record(self, changes: Sequence[Partial]) -> None:
        for partial in changes:
            if partial:
                self.document.conversation.append(ConfigDelta(delta=partial))

    # --- conversations -----------------------------------------------------------------------

    def new_conversation(self, *, with_parent: bool = True) -> None:
        """Make an empty conversation the active one; the old one stays in the notebook."""
        self.turns.refuse_while_running()
        old = self.document.conversation
        parent: dict[str, JsonValue] | None = {"id": old.id} if with_parent and len(old) else None
        self.document.shelve()
        self.document.conversation = ConversationStream.new(
            clock=self._clock,
            made="headless" if self._opened.headless else "live",
            base_config=self._base_config(fold(self.files.layers())),
            parent=parent,
            not_ids=self.document.ids(),
        )
        self.restored, self._trusted = False, True
        self._apply_overrides_to_base()
        self._adopt()
        self.store.replaced()

    def _is_beginning_again(self, text: str, cell_id: str | None) -> bool:
        """Whether the running cell is the one that began the restored conversation (D18).

        Headless, a run that continues a conversation says so itself.
        """
        if not self.restored or self._opened.headless:
            return False
        entries = self.document.conversation.entries
        first = next((e for e in entries if isinstance(e, ChatRequest)), None)
        if first is None:
            return False
        began = first.metadata.get("cell_id")
        return began == cell_id if began and cell_id else first.content == text

    def log(self) -> list[Turn]:
        """The turns of the active conversation."""
        from jp_nb.record.turn_view import read_turn

        stream = self.document.conversation
        return [
            read_turn(turn.number, turn.entries, usage=self.turns.usage(stream.id, turn.number))
            for turn in stream.turns()
        ]

    # --- a turn ------------------------------------------------------------------------------

    def ask(
        self,
        text: str,
        *,
        model: str | None = None,
        assignments: Sequence[str] = (),
        new: bool = False,
        strict: bool = False,
    ) -> Turn:
        """Run one turn and show it in the cell.

        Raises:
            UsageError: If `text` is empty or names something unknown, or a turn runs already.
            ConfigError: If an option or the configuration is wrong; nothing was recorded.
            ProviderError: If the model could not be reached. What arrived is in the record.
            PromptUnavailable: If `strict` and nobody could decide something.
            KeyboardInterrupt: If the turn was interrupted. What arrived is in the record.
        """
        turns = self.turns
        turns.refuse_while_running()
        content = turns.content(text)
        self._changes(assignments, model=model)  # wrong options change nothing
        cell_id = self._cell_id()
        if new:
            self.new_conversation()
        elif self._is_beginning_again(content, cell_id):
            self.new_conversation(with_parent=False)
            self.notices.append(
                "this cell began the restored conversation, so a new one starts here; the earlier "
                "one stays in this notebook"
            )
        self.configure(*assignments, model=model)
        metadata: dict[str, JsonValue] = {"cell_id": cell_id} if cell_id else {}
        author = self.config.user.name
        request = ChatRequest(content=content, author=author, metadata=metadata)
        return turns.run(request, strict=strict)

    def _cell_id(self) -> str | None:
        kernel: Any = getattr(self.shell, "kernel", None)
        parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
        found = (parent or {}).get("metadata", {}).get("cellId")
        return found if isinstance(found, str) else None

    def close(self) -> None:
        """Close what runs turns, and the store."""
        if "turns" in vars(self):
            self.turns.close()
        self.store.close()


def _layers(partials: Sequence[Partial]) -> list[Layer]:
    return [Layer("", partial) for partial in partials]


def _model(reference: Any, current: Partial) -> Partial:
    """A partial that sets the model which `reference` names under `current`'s aliases."""
    model = resolve(reference, validate(current).providers.llm.aliases)
    return build(MODEL, {"provider": model.provider, "name": model.name})

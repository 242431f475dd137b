"""One kernel's assistant: its conversation, its configuration, and what runs its turns.

This is where the rooms are wired together. `%load_ext` needs little of them: `settings.py` is
loaded where something is configured, `turns.py` with the first turn.

Source: `docs/architecture.md` sections 2 and 3, `docs/guide.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jp_nb.config.defaults import DEFAULT_MODEL
from jp_nb.errors import ConfigError, StorageError
from jp_nb.notebook.document import homes
from jp_nb.notebook.document.live import LiveStore
from jp_nb.record.events import ChatRequest, ChatResponse, ConfigDelta
from jp_nb.record.stream import ConversationStream, Made
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.workspace import variables
from jp_nb.workspace.config_files import ConfigFiles
from jp_nb.workspace.folder_trust import FolderTrust

if TYPE_CHECKING:
    from pydantic import JsonValue

    from jp_nb.agent.model_events import ToolChoice
    from jp_nb.config.directives import Directive
    from jp_nb.config.tree.app_config import AppConfig
    from jp_nb.record.document import Document
    from jp_nb.record.projection import Projection
    from jp_nb.record.trust import Trust
    from jp_nb.record.turn_view import Turn
    from jp_nb.session.settings import Settings
    from jp_nb.session.turns import TurnRunner
    from jp_nb.workspace.folder_trust import Pending

MAX_NOTICES = 5
"""Of a record that is read, about its entries."""
RELOAD_TIMEOUT = 2.0
"""Seconds that a page has to say what it holds, when the extension is loaded again."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """How a conversation of this kernel began.

    Attributes:
        execution: The run of a cell that asked first; None where no page runs cells.
        deltas: What was configured ahead of that request.
    """

    execution: str | None
    deltas: tuple[ConfigDelta, ...]


class Session:
    """The assistant of one shell, driven from the cell's thread.

    Attributes:
        document: The conversations of this notebook.
        store: Where they are kept.
        files: The configuration files around the notebook.
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
        self._begun: dict[str, _Beginning] = {}
        self._left: Projection | None = None
        self._awaits_files = False
        place = homes.find(shell)
        folder = (place.path.parent if place.path else Path.cwd()).resolve()
        self.files = ConfigFiles(folder, None if place.headless else FolderTrust())
        self._opened = place.open(
            clock=clock, base_config=self._base_config(loads=True), go_on=self._goes_on()
        )
        self.document, self.store = self._opened.document, self._opened.store
        self.restored = self._opened.restored
        self.notices += self._opened.notices
        self._made_here = not self.restored
        self._ours = self._made_here or (previous is not None and self._continues(previous))
        self._adopt()
        if self._made_here and self.files.anything():
            with self.settings.lenient():
                self.notices += self.settings.rule_warnings()
        if self.restored and previous is None:
            self._apply_overrides()
        self.notices += self.files.take_notices()
        self._clashes: dict[str, str] = {}

    # --- what is loaded when it is needed ----------------------------------------------------

    @cached_property
    def trust(self) -> Trust:
        """Whether the active conversation is the user's own, and its signature."""
        from jp_nb.record.trust import Trust
        from jp_nb.workspace.keys import KeyFile

        return Trust(self.document, KeyFile(), ours=self._ours)

    @cached_property
    def settings(self) -> Settings:
        """The configuration of the active conversation."""
        from jp_nb.session.settings import Settings

        trusted = self._ours or self.trust.trusted
        return Settings(
            self.document.conversation, self.files, trusted=trusted, made_here=self._made_here
        )

    @cached_property
    def turns(self) -> TurnRunner:
        """What runs turns."""
        from jp_nb.session.turns import TurnRunner

        return TurnRunner(self)

    @property
    def config(self) -> AppConfig:
        """The configuration in force."""
        return self.settings.config

    # --- opening -----------------------------------------------------------------------------

    def _base_config(self, *, loads: bool = False) -> dict[str, JsonValue]:
        """What a new conversation starts from (D8), arguments of the run included (D34).

        Nothing while files or variables are wrong and the extension `loads`: the person is told.

        Raises:
            ConfigError: If something of it is wrong.
        """
        if not self.files.anything() and not os.environ.get(variables.OVERRIDES):
            provider, _, name = DEFAULT_MODEL.partition("/")
            return {"assistant": {"model": {"id": {"provider": provider, "name": name}}}}
        from jp_nb.session.settings import base_config, with_overrides

        try:
            base = base_config(self.files)
        except ConfigError as exc:
            if not loads:
                raise
            self._awaits_files = True
            self.notices.append(
                f"the configuration is not valid, and nothing can be asked with it: {exc}. Once "
                "that is mended, %%jp works at once; `%jp doctor` and `%jp config` work already"
            )
            return {}
        return with_overrides(base, self.files)

    def _begin_with_files(self) -> None:
        """Have a conversation that was opened while files were wrong begin with them now.

        Raises:
            ConfigError: If they still are.
        """
        if not self._awaits_files:
            return
        if self._made_here and not len(self.document.conversation):
            self._install(self._empty_conversation(with_parent=False), made_here=True)
        self._awaits_files = False

    def _goes_on(self) -> bool:
        """Whether `record.headless` says that a headless run continues."""
        if not self.files.anything():
            return False
        from jp_nb.config.layers import fold
        from jp_nb.config.partial import get_path

        return bool(get_path(fold(self.files.readable()[0]), "record.headless") == "continue")

    def _adopt(self) -> None:
        """Make the document's active conversation the one that turns run on."""
        self.document.conversation.on_change = self._changed
        self._reconsider()
        if not self._made_here:
            from jp_nb.record.notices import notices

            found = notices(self.document.conversation)
            if more := found[MAX_NOTICES:]:
                found[MAX_NOTICES:] = [f"and {len(more)} more of this kind"]
            self.notices += found
            try:
                self.notices += self.settings.warnings(self.trust.why_not)
            except ConfigError as exc:  # of a file: the record is what it is
                self.notices.append(str(exc))

    def _changed(self) -> None:
        """Entries were appended: sign what they configure, then hand them to the store."""
        head = self.document.conversation.head
        if self._made == "live" and head.get("made") == "headless":
            head["made"] = "live"  # a headless run would replace it, and a person spoke now (D18)
        self.trust.sign()
        self.store.changed()

    def _reconsider(self) -> None:
        """The configuration is read anew: another conversation, or another trust in it."""
        vars(self).pop("settings", None)

    def _apply_overrides(self) -> None:
        if os.environ.get(variables.OVERRIDES):
            from jp_nb.session.settings import overrides

            self.configure(*overrides())

    def configure(self, *directives: Directive, model: str | None = None) -> None:
        """Record changes of the configuration: all of them or none.

        Raises:
            ConfigError: If one is malformed, or the result is no valid configuration.
        """
        self.notices += self.settings.change(*directives, model=model)
        self.notices += self.files.take_notices()

    def note_what_arose(self) -> None:
        """Put among the notices what files and tools gave rise to since."""
        self._note_clashes()
        self.notices += self.files.take_notices()

    def _note_clashes(self) -> None:
        """Say once of each name that a Python tool shares with another one which of them counts."""
        python = sys.modules.get("jp_nb.tooling.python")  # where there is none there is no tool
        functions = python.REGISTRY.all() if python is not None else {}
        if not functions:
            return
        from jp_nb.agent.tool_set import clashes
        from jp_nb.tooling.builtin import BUILTINS

        try:
            found = clashes(self.config, {"builtin": BUILTINS, "python": functions})
        except ConfigError:  # whatever needs it says what is wrong
            return
        self.notices += [
            f"two tools have one name: {text}. Rename one of them"
            for name, text in found.items()
            if self._clashes.get(name) != text
        ]
        self._clashes = found

    def write_config(self, where: Literal["user", "workspace"], *directives: Directive) -> None:
        """Write values into the file of a layer; they count at once.

        Raises:
            ConfigError: If one is malformed, or the result is no valid configuration.
            StorageError: If the file cannot be read or written.
        """
        self.notices += self.settings.write(where, directives)
        self.notices += self.files.take_notices()

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
        return previous.is_trusted and same

    @property
    def is_trusted(self) -> bool:
        """Whether what the active conversation configures counts in full."""
        return self.trust.trusted

    def summary(self) -> str:
        """One line: model, conversation, and where the record is kept. Stable from run to run."""
        turns = self.document.conversation.turn_count
        conversation = "new conversation"
        if turns:
            word = "conversation restored" if self.restored else "conversation"
            conversation = f"{word} ({turns} turn{'' if turns == 1 else 's'})"
        overridden = os.environ.get(variables.OVERRIDES)
        changed = not self._made_here or self.document.conversation.deltas
        configured = changed or self.files.anything() or overridden
        try:
            model = self.settings.model if configured else DEFAULT_MODEL
        except ConfigError:  # whatever needs it says what is wrong
            model = "unknown (the configuration is not valid)"
        return f"model {model} · {conversation} · {self.store.where}"

    # --- conversations -----------------------------------------------------------------------

    def new_conversation(self, *, keep_config: bool = False) -> None:
        """Make an empty conversation the active one; the old one stays in the notebook.

        Args:
            keep_config: Begin with what the old one had set. If nothing was said in the active
                one yet, that is the one before it.

        Raises:
            ConfigError: If that is no valid configuration any more.
        """
        self.turns.refuse_while_running()
        left = self._left if keep_config and not len(self.document.conversation) else None
        left = left or self.settings.projection
        self._install(self._empty_conversation(with_parent=True), made_here=True)
        self._left = left
        if keep_config:
            self.settings.carry_over(self.settings.carried_over(left))
        else:
            self._say_left_behind(left, asks=False)

    def _say_left_behind(self, left: Projection, *, asks: bool) -> None:
        """Have the person told what the conversation that was left had set."""
        from jp_nb.rendering.carrying import left_behind

        with suppress(ConfigError):  # whoever needs the configuration says what is wrong with it
            if change := self.settings.carried_over(left):
                self.notices.append(left_behind(change, asks=asks))

    def fork(self, last_turn: int | None = None) -> None:
        """Go on from turn `last_turn` (from the end if None) in a conversation of its own.

        Raises:
            UsageError: If there is no such turn.
        """
        from jp_nb.record.fork import fork

        self._branch(partial(fork, keep_turns=None if last_turn is None else last_turn + 1))

    def undo(self) -> None:
        """Go on without the last turn; the conversation that has it stays in the notebook.

        Raises:
            UsageError: If there is no turn.
        """
        from jp_nb.record.fork import undo

        self._branch(undo)

    def _branch(self, make: Callable[..., ConversationStream]) -> None:
        self.turns.refuse_while_running()
        made = make(
            self.document.conversation,
            clock=self._clock,
            made=self._made,
            not_ids=self.document.ids(),
        )
        self._install(made, ours=self.is_trusted)

    def switch(self, name: str) -> bool:
        """Make another conversation of the notebook the active one; whether it was another.

        Raises:
            UsageError: If `name` names none or several.
            StorageError: If it is damaged.
        """
        from jp_nb.record.conversations import switch

        self.turns.refuse_while_running()
        trust = self.trust  # before another one is active
        if not switch(self.document, name, clock=self._clock):
            return False
        trust.follow()
        self._activate()
        return True

    def drop(self, name: str) -> str:
        """Take a conversation out of the notebook for good; returns its id.

        Raises:
            UsageError: If there is none of that whole id, or it is the active one.
        """
        from jp_nb.record.conversations import drop

        self.turns.refuse_while_running()
        dropped = drop(self.document, name).id
        self.store.replaced()
        return dropped

    def adopt_imported(self, document: Document) -> None:
        """Make the conversation of `document`, somebody else's, the active one.

        Raises:
            StorageError: If the notebook has a conversation of its id already.
        """
        self.turns.refuse_while_running()
        identifier = document.conversation.id
        if identifier in self.document.ids():
            raise StorageError(
                f"this notebook has a conversation {identifier} already: `%jp switch {identifier}` "
                "goes to it"
            )
        self._install(document.conversation, ours=False)

    @property
    def _made(self) -> Made:
        return "headless" if self._opened.headless else "live"

    def _empty_conversation(self, *, with_parent: bool) -> ConversationStream:
        old = self.document.conversation
        parent: dict[str, JsonValue] | None = {"id": old.id} if with_parent and len(old) else None
        return ConversationStream.new(
            clock=self._clock,
            made=self._made,
            base_config=self._base_config(),
            parent=parent,
            not_ids=self.document.ids(),
        )

    def _install(
        self, stream: ConversationStream, *, ours: bool = True, made_here: bool = False
    ) -> None:
        trust = self.trust
        self.document.shelve()
        self.document.conversation = stream
        trust.follow(ours=ours)
        self._activate(made_here=made_here)

    def _activate(self, *, made_here: bool = False) -> None:
        """Turns run on what is the active conversation now."""
        self.restored, self._made_here, self._ours = False, made_here, self.trust.trusted
        self.store.replaced()
        self._adopt()

    # --- trust -------------------------------------------------------------------------------

    def accept(self) -> None:
        """Trust what the active conversation configures, from here on, and sign it.

        Raises:
            StorageError: If there is no key to sign with; nothing changed.
        """
        self.trust.accept()
        self._ours = True
        self._reconsider()
        self.store.changed()

    def agree(self, found: Sequence[Pending]) -> None:
        """Have what was `found` in the files of the folder count from here on.

        Raises:
            StorageError: If that cannot be kept; nothing changed.
        """
        self.files.agree(found)
        if self._made_here and not len(self.document.conversation):
            self.document.conversation.base_config = self._base_config()  # it begins with them
        self._reconsider()

    def revoke(self) -> bool:
        """Trust it no longer; returns whether it was trusted or signed."""
        had = self.trust.revoke()
        self._ours = False
        self._reconsider()
        self.store.changed()
        return had

    def _is_beginning_again(self, text: str, cell_id: str | None) -> bool:
        """Whether the running cell is the one that began the active conversation (D18).

        A cell may ask several times while it runs. One that got no answer yet goes on. Headless, a
        run that continues a conversation says so itself.
        """
        if self._opened.headless or not (self.restored or self._is_run_again()):
            return False
        entries = self.document.conversation.entries
        first = next((e for e in entries if isinstance(e, ChatRequest)), None)
        if first is None or not any(isinstance(e, ChatResponse) for e in entries):
            return False
        began = first.metadata.get("cell_id")
        return began == cell_id if began and cell_id else first.content == text

    def _is_run_again(self) -> bool:
        """Whether this kernel began the active conversation, in an earlier run of some cell."""
        began = self._begun.get(self.document.conversation.id)
        return began is not None and began.execution not in (None, self._execution())

    def _begin_again(self) -> ConversationStream:
        """A new conversation with what was set ahead of the active one's first request, and since.

        That is what running the notebook's cells from the top comes to. A stranger's changes stay
        with the stranger.
        """
        from jp_nb.record.carried import set_before_first_request, set_since_last_turn

        old, fresh = self.document.conversation, self._empty_conversation(with_parent=False)
        if self.is_trusted:
            began = self._begun.get(old.id)
            before = set_before_first_request(old) if began is None else began.deltas
            fresh.append(*before, *set_since_last_turn(old))
        return fresh

    def log(self, last: int | None = None) -> list[Turn]:
        """The `last` turns of the active conversation, or all."""
        from jp_nb.record.turn_view import read_turn

        stream = self.document.conversation
        known = self.turns.known
        turns = list(stream.turns())
        return [
            read_turn(
                turn.number,
                turn.entries,
                usage=known(stream.id, turn.number)[0],
                status=known(stream.id, turn.number)[1],
            )
            for turn in (turns if last is None else turns[-last:])
        ]

    # --- a turn ------------------------------------------------------------------------------

    def ask(
        self,
        text: str,
        *,
        model: str | None = None,
        directives: Sequence[Directive] = (),
        new: bool = False,
        schema: object = None,
        tool_choice: ToolChoice | None = None,
        strict: bool = False,
        interpolate: bool = True,
    ) -> Turn:
        """Run one turn and show it in the cell.

        Args:
            text: The request.
            model: For this and later turns.
            directives: Changes of the configuration, likewise.
            new: Begin a new conversation.
            schema: What the answer has to fit: see `structured.describe`.
            tool_choice: For the first request of the turn, instead of the configured one.
            strict: What nobody can decide ends the turn.
            interpolate: Put the notebook's values in place of each `{{name}}` in `text`.

        Raises:
            UsageError: If `text` is empty or names something unknown, `schema` is none or the
                model cannot answer in it, no tool is as `tool_choice` says, or a turn runs
                already; nothing was recorded.
            ConfigError: If an option or the configuration is wrong; nothing was recorded.
            ProviderError: If the model could not be reached. What arrived is in the record.
            AnswerError: If a structured answer did not come, or does not fit. It is in the record.
            PromptUnavailable: If `strict` and nobody could decide something.
            KeyboardInterrupt: If the turn was interrupted. What arrived is in the record.
        """
        turns = self.turns
        turns.refuse_while_running()
        self._begin_with_files()
        content = turns.content(text, interpolated=interpolate)
        cell_id = self._cell_id()
        again = not new and self._is_beginning_again(content, cell_id)
        fresh = self._begin_again() if again else None
        fresh = self._empty_conversation(with_parent=True) if new else fresh
        wanted = self._described(schema)
        settings = self.settings
        if fresh is not None:
            settings = type(settings)(fresh, self.files, trusted=True, made_here=True)
        draft = settings.draft(directives, model=model)  # before anything changes
        resolved = turns.resolver.resolve(
            settings.snapshot(draft),
            (fresh or self.document.conversation).id,
            tool_choice=tool_choice,
        )
        if wanted is not None:
            resolved.provider.check_schema(wanted)
        left, old = self.settings.projection, self.document.conversation
        if fresh is not None:
            self._install(fresh, made_here=True)
            self.settings = settings
        if again:
            self.notices.append(
                "this cell began the conversation, so a new one starts here; "
                f"`%jp switch {old.id}` goes back to the earlier one"
            )
        self._remember_beginning()
        draft.record()
        self.notices += [*draft.notices, *self.files.take_notices()]
        if fresh is not None:
            self._left = left
            self._say_left_behind(left, asks=True)
        metadata: dict[str, JsonValue] = {"cell_id": cell_id} if cell_id else {}
        author = resolved.basis.config.user.name
        request = ChatRequest(content=content, schema=wanted, author=author, metadata=metadata)
        turn = turns.run(request, resolved=resolved, strict=strict, changes=len(draft.deltas))
        if wanted is not None:
            from jp_nb.session.structured import check_answer

            made = self.document.conversation.last_turn()
            check_answer(made.entries if made else (), wanted, text=turn.text)
        return turn

    def _described(self, schema: object) -> dict[str, JsonValue] | None:
        if schema is None:
            return None
        from jp_nb.session.structured import describe

        return describe(schema, self.shell.user_ns)

    def _remember_beginning(self) -> None:
        """Keep how the active conversation begins, if this request is its first."""
        conversation = self.document.conversation
        if not conversation.turn_count:
            deltas = tuple(conversation.deltas)
            self._begun[conversation.id] = _Beginning(self._execution(), deltas)

    def _cell_id(self) -> str | None:
        found = self._parent().get("metadata", {}).get("cellId")
        return found if isinstance(found, str) else None

    def _execution(self) -> str | None:
        """What names this run of a cell; None where no page runs cells."""
        found = self._parent().get("header", {}).get("msg_id")
        return found if isinstance(found, str) else None

    def _parent(self) -> dict[str, Any]:
        """The message that runs the cell."""
        kernel: Any = getattr(self.shell, "kernel", None)
        return (kernel.get_parent("shell") if hasattr(kernel, "get_parent") else None) or {}

    def close(self) -> None:
        """Close what runs turns, and the store."""
        try:
            if "turns" in vars(self):
                self.turns.close()
        finally:
            self.store.close()

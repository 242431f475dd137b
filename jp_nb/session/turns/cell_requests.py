"""Read the request of a turn: its text, its cell, and the conversation in which it runs.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.agent.provider import ToolChoice
from jp_nb.config.aliases import MODEL_PATH
from jp_nb.config.directives import Directive
from jp_nb.errors import UsageError
from jp_nb.images import Image
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.events import TYPED, ChatRequest
from jp_nb.session.conversation import INHERITED, ActiveConversation
from jp_nb.session.host import CellRun, Host
from jp_nb.session.next_conversation import NextConversation
from jp_nb.session.questions.cell_questions import CellQuestions
from jp_nb.session.turns.answer_forms import AnswerForms
from jp_nb.session.turns.cell_reruns import CellReruns
from jp_nb.session.turns.interpolation import interpolate
from jp_nb.values.base import Description, ValueBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A request of a cell, and the options of its turn.

    Attributes:
        request: The event of the record.
        cell: The run of the cell.
        next_conversation: The conversation in which it runs; None: the active one.
        images: The images of the values that the request names.
        model: The model of the option `-m`; None: the configured one.
        directives: Changes of settings by options, such as `-c` and `-t`.
        tool_choice: The choice of the option `-u`; None: the configured one.
        strict: End the turn when a decision needs a user, and none is available.
        compact: Compact the conversation first.
        plan_first: Change nothing before the user has approved a plan.
        shows_request: Show the request above the answer, because the cell does not contain it.
    """

    request: ChatRequest
    cell: CellRun
    next_conversation: NextConversation | None = None
    images: Sequence[Image] = ()
    model: str | None = None
    directives: Sequence[Directive] = ()
    tool_choice: ToolChoice | None = None
    strict: bool = False
    compact: bool = False
    plan_first: bool = False
    shows_request: bool = False


class TurnRequestReader:
    """Reads the requests of cells. Use it on the cell's thread."""

    def __init__(
        self,
        host: Host,
        active: ActiveConversation,
        reruns: CellReruns,
        cell_questions: CellQuestions,
        answer_forms: AnswerForms,
    ) -> None:
        self._host = host
        self._active = active
        self._reruns = reruns
        self._cell_questions = cell_questions
        self._answer_forms = answer_forms

    def read(self, text: str, *, schema: object, interpolated: bool, new: bool) -> TurnRequest:
        """Return the request `text` of the running cell, without options.

        `new` starts a new conversation. If the cell ran before, the user may be asked.

        Raises:
            UsageError: `text` or `schema` is not valid.
            ConfigError: The configuration of a new conversation is not valid.
            PromptCancelled: The cell ran before, and the user canceled.
        """
        described = self._describe(text, interpolated=interpolated)
        cell = self._host.get_cell_run()
        return TurnRequest(
            request=self._make_request(text, described, cell, schema),
            cell=cell,
            next_conversation=self._choose_conversation(described.text, cell, new=new),
            images=described.images,
        )

    def _describe(self, text: str, *, interpolated: bool) -> Description:
        """Return the request `text`, with the values of the names in it."""
        if not text.strip():
            raise UsageError("the request is empty: write it below `%%jp`")
        if not interpolated:
            return Description(text.strip("\n"))

        config = self._active.settings.config
        budget = ValueBudget(config.interpolation.max_chars, config.values.image_side)
        request = interpolate(text, self._host.namespace, budget)
        return Description(request.text.strip("\n"), request.images)

    def _make_request(
        self, text: str, described: Description, cell: CellRun, schema: object
    ) -> ChatRequest:
        """Return the event of the request; its metadata has the typed `text` if it differs."""
        metadata: JsonObject = {**cell.make_metadata()}
        typed = text.strip("\n")
        if described.text != typed:
            metadata[TYPED] = typed

        json_schema = None
        if schema is not None:
            json_schema = self._answer_forms.read_schema(schema, self._host.namespace)
        return ChatRequest(content=described.text, schema=json_schema, metadata=metadata)

    def _choose_conversation(
        self, content: str, cell: CellRun, *, new: bool
    ) -> NextConversation | None:
        """Return the conversation in which `cell` sends `content`; None: the active one."""
        if new:
            stream = self._active.create_conversation()
            # The user asked for a new conversation, and not for another model.
            return NextConversation(stream, inherits=(*INHERITED, MODEL_PATH))
        return self._reruns.find_next_conversation(content, cell, self._cell_questions.ask_action)

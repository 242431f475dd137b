"""Send the requests of a turn to the model, and help if one fails.

Before a request, attachments of earlier requests are restored, and changes that would fill the
context begin a new *head* (instructions, tools, and attachments in front of the messages):
`RequestContext.without_heads` forgets the earlier heads, so the next request sends only its own.
After an error about the length, the conversation is compacted. Other errors get advice for the
user.

Source: `docs/turns.md`, `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from jp_nb.agent.calls.call import Call
from jp_nb.agent.compacting.compactor import CompactionSettings, Compactor
from jp_nb.agent.display import Notice
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.model_requests.appended_changes import explain_new_head
from jp_nb.agent.model_requests.model_call import AnswerStream
from jp_nb.agent.provider import ModelRequest, ToolChoice
from jp_nb.agent.refusals import explain_refusal
from jp_nb.agent.turn_interrupts import TurnInterrupts
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ProviderError
from jp_nb.record.entries.tool_choice_marks import find_missing_tool
from jp_nb.record.request_context.context import RequestContext
from jp_nb.text import one_line

MODEL_ID = "assistant.model.id"
PROVIDERS_PATH = "providers.llm"
CHOOSE_MODEL_COMMAND = f"`%jp config {MODEL_ID}=PROVIDER/NAME`"


class TurnRequests:
    """Sends the requests of one turn. `answers` receives the responses."""

    def __init__(
        self,
        turn: TurnContext,
        interrupts: TurnInterrupts,
        compaction_settings: CompactionSettings | None,
        schema: Mapping[str, JsonValue] | None,
    ) -> None:
        self._turn = turn
        self._interrupts = interrupts
        self._compaction_settings = compaction_settings
        self._schema = schema
        # The context whose appended changes were measured last. Measuring takes time, and the size
        # only changes with another context, or another head.
        self._measured_context: RequestContext | None = None
        self.answers = AnswerStream(turn)

    async def send(
        self, resolved: Resolved, choice: ToolChoice, *, changed: bool
    ) -> Sequence[Call] | None:
        """Return the calls of the next response; None if an interrupt ended the turn.

        `changed` is True if a tool changed the configuration just before.

        Raises:
            ProviderError: No attempt succeeded.
        """
        record = self._turn.record
        while True:
            self._interrupts.handler = self.answers.interrupt  # again, as a compaction has its own
            self._restore_attachments(resolved)
            request = resolved.make_turn_request(
                record.context,
                choice=choice,
                schema=self._schema,
                conversation_id=record.stream.id,
            )
            request = self._limit_appended_changes(resolved, request)

            try:
                calls = await self.answers.request_calls(resolved, request)
                break
            except ProviderError as exc:
                if await self._compact_after_error(exc, resolved):
                    continue
                self._add_advice(exc, changed=changed)
                raise

        if calls is not None:
            missing = find_missing_tool(choice, [call.request.name for call in calls])
            if missing is not None:
                text = f"⚠ The model did not call {missing}, although this turn requires it"
                self._turn.display(Notice(text))
        return calls

    async def _compact_after_error(self, error: ProviderError, resolved: Resolved) -> bool:
        """Return True if the conversation is shorter now, so that the request can be sent again."""
        if self._compaction_settings is None:
            return False
        compactor = Compactor(self._turn, self._compaction_settings)
        return await self._interrupts.run(compactor.compact_after_error(error, resolved))

    def _add_advice(self, error: ProviderError, *, changed: bool) -> None:
        """Add the remedy to the text of `error`, which keeps its type and facts.

        `changed` is as in `send`.
        """
        text = str(error)
        setting = self._find_setting_changed_by_tools(error) if changed else ""
        if setting:
            change = describe_tool_change(setting, CHOOSE_MODEL_COMMAND)
            error.args = (f"{text.rstrip('.')}; {change}",)
            return

        advice = explain_refusal(error, self._turn.record)
        if advice:
            error.args = (f"{text.rstrip('. ')}. {advice}.",)

    def _restore_attachments(self, resolved: Resolved) -> None:
        """Note the contents of attachments. If earlier ones are not known, begin a new head.

        The record has only digests of attachments. Another kernel may not have their contents.
        """
        record = self._turn.record
        record.context.note_contents(resolved.attachments)
        missing = record.context.list_missing_attachments()
        if not missing:
            return

        sources = [f"`{one_line(mark.source, limit=100)}`" for mark in missing]
        names, *others = dict.fromkeys(sources)
        if others:
            names = f"{names} and {len(others)} more attachments"

        self._turn.display(
            Notice(
                f"⚠ The conversation was sent with other contents of {names}, which are not "
                "available any more. This request sends the current attachments in front. "
                "The provider's prompt cache and earlier reasoning are lost."
            )
        )
        record.context = record.context.without_heads()

    def _limit_appended_changes(self, resolved: Resolved, request: ModelRequest) -> ModelRequest:
        """Return `request`, with a new head if the changes of its head are too large to append.

        A request appends changes of its head as messages, so that it begins with the previous one.
        """
        record = self._turn.record
        last_head = record.context.head
        is_head_changed = last_head is not None and last_head != request.head
        if self._measured_context is record.context and not is_head_changed:
            return request

        self._measured_context = record.context
        reason = explain_new_head(resolved.provider, request, resolved.context_tokens)
        if reason is None:
            return request

        self._turn.display(
            Notice(
                f"⚠ {reason}. This request sends only the current values. "
                "The provider's prompt cache and earlier reasoning are lost."
            )
        )
        record.context = record.context.without_heads()
        self._measured_context = record.context
        return replace(request, context=record.context)

    def _find_setting_changed_by_tools(self, error: ProviderError) -> str:
        """Return the setting of the model that the last change of a tool set; "" if none.

        An error with a status is about the model's name, other errors are about the provider.
        """
        changed = self._turn.record.stream.deltas[-1].claims  # the paths that the tool changed
        candidates = [path for path in changed if path.startswith((MODEL_ID, PROVIDERS_PATH))]

        key = "provider" if error.status is None else "name"
        likely_cause = f"{MODEL_ID}.{key}"
        if likely_cause in candidates:
            return likely_cause
        return candidates[0] if candidates else ""


def describe_tool_change(setting: str, remedy: str) -> str:
    """Return the text about a `setting` that a tool changed, and how the user can change it."""
    return (
        f"a tool changed {setting} in this turn. The change remains until you set another value: "
        f"{remedy}"
    )

"""The request context of the active conversation, kept from one turn to the next.

A context is the part of the record that a request sends. It only grows, so that the cache of the
provider can be used. A *head* is the beginning of a request: instructions, tools, and attachments.
The record keeps the heads that were sent. Those of an untrusted record may be instructions of
someone else, so only known heads are used.

Source: `docs/providers.md#requests-only-grow`, `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.provider import Attachment
from jp_nb.agent.turn_record import LastRequest, TurnRecord
from jp_nb.json_writing import canonical_json
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.request_context.request_head import AttachmentDigest, RequestHead
from jp_nb.record.stream import ConversationStream
from jp_nb.session.conversation import ActiveConversation


class RequestContexts:
    """Makes the context of each request, from the previous one or from the record.

    Attributes:
        contents: The contents of attachments that were sent.
        last_request: The last request that this kernel sent; None before the first one.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        # The context that the next turn continues, with its conversation; None: build it.
        self._current: tuple[ConversationStream, RequestContext] | None = None
        # The heads that this kernel has sent while the record is untrusted.
        self._own_heads: list[RequestHead] = []
        self.contents: dict[AttachmentDigest, Attachment] = {}
        self.last_request: LastRequest | None = None

    def repair_conversation(self, *, resumes: bool = False) -> ConversationStream:
        """Repair the active conversation for its next request, and return it.

        Each tool call without a response gets one that tells the model so. With `resumes`, the
        calls of the last turn stay open, because `%jp resume` continues it.
        """
        stream = self._active.document.conversation
        is_changed = stream.repair(resumes=resumes)
        if is_changed:
            self.clear()
            self._active.sign_and_store_all()
        return stream

    def continue_context(self, stream: ConversationStream, resolved: Resolved) -> RequestContext:
        """Return the context of the next turn of `stream`: that of the last turn, if it is kept."""
        if self._current is not None:
            kept_stream, kept_context = self._current
            if kept_stream is stream:
                return kept_context

        if stream.turn_count:
            context = self.build(stream, resolved)
        else:  # a new conversation need not load the settings for it
            context = RequestContext(contents=self.contents)
        self._current = stream, context
        return context

    def build(
        self,
        stream: ConversationStream,
        resolved: Resolved | None = None,
        *,
        in_turn: bool = False,
    ) -> RequestContext:
        """Build the context of `stream` from the record; see `context_builder.build_context`.

        The heads of an untrusted record are used only if each of them is known: this kernel has
        sent it, or the user can see all its texts in the configuration (`resolved`). `in_turn` is
        True if the last turn of the record continues.
        """
        providers = self._active.settings.projection.providers()
        context = build_context(stream, providers, in_turn=in_turn)
        context.contents = self.contents
        if not context.heads or self._active.trust.trusted:
            return context

        known = list(self._own_heads)
        if resolved is not None:
            known.append(resolved.head)
        if _has_only_known_heads(stream, context, known):
            return context
        return context.without_heads()

    def end_turn(self, record: TurnRecord, context: RequestContext, *, is_answered: bool) -> None:
        """Remember the requests of the turn that ends. It began with `context`.

        The next turn continues this context, which the turn has extended. It is built again from
        the record if the turn has no answer, so that later requests omit it, or if the turn has
        replaced the context itself.
        """
        self.last_request = record.sent or self.last_request
        if not self._active.trust.trusted:
            self._own_heads += [position.head for position in record.context.heads]

        if not is_answered or record.context is not context:
            self.clear()

    def clear(self) -> None:
        """Forget the kept context, so that the next request builds it again."""
        self._current = None


def _has_only_known_heads(
    stream: ConversationStream, context: RequestContext, known: list[RequestHead]
) -> bool:
    """Return True if each head of `context` is part of a head of `known`."""
    # The head of a request also has the schema of its answer, which is no setting. It comes from
    # the user's request, so a schema counts as known if a request of the record has it.
    requests = (entry for entry in stream.entries if isinstance(entry, ChatRequest))
    schemas = {canonical_json(request.response_schema) for request in requests}

    for position in context.heads:
        if not any(position.head.is_part_of(head, schemas) for head in known):
            return False
    return True

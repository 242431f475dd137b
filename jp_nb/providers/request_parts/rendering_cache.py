"""Keep the renderings of the last conversations with a server from one request to the next.

A *rendering* has the messages of a conversation in the form of an API (`messages.py`).

Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

from jp_nb.agent.provider import ModelRequest
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.request_parts.messages import Rendering
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.host_marks import LastHost

MAX_RENDERINGS: Final = 4  # of the conversation, and of inquiries that run meanwhile

RenderingT = TypeVar("RenderingT", bound=Rendering)


class RenderingCache(Generic[RenderingT]):
    """The renderings of the last conversations with the server at an endpoint.

    A rendering also keeps the *repairs* of its conversation: parts that the server has rejected,
    and that are not sent again. A new rendering of the conversation gets them (`copy_repairs`).

    `make_rendering` returns an empty rendering of a new conversation. `prepare` gets an empty
    rendering and the name of a model, and sets what requests to this model append and omit.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        make_rendering: Callable[[], RenderingT],
        prepare: Callable[[RenderingT, str], None],
    ) -> None:
        self._endpoint = endpoint
        self._make_rendering = make_rendering
        self._prepare = prepare
        # In the order of their last use. A key is the context itself, not its content, which grows.
        self._renderings: dict[RequestContext, RenderingT] = {}

    def choose(self, request: ModelRequest) -> RenderingT:
        """Return the rendering of the conversation with all items of `request`.

        It is the kept one, or a new one if there is none, or if that no longer fits.
        """
        kept = self._renderings.get(request.context)
        fresh = self._make_empty(kept, request.model)

        rendering = fresh
        if kept is not None and self._still_fits(kept, fresh, request.context):
            rendering = kept

        self.render_and_keep(request.context, rendering)
        return rendering

    def _make_empty(self, kept: RenderingT | None, model: str) -> RenderingT:
        """Return a rendering without messages, with the repairs of a `kept` one."""
        empty = self._make_rendering() if kept is None else kept.copy_repairs()
        self._prepare(empty, model)
        return empty

    def _still_fits(self, kept: RenderingT, fresh: RenderingT, context: RequestContext) -> bool:
        """Return True if the messages of `kept` are those that the `fresh` rendering would get."""
        # Another host: the address is in a variable of the environment, or was found among several.
        return (
            kept.item_count <= len(context)  # it is larger after an undo
            and kept.appended == fresh.appended
            and kept.media.rules == fresh.media.rules
            and kept.host == self._host_mark
        )

    def render_and_keep(self, context: RequestContext, rendering: RenderingT) -> None:
        """Render `context` with `rendering`, and keep it for the next request.

        Providers also keep a rendering that they have repaired for a retry this way.
        """
        self._renderings.pop(context, None)
        self._renderings[context] = rendering
        if len(self._renderings) > MAX_RENDERINGS:
            del self._renderings[next(iter(self._renderings))]

        self._render(context, rendering)

    def render_once(self, request: ModelRequest) -> RenderingT:
        """Return a rendering of the request that is not kept, for a preview, a count, or a batch.

        It has the repairs of the conversation: parts that the API has rejected are not sent again.
        """
        # The context of a preview is a copy, so it is compared by its entries.
        of_conversation = (
            rendering
            for context, rendering in self._renderings.items()
            if _is_prefix(request.context, of=context)
        )
        kept = next(of_conversation, None)
        rendering = self._make_empty(kept, request.model)
        self._render(request.context, rendering)
        return rendering

    def _render(self, context: RequestContext, rendering: RenderingT) -> None:
        rendering.provider = self._endpoint.provider
        rendering.host = self._host_mark
        rendering.update(context)

    @property
    def _host_mark(self) -> str:
        """Mark of the server's host, as the entries of its responses have it."""
        return LastHost.of(urlsplit(self._endpoint.url).netloc).mark


def _is_prefix(context: RequestContext, *, of: RequestContext) -> bool:
    """Return True if `of` begins with `context`. Its last entry tells, because contexts grow."""
    last = len(context) - 1
    return 0 <= last < len(of) and of.items[last].entry is context.items[last].entry

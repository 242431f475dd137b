"""Benchmark images: size of the notebook, and times to record, read, and send them.

    python -m bench.images

The cases are twenty figures of matplotlib (640×480 pixels), one figure in twenty results, and
twenty results without an image. Times are medians. A request is measured for a context that was
sent before and has one more result.
"""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter

from pydantic import SecretBytes

from jp_nb.agent.turn_record import TurnRecord
from jp_nb.images import Image
from jp_nb.providers.anthropic.anthropic_rendering import AnthropicRendering
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.signing import Signer
from jp_nb.record.entries.entry_images import make_images_metadata
from jp_nb.record.entries.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.request_context.context import RequestContext
from jp_nb.record.request_context.context_builder import build_context
from jp_nb.record.stream import ConversationStream

RESULTS = 20
RUNS = 9


def figures(count: int) -> list[Image]:
    """Figures of a curve each."""
    from matplotlib.figure import Figure

    found = []
    for number in range(count):
        figure = Figure()
        figure.subplots().plot([x**2 % (7 + number) for x in range(200)])
        file = io.BytesIO()
        figure.savefig(file, format="png")
        found.append(Image("image/png", file.getvalue(), f"figure {number + 1}"))
    return found


def recorded(
    images: Sequence[Sequence[Image]],
) -> tuple[ConversationStream, RequestContext, list[float]]:
    """A conversation with a result for each of `images`, and the seconds that each took."""
    stream = ConversationStream.new(clock=utc_now, made="live")
    context = RequestContext()
    record = TurnRecord(stream, context)
    took = []
    record.start_turn(ChatRequest(content="Draw."))
    for number, shown in enumerate(images):
        call = f"call_{number}"
        record.add(ToolCallRequest(id=call, name="plot"))
        response = ToolCallResponse(
            id=call, content="", is_error=False, metadata=make_images_metadata(shown)
        )
        began = perf_counter()
        record.add(response, images=shown)
        took.append(perf_counter() - began)
    record.add(ChatResponse(message="Done."))
    return stream, context, took


def median_ms(action: Callable[[], object]) -> float:
    """Milliseconds of `action`."""
    found = []
    for _ in range(RUNS):
        began = perf_counter()
        action()
        found.append(perf_counter() - began)
    return 1000 * statistics.median(found)


def resend_ms(context: RequestContext) -> float:
    """Milliseconds to encode a thread again that grew by its last result."""
    found = []
    for _ in range(RUNS):
        growing = RequestContext(context.items[:-2])
        rendering = AnthropicRendering()
        rendering.update(growing)
        rendering.encode_messages()
        growing.items.append(context.items[-2])
        began = perf_counter()
        rendering.update(growing)
        rendering.encode_messages()
        found.append(perf_counter() - began)
    return 1000 * statistics.median(found)


def line(name: str, images: Sequence[Sequence[Image]]) -> str:
    """The figures of one case."""
    stream, context, took = recorded(images)
    stored = Document(stream).to_json()
    size = len(json.dumps(stored, ensure_ascii=False).encode())
    shown = {image.digest: len(image.content) for each in images for image in each}
    ratio = f"{size / sum(shown.values()):.2f}x" if shown else "-"
    append = 1000 * statistics.median(took)
    sign = median_ms(lambda: Signer.of(SecretBytes(bytes(32)), stream).signature())
    read = median_ms(lambda: build_context(Document.load(stored, clock=utc_now).conversation))
    parts = [f"{size / 1000:8.0f} kB", f"{ratio:>7}", f"{append:9.3f} ms", f"{sign:8.2f} ms"]
    return f"{name:<36}{' '.join(parts)} {read:8.2f} ms {resend_ms(context):8.3f} ms"


def main() -> None:
    """Print the figures."""
    twenty = figures(RESULTS)
    print(f"{'':<36}{'in .ipynb':>11} {'/PNGs':>7} {'append':>12} {'sign':>11} {'read':>11} resend")
    print(line(f"{RESULTS} results, a figure each", [[image] for image in twenty]))
    print(line(f"{RESULTS} results, the same figure", [twenty[:1]] * RESULTS))
    print(line(f"{RESULTS} results, no image", [[]] * RESULTS))


if __name__ == "__main__":
    main()

"""Notice that a local server cut the prompt, because its context is too small.

Ollama and some other local servers drop the beginning of a request without an error. Only the
number of input tokens that they report shows it. Hosted APIs return an error instead.

Source: `docs/providers.md`, https://docs.ollama.com/context-length,
https://github.com/ggml-org/llama.cpp/tree/master/tools/server.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Final

from jp_nb.agent.provider_events import Finished, PromptCut, ProviderEvent, Usage

MIN_SENT_TOKENS: Final = 1_500
"""Smaller requests fit into the context of every server."""
_TOKENS_PER_WORD: Final = 0.6
"""Tokenizers make 1.3 tokens of an English word on average, and the best ones 0.9."""
_CHARS_PER_TOKEN: Final = 16
"""Only repeated characters have tokens of this length."""
_WORD: Final = re.compile(rb"[A-Za-z0-9]+")
_BINARY: Final = re.compile(rb'"data:[^"]*"')
_OLLAMA: Final = (
    "The context of Ollama has `num_ctx` tokens, 4,096 by default. Start it with "
    "`OLLAMA_CONTEXT_LENGTH=32768 ollama serve`, or set `num_ctx` in the Modelfile."
)
_LLAMACPP: Final = "Start llama-server with a larger `--ctx-size`."
_OTHER: Final = (
    "Start the server with a larger context: `num_ctx` of Ollama, `--ctx-size` of llama.cpp, the "
    "context length of LM Studio."
)
_COMPACT: Final = "Or shorten the conversation: `%jp compact`."


def advise_context(software: str) -> str:
    """Return the advice for a server of the kind `software`, such as `ollama`."""
    ways = {"ollama": _OLLAMA, "llamacpp": _LLAMACPP}
    return f"{ways.get(software, _OTHER)} {_COMPACT}"


def count_least_tokens(messages: Iterable[bytes]) -> int:
    """Return a number of tokens that every tokenizer needs at least for encoded `messages`.

    It is about half of the usual number, and 0 for images and for texts in other scripts.
    """
    words = 0
    chars = 0

    for message in messages:
        text = _BINARY.sub(b"", message)
        words_of_message = _WORD.findall(text)
        words += len(words_of_message)
        chars += sum(map(len, words_of_message))

    return int(max(words * _TOKENS_PER_WORD, chars / _CHARS_PER_TOKEN))


async def watch_prompt(
    events: AsyncGenerator[ProviderEvent, None],
    *,
    sent: int,
    advice: str,
    on_cut: Callable[[], object],
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield `events`, with a `PromptCut` before the end if the server read less than `sent`.

    `sent` is a number of tokens that the whole prompt surely has. `on_cut` is called before the
    notice.
    """
    usage = Usage()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Usage) and event.input_tokens is not None:
                usage = event
            if isinstance(event, Finished):
                # Some servers count cached tokens apart, and report nothing of a cached prompt.
                read = (usage.input_tokens or 0) + (usage.cache_read_tokens or 0)
                if usage.input_tokens and read < sent:
                    on_cut()
                    yield PromptCut(read, sent, advice)
            yield event

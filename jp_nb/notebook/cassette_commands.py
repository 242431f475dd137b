"""`%jp cassette`: models on file, recorded or answering in their place.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.config.tree.provider_config import CassetteMode
from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, suggestion
from jp_nb.rendering.cassette_report import exchange_in_words, exchanges
from jp_nb.safe_text import one_line, plain
from jp_nb.session.cassettes import Cassettes

MODES: Final[tuple[CassetteMode, ...]] = ("record", "replay", "replay-or-record", "off")
MAX_LISTED: Final = 20
"""Of exchanges that answered nothing."""


def cassette(call: Invocation) -> None:
    """Say what is in force, or change that for this kernel."""
    cassettes = call.session.active.cassettes
    if call.options.words:
        word, *files = call.options.words
        mode = next((each for each in MODES if each == word), None)
        if mode is None or (mode == "off" and files):
            raise UsageError(_unknown(call.options.words, call.subcommand.usage))
        call.session.active.refuse_while_running()
        cassettes.choose(mode, next(iter(files), None))
    for line in status(cassettes):
        print(f"jp_nb: {plain(line)}")


def status(cassettes: Cassettes) -> list[str]:
    """Return what is in force, and what has answered nothing yet.

    Raises:
        ConfigError: If it cannot be told, or the file cannot be read.
    """
    tape = cassettes.tape
    if tape is None:
        return ["No cassette is in use: requests are sent to the model, and nothing is recorded."]
    name, whole = cassettes.name_of(tape.path), exchanges(len(tape.cassette.exchanges))
    if tape.is_unanswered:
        return [
            f"Nothing is recorded on {name} yet, and the file is unchanged: no model has answered."
        ]
    if tape.choice.mode == "record":
        return [f"Model responses are recorded on {name}: {exchanges(tape.added)} so far."]
    added = "" if tape.is_offline else f", {tape.added} added. Other requests are sent to the model"
    lines = [f"Model responses are replayed from {name}: {tape.used} of {whole} used{added}."]
    if tape.choice.tools == "recorded":
        lines.append("Tools do not run: their results are replayed from the cassette.")
    if rest := tape.unused() if tape.used else []:
        lines.append("Not used yet:")
        lines += [f"  {exchange_in_words(tape.cassette, each)}" for each in rest[:MAX_LISTED]]
        if more := rest[MAX_LISTED:]:
            lines.append(f"  … and {len(more)} more")
    return lines


def _unknown(words: Sequence[str], usage: str) -> str:
    word = words[0]
    if word == "off":
        return f"`%jp cassette off` takes no file. Usage: `{usage}`"
    hint = suggestion(word, MODES, "cassette")
    return f"There is no cassette mode `{one_line(word, limit=60)}`. {hint}Usage: `{usage}`"

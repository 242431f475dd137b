"""From the record to the configuration in force.

Source: `spec/conversation-stream.md` section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import JsonValue

from jp_nb.config.app_config import AppConfig
from jp_nb.config.layers import Layer, fold, known, without_foreign_authority
from jp_nb.config.partial import Partial, merge, settled, unset, validate
from jp_nb.record.stream import ConversationStream

RESET = "(reset)"
"""Stands in `ignored` for a stranger's reset of everything below the conversation."""


class Projection:
    """The configuration of one conversation, folded as the record grows.

    Unless it is `trusted`, what was in the record when it was read is a stranger's: leaves that
    could run code, reach a host, name a key or widen access are left out of it and listed in
    `ignored`. What this process appends counts in full.

    Args:
        stream: The conversation.
        below: The layers under it, lowest first; asked again only after `below_changed`.
        trusted: Whether what is stored already counts in full.
    """

    def __init__(
        self,
        stream: ConversationStream,
        below: Callable[[], Iterable[Layer]],
        *,
        trusted: bool = False,
    ) -> None:
        self._stream = stream
        self._below = below
        self._foreign = 0 if trusted else len(stream.deltas)
        self._own_base = trusted
        self.ignored: dict[str, JsonValue] = {}
        self.not_understood: list[str] = []
        self._start_again()

    def _start_again(self) -> None:
        self._folded = 0
        self._reset = False
        self._config: AppConfig | None = None
        self._partial = self._admit(self._stream.base_config, foreign=not self._own_base)

    def below_changed(self) -> None:
        """The layers under the conversation are other ones now."""
        self._config = None

    def _admit(self, partial: Partial, *, foreign: bool) -> Partial:
        if not foreign:  # this process made it, and checked it then
            return partial
        partial, unknown = known(partial)
        self.not_understood += unknown
        partial, ignored = without_foreign_authority(partial)
        self.ignored |= ignored
        return partial

    def _fold_new(self) -> None:
        # By the place among the deltas: a repair moves entries, and a stranger's must stay one.
        deltas = self._stream.deltas
        for index in range(self._folded, len(deltas)):
            entry = deltas[index]
            self._config = None
            if entry.op == "reset":
                self._partial = {}
                if index < self._foreign:
                    self.ignored[RESET] = (
                        True  # what the user's own files say is not theirs to drop
                    )
                else:
                    self._reset = True
                continue
            for path in entry.unsets:
                self._partial = unset(self._partial, path)
            delta = self._admit(entry.delta, foreign=index < self._foreign)
            self._partial = merge(self._partial, delta)
        self._folded = len(deltas)

    def layers(self) -> list[Layer]:
        """All layers, lowest first, the conversation last."""
        self._fold_new()
        below = list(self._below())
        if self._reset:
            below = [layer for layer in below if layer.name == "registrations"]
        return [*below, Layer("conversation", self._partial)]

    def partial(self) -> Partial:
        """What all layers together set."""
        return settled(fold(self.layers()))

    def config(self) -> AppConfig:
        """The configuration in force; the same object until something changes.

        Raises:
            ConfigError: If the layers do not make a valid configuration.
        """
        self._fold_new()
        if self._config is None:
            self._config = validate(self.partial())
        return self._config

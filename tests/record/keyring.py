"""The user's key in memory."""

from __future__ import annotations

from pydantic import SecretBytes

from tests.kit.kinds import make


class Keyring:
    """The user's key in memory, as a file has it. With `refuses`, the key cannot be used.

    `asked` counts the readings.
    """

    def __init__(self, key: bytes | None = None, *, refuses: str = "") -> None:
        self.key = key
        self.refuses = refuses
        self.asked = 0

    def read(self) -> SecretBytes | None:
        self.asked += 1
        if self.refuses:
            raise make("no_key_error", self.refuses)
        return SecretBytes(self.key) if self.key else None

    def obtain(self) -> SecretBytes:
        self.key = self.key or b"k" * 32
        found = self.read()
        assert found is not None
        return found

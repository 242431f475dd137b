"""Find out from an error if a server has refused changes that were appended to a conversation.

The request is then sent again with the changes in front (`first_head.py`).

Source: `docs/providers.md`, `docs/extending.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.errors import ProviderError

_REFUSALS: Final = (400, 404, 422, 500)  # llama.cpp answers 500 to a failing chat template
_REFUSED_CHANGE: Final = re.compile(
    r"\broles?\b|system (?:message|prompt)|template|tool_addition|tool_removal|anthropic-beta|"
    r"additional_tools|configuration_update",
    re.IGNORECASE,
)


def is_refused_change(error: ProviderError) -> bool:
    """Return True if a server may have refused a request because of appended changes."""
    return error.status in _REFUSALS and _REFUSED_CHANGE.search(str(error)) is not None

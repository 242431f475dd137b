"""Errors in the streams of Gemini, for both dialects: refusals of content, and failures.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.agent.provider_events import Finished
from jp_nb.providers.network.errors import classify_stream_error

GOOGLE_NAME: Final = "google"
GOOGLE_REFUSAL: Final = re.compile(
    r"safety|blocked|prohibited|recitation|spii|blocklist", re.IGNORECASE
)
"""Words of an error that mean that the API refuses the content."""
# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_STATUS_OF_CODE: Final[Mapping[int, int]] = {
    2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400,
    10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401,
}  # fmt: skip
"""The HTTP status of each code of gRPC."""


def end_with_error(error: Any) -> Finished:
    """Return the end of a response that its server refused.

    `error` is `{"code": int | str, "message", "status"}`, or only a message. A code can be a word,
    a URI that ends in one, an HTTP status, or a code of gRPC. The status is a word.

    Raises:
        ProviderError: The error is not a refusal.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    code = fields.get("code")
    message = fields.get("message")

    if isinstance(code, str):
        code = code.rpartition("/")[2]
    elif isinstance(code, int):
        code = _STATUS_OF_CODE.get(code, code)

    if GOOGLE_REFUSAL.search(f"{code} {message}"):
        return Finished("refused", str(message or code))

    described = {"message": message, "code": code, "type": fields.get("status")}
    raise classify_stream_error(described, provider=GOOGLE_NAME)

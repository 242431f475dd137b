"""Text parts of a response."""

from __future__ import annotations

import pytest

from jp_nb.providers.answers import is_json_object


@pytest.mark.parametrize(
    ("text", "is_object"),
    [("{}", True), ("[]", False), ("{", False), ("", False), ('{"a":' + "[" * 100_000, False)],
)
def test_what_is_a_complete_object(text: str, is_object: bool) -> None:
    assert is_json_object(text) is is_object

"""Text parts of a response."""

from __future__ import annotations

import pytest

from jp_nb.providers.answers import is_json_object


def test_what_is_a_complete_object(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, bool]] = [
        ("{}", True),
        ("[]", False),
        ("{", False),
        ("", False),
        ('{"a":' + "[" * 100_000, False),
    ]
    for text, is_object in rows:
        with subtests.test(text=text, is_object=is_object):
            assert is_json_object(text) is is_object

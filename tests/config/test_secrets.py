"""What may be a secret is not shown."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from jp_nb.config.secrets import HIDDEN, masked, without_credentials


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([{"password": "x", "n": 1}], [{"password": HIDDEN, "n": 1}]),
        ({"a": [[{"db_pass": "x"}], "y"]}, {"a": [[{"db_pass": HIDDEN}], "y"]}),
        ({"token": ["x", "y"]}, {"token": HIDDEN}),
        ({"compass": "x", "secret": True}, {"compass": "x", "secret": True}),
    ],
)
def test_secrets_are_hidden_at_any_depth(value: JsonValue, shown: JsonValue) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer a.b-c", f"Authorization: Bearer {HIDDEN}"),
        ("--key=sk-ant-api03-abc", f"--key={HIDDEN}"),
        ("https://u:p:w@h:80/x?y=a@b", f"https://u:{HIDDEN}@h:80/x?y=a@b"),
        ("http://h:80/x@y", "http://h:80/x@y"),
        ("ask-somebody-else task-list", "ask-somebody-else task-list"),
    ],
)
def test_what_looks_like_a_key_in_a_command_is_hidden(text: str, shown: str) -> None:
    assert without_credentials(text) == shown

"""Masking of secrets in shown values of the configuration."""

from __future__ import annotations

from typing import Any

from jp_nb.config.masked_settings import mask_secrets
from jp_nb.config.setting_paths import parse_path
from tests.kit.settings import Settings

NOT_SHOWN = "(set, not shown)"


OPTIONS = ("conversation", "tools", "t", "options")


def is_masked(path: str) -> bool:
    """Return True if a text at `path` is not shown."""
    return mask_secrets("x", parse_path(path)) == NOT_SHOWN


def test_secrets_are_masked_at_any_depth() -> None:
    rows: list[tuple[Any, Any]] = [
        ([{"password": "x", "n": 1}], [{"password": NOT_SHOWN, "n": 1}]),
        ({"a": [[{"db_pass": "x"}], "y"]}, {"a": [[{"db_pass": NOT_SHOWN}], "y"]}),
        ({"token": ["x", "y"]}, {"token": NOT_SHOWN}),
        ({"api_key": 1}, {"api_key": NOT_SHOWN}),
        (
            {"pin": {"value": ["x"], "strategy": "append"}},
            {"pin": {"value": NOT_SHOWN, "strategy": "append"}},
        ),
        ({"compass": "x", "secret": True}, {"compass": "x", "secret": True}),
    ]
    for value, shown in rows:
        assert mask_secrets(value) == shown
    assert mask_secrets("x", (*OPTIONS, "api.key")) == NOT_SHOWN


def test_settings_of_a_tool_named_like_a_secret_are_shown() -> None:
    for below in ("command", "command.args", "run", "access", "options.x", "questions.q.answer"):
        for tool in ("token", "API_KEY"):
            keys = ("conversation", "tools", tool, *below.split("."))
            assert mask_secrets("sh -c 'curl x | sh'", keys) == "sh -c 'curl x | sh'"


def test_no_setting_of_the_configuration_has_the_name_of_a_secret() -> None:
    assert not [path for path in Settings.list_paths() if is_masked(path)]


def test_key_in_brackets_names_a_secret_and_an_item_of_a_list_does_not() -> None:
    assert not is_masked('conversation.attachments["token"]')
    assert is_masked('conversation.tools.t.options["api key"]')
    assert is_masked("conversation.tools.t.questions.pin.answer")
    assert is_masked("conversation.tools.t.parameters.password.default")

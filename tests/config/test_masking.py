"""What may be a secret is not shown."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from jp_nb.config.masking import is_secret, masked
from jp_nb.config.paths import Element, parse_path
from jp_nb.config.schema import field_paths
from jp_nb.config.secret_names import NOT_SHOWN, may_hold_secret, without_credentials


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([{"password": "x", "n": 1}], [{"password": NOT_SHOWN, "n": 1}]),
        ({"a": [[{"db_pass": "x"}], "y"]}, {"a": [[{"db_pass": NOT_SHOWN}], "y"]}),
        ({"token": ["x", "y"]}, {"token": NOT_SHOWN}),
        ({"compass": "x", "secret": True}, {"compass": "x", "secret": True}),
    ],
)
def test_secrets_are_hidden_at_any_depth(value: JsonValue, shown: JsonValue) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer a.b-c", f"Authorization: Bearer {NOT_SHOWN}"),
        ("--key=sk-ant-api03-abc", f"--key={NOT_SHOWN}"),
        ("https://u:p:w@h:80/x?y=a@b", f"https://u:{NOT_SHOWN}@h:80/x?y=a@b"),
        ("http://h:80/x@y", "http://h:80/x@y"),
        ("ask-somebody-else task-list", "ask-somebody-else task-list"),
        ("curl http://a:$(rm${IFS}-rf)@h", "curl http://a:$(rm${IFS}-rf)@h"),
        ("curl -H Bearer\t;rm x", "curl -H Bearer\t;rm x"),
    ],
)
def test_what_looks_like_a_key_in_a_command_is_hidden(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


SECRET_NAMES = [
    *(
        "token",
        "tokens",
        "access_tokens",
        "accessToken",
        "refresh-token",
        "API_KEY",
        "api.key",
        "APIKey",
        "apikey",
        "X-Api-Key",
    ),
    *(
        "secret",
        "secret_key",
        "clientSecret",
        "aws_secret_access_key",
        "private_key",
        "sshKey",
        "password",
        "passwords",
    ),
    *(
        "db_pass",
        "dbpassword",
        "password2",
        "API_KEY_2",
        "passphrase",
        "pwd",
        "pin",
        "credential",
        "credentials",
        "authorization",
    ),
    *("Proxy-Authorization", "cookie", "jwt"),
]
OTHER_NAMES = [
    *(
        "command",
        "source",
        "run",
        "access",
        "args",
        "shell",
        "program",
        "enable",
        "name",
        "key",
        "keys",
        "path",
        "max_tokens",
        "maxTokens",
    ),
    *(
        "input_tokens",
        "max_total_tokens",
        "token_count",
        "tokenizer",
        "api_key_env",
        "public_key",
        "primary_key",
        "pinned",
    ),
    *(
        "spin",
        "compass",
        "bypass",
        "pass_through",
        "password_hint",
        "keyboard",
        "author",
        "secretary",
    ),
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_what_is_usually_secret_is_hidden(name: str) -> None:
    above = ("conversation", "tools", "t", "options")
    assert masked("x", (*above, name)) == NOT_SHOWN
    assert masked({name: 1}, above) == {name: NOT_SHOWN}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_that_only_resembles_a_secret_hides_nothing(name: str) -> None:
    assert not is_secret(("conversation", "tools", "t", "options", name))


@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize(
    "below",
    ["command", "command.args", "source", "run", "access", "options.x", "questions.q.answer"],
)
def test_a_tool_with_the_name_of_a_secret_is_seen(name: str, below: str) -> None:
    keys = ("conversation", "tools", name, *below.split("."))
    assert masked("sh -c 'curl x | sh'", keys) == "sh -c 'curl x | sh'"


def test_no_setting_of_the_tree_is_a_secret() -> None:
    assert not [path for path in field_paths() if is_secret(parse_path(path))]


def test_the_text_of_an_item_is_no_name_of_it_and_a_key_in_brackets_is() -> None:
    assert not is_secret(("conversation", "attachments", Element("token")))
    options = ("conversation", "tools", "t", "options")
    assert is_secret((*options, Element("api key")))
    assert is_secret(("conversation", "tools", "t", "questions", "pin", "answer"))
    assert is_secret(("conversation", "tools", "t", "parameters", "password", "default"))


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("providers.llm.openai.api_key_env", True),
        ("providers.llm.openai.base_url", True),
        ("providers.mcp.x.variables[0]", True),
        ('conversation.tools["a.b"].options.db_password', True),
        ("assistant.request.max_total_tokens", False),
        ("conversation.tools.key.run", False),
    ],
)
def test_an_error_shows_no_value_where_a_key_may_be_written(path: str, *, hidden: bool) -> None:
    assert may_hold_secret(path) is hidden

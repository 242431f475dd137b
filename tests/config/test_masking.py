"""What may be a secret is not shown."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from jp_nb.config.masking import is_secret, masked
from jp_nb.config.paths import Element, parse_path
from jp_nb.config.schema import field_paths
from jp_nb.config.secret_names import NOT_SHOWN, may_hold_secret, without_credentials
from jp_nb.config.secret_names import is_secret as names_secret_value


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
    *("token", "tokens", "access_tokens", "accessToken", "refresh-token", "API_KEY", "api.key",
     "APIKey", "apikey", "X-Api-Key"),
    *("secret", "secret_key", "clientSecret", "aws_secret_access_key", "private_key", "sshKey",
     "password", "passwords"),
    *("db_pass", "dbpassword", "password2", "API_KEY_2", "passphrase", "pwd", "pin", "credential",
     "credentials", "authorization"),
    *("Proxy-Authorization", "cookie", "jwt"),
    *("OPENAI_KEY", "mistral_key", "key_for_stripe", "OpenAIKey", "hugging_face_token"),
    *("password_prod", "passwords_by_user", "bearer", "bearer_ci", "secret_value", "SECRET_OF_DB"),
    *("github_token_ci", "token_value", "pin_2_old", "openaiapikey", "credentials_for_db"),
    *("webhook_secret_live", "api_key_prod_2", "authorization_code", "JWTRaw"),
]  # fmt: skip
OTHER_NAMES = [
    *("command", "source", "run", "access", "args", "shell", "program", "enable", "name", "key",
     "keys", "path", "max_tokens", "maxTokens"),
    *("input_tokens", "max_total_tokens", "token_count", "tokenizer", "api_key_env", "public_key",
     "primary_key", "pinned"),
    *("spin", "compass", "bypass", "pass_through", "password_hint", "keyboard", "author",
     "secretary"),
    *("openai_max_tokens", "openai_token_count", "github_token_env", "google_key_path",
     "tokens_test"),
    *("password_policy", "secret_name", "credentials_file", "token_ids", "token_type",
     "mistral_model"),
    *("bearer_format", "key_points", "cache_key", "sort_key", "openai_client", "new_value"),
]  # fmt: skip


def test_what_is_usually_secret_is_hidden(subtests: pytest.Subtests) -> None:
    for name in SECRET_NAMES:
        with subtests.test(name=name):
            above = ("conversation", "tools", "t", "options")
            assert masked("x", (*above, name)) == NOT_SHOWN
            assert masked({name: 1}, above) == {name: NOT_SHOWN}


def test_a_name_that_only_resembles_a_secret_hides_nothing(subtests: pytest.Subtests) -> None:
    for name in OTHER_NAMES:
        with subtests.test(name=name):
            assert not is_secret(("conversation", "tools", "t", "options", name))


def test_the_shape_of_a_value_counts_beside_its_name(subtests: pytest.Subtests) -> None:
    for name, value, secret in [
        ("my_key", "f3a9c1b2d4e5f6a7b8c9", True),
        ("signature", "AbC123dEf456gHi789jKl", True),
        ("x", "ghp_" + "a1" * 18, True),
        ("x", "AKIAABCDEFGHIJKLMNOP", True),
        ("x", "f3a9c1b2d4e5f6a7b8c9", False),
        ("cache_key", "user_profile_12345_v2", False),
        ("key", "name", False),
        ("key", 4711, False),
        ("password", 4711, True),
        ("notes", "the key is ghp_" + "a1" * 18, False),
    ]:
        with subtests.test(name=name):
            assert names_secret_value(name, value) is secret


def test_a_tool_with_the_name_of_a_secret_is_seen(subtests: pytest.Subtests) -> None:
    for below in [
        "command", "command.args", "source", "run", "access", "options.x", "questions.q.answer",
    ]:  # fmt: skip
        for name in SECRET_NAMES:
            with subtests.test(name=name, below=below):
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

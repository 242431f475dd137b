"""Recognition of secrets: names, the shape of keys, and both in texts and error messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jp_nb as jp
from jp_nb.config.aliases import resolve_model
from jp_nb.config.secrets import api_keys, secret_hiding, secret_names
from tests.kit.settings import Settings, setting

NOT_SHOWN = "(set, not shown)"


SECRET_NAMES = [
    "token", "tokens", "access_tokens", "accessToken", "refresh-token", "API_KEY", "api.key",
    "APIKey", "apikey", "X-Api-Key",
    "secret", "secret_key", "clientSecret", "aws_secret_access_key", "private_key", "sshKey",
    "password", "passwords",
    "db_pass", "dbpassword", "password2", "API_KEY_2", "passphrase", "pwd", "pin", "credential",
    "credentials", "authorization",
    "Proxy-Authorization", "cookie", "jwt",
    "OPENAI_KEY", "mistral_key", "key_for_stripe", "OpenAIKey", "hugging_face_token",
    "password_prod", "passwords_by_user", "bearer", "bearer_ci", "secret_value", "SECRET_OF_DB",
    "github_token_ci", "token_value", "pin_2_old", "openaiapikey", "credentials_for_db",
    "webhook_secret_live", "api_key_prod_2", "authorization_code", "JWTRaw",
]  # fmt: skip
OTHER_NAMES = [
    "command", "source", "run", "access", "args", "shell", "program", "enable", "name", "key",
    "keys", "path", "max_tokens", "maxTokens",
    "input_tokens", "max_total_tokens", "token_count", "tokenizer", "api_key_env", "public_key",
    "primary_key", "pinned",
    "spin", "compass", "bypass", "pass_through", "password_hint", "keyboard", "author",
    "secretary",
    "openai_max_tokens", "openai_token_count", "github_token_env", "google_key_path",
    "tokens_test",
    "password_policy", "secret_name", "credentials_file", "token_ids", "token_type",
    "mistral_model",
    "bearer_format", "key_points", "cache_key", "sort_key", "openai_client", "new_value",
]  # fmt: skip


def test_name_of_a_secret_is_recognized(subtests: pytest.Subtests) -> None:
    for name in SECRET_NAMES:
        with subtests.test(name=name):
            assert secret_names.is_secret_name(name)
    for name in OTHER_NAMES:
        with subtests.test(name=name):
            assert not secret_names.is_secret_name(name)


def test_value_with_the_shape_of_a_key_is_a_secret(subtests: pytest.Subtests) -> None:
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
            assert secret_names.is_secret(name, value) is secret


# --- texts -------------------------------------------------------------------------------------


def test_text_assigned_to_a_secret_name_is_hidden_in_code(subtests: pytest.Subtests) -> None:
    for code in [
        "api_key = {}'v4lue'", "password: str = {}'v4lue'", 'user = {{"token": {}"v4lue"}}',
        'os.environ["API_KEY"] = {}"v4lue"', 'Client(api_key={}"v4lue", n=3)',
        'secret = {}"""v4\nlue"""',
    ]:  # fmt: skip
        for prefix in ("", "f", "rb"):
            with subtests.test(code=code, prefix=prefix):
                written = code.format(prefix)
                shown = secret_hiding.hide_secrets(written, code=True)
                assert "lue" not in shown.replace("value", "")
                assert NOT_SHOWN in shown
                assert shown.partition("v4")[0][:8] == written[:8]


def test_code_without_secrets_is_unchanged() -> None:
    for code in ("token = read()", "pin = os.environ['X']", "max_tokens = 400", "monkey = 'b'"):
        assert secret_hiding.hide_secrets(code, code=True) == code


def test_keys_and_passwords_are_hidden_in_a_text(subtests: pytest.Subtests) -> None:
    for text in [
        "API_KEY=v4lue99",
        "password: v4lue99",
        "X-Api-Key: v4lue99",
        '{"token": "v4lue99"}',
        "postgres://u:v4lue99@h/d",
        f"ghp_{'v4lue99' * 5}",
        f"AIza{'v4lue99' * 5}",
        "eyJv4lue99v4lue99.eyJv4lue99v4lue99.v4lue99",
        "-----BEGIN RSA PRIVATE KEY-----\nv4lue99\n-----END RSA PRIVATE KEY-----",
    ]:
        with subtests.test(text=text):
            assert "v4lue99" not in secret_hiding.hide_secrets(f"a {text} b")
            assert secret_hiding.hide_secrets(f"a {text} b").startswith("a ")


@pytest.mark.deep
def test_search_for_secrets_takes_linear_time_in_hostile_texts() -> None:
    for part in (
        'a="""',
        'token="\\',
        "eyJ-",
        "-----BEGIN PRIVATE KEY-----",
        "a: ",
        "password",
        "a'",
    ):
        for code in (False, True):
            assert secret_hiding.hide_secrets(part * 200_000, code=code)


def test_credentials_are_hidden_in_a_command_line() -> None:
    for text, shown in [
        ("Authorization: Bearer a.b-c", f"Authorization: Bearer {NOT_SHOWN}"),
        ("--key=sk-ant-api03-abc", f"--key={NOT_SHOWN}"),
        ("https://u:p:w@h:80/x?y=a@b", f"https://u:{NOT_SHOWN}@h:80/x?y=a@b"),
        ("http://h:80/x@y", "http://h:80/x@y"),
        ("ask-for-help task-list", "ask-for-help task-list"),
        ("curl http://a:$(rm${IFS}-rf)@h", "curl http://a:$(rm${IFS}-rf)@h"),
        ("curl -H Bearer\t;rm x", "curl -H Bearer\t;rm x"),
    ]:
        assert api_keys.hide_credentials(text) == shown


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignment",
    [
        "providers.llm.openai.base_url=https://user:s3cret@host",
        "providers.llm.anthropic.api_key_env=sk-s3cret-key",
        "providers.llm.openai.base_url=https://host/v1?key=s3cret",
        "providers.llm.openai.base_url=https://host/v1#s3cret",
    ],
)
def test_secret_in_the_configuration_is_refused_and_not_repeated(assignment: str) -> None:
    with pytest.raises(jp.ConfigError) as caught:
        Settings.assign(assignment)
    assert "s3cret" not in str(caught.value)
    assert "environment variable" in str(caught.value)


KEYS = [
    "sk-ant-s3cret", "sk-s3cret", "AIzaSyA-s3cret_0123456789", "ghp_s3cret0123456789abcd",
    "0123456789abcdefs3cret0123456789", "s3cretAbCdEfGhIjKlMnOpQrStUv",
]  # fmt: skip


def test_error_shows_no_whole_key(subtests: pytest.Subtests) -> None:
    for path in [
        "assistant.model.id=acme-{}/", "assistant.model.id={}/x",
        "conversation.tools.t.enable={}", "conversation.tools.t.source={}",
        "conversation.tools.t.source=mcp.{}.", "conversation.tools.t.command='{}",
        "conversation.tools.t.run={}", 'conversation.labels:={{"1 {}": "x"}}',
        'providers.llm.aliases:={{"a/{}": "x"}}', "a.. {}", "{}",
    ]:  # fmt: skip
        with subtests.test(path=path):
            for key in KEYS:
                with pytest.raises(jp.ConfigError) as caught:
                    Settings.assign(path.format(key))
                assert key not in caught.value.problems[0].message
                assert key not in "".join(caught.value.args)


def test_error_shows_no_whole_key_in_place_of_a_model() -> None:
    reads: list[Callable[[str], object]] = [
        lambda key: resolve_model(key, {}),
        lambda key: Settings(setting("assistant.model.id", f"{key}/x")).whole(),
        lambda key: Settings.read({"JP_CFG_ASSISTANT__MODEL__ID": f"{key}/x"}, "environment"),
    ]
    for key in KEYS:
        for read in reads:
            with pytest.raises(jp.ConfigError) as caught:
                read(key)
            assert key not in str(caught.value)
            assert f"{key[:4]}\u2026" in str(caught.value)


def test_error_shows_a_wrong_value_unless_its_setting_may_hold_a_secret() -> None:
    rows = [
        ("assistant.request.max_total_tokens", True),
        ("conversation.tools.key.run", True),
        ("providers.llm.openai.api_key_env", False),
    ]
    for path, is_shown in rows:
        with pytest.raises(jp.ConfigError) as caught:
            Settings.assign(f"{path}=wrong=one")
        assert ("wrong=one" in str(caught.value)) is is_shown, path


def test_error_shows_a_plain_name_as_it_is() -> None:
    for name in ("fast", "gpt-4.1", "claude-sonnet-4-20250514-preview", "my-favourite-long-alias"):
        with pytest.raises(jp.ConfigError, match=f"'{name}' is neither"):
            resolve_model(name, {})


def test_error_shortens_a_long_text() -> None:
    with pytest.raises(jp.ConfigError, match=r"^'a{80}…' is neither"):
        resolve_model("a" * 1_000_000, {}, path="")

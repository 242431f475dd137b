"""Texts without secrets: keys by their look, and what a secret's name is set to."""

from __future__ import annotations

import pytest

from jp_nb.config.secret_names import NOT_SHOWN, without_secrets


def test_a_text_that_is_set_to_a_secrets_name_is_not_shown(subtests: pytest.Subtests) -> None:
    for prefix in ["", "f", "rb"]:
        for code in [
            "api_key = {}'v4lue'", "password: str = {}'v4lue'", 'user = {{"token": {}"v4lue"}}',
            'os.environ["API_KEY"] = {}"v4lue"', 'Client(api_key={}"v4lue", n=3)',
            'secret = {}"""v4\nlue"""',
        ]:  # fmt: skip
            with subtests.test(code=code, prefix=prefix):
                written = code.format(prefix)
                shown = without_secrets(written, code=True)
                assert "lue" not in shown.replace("value", "")
                assert NOT_SHOWN in shown
                assert shown.partition("v4")[0][:8] == written[:8]


@pytest.mark.parametrize(
    "code", ["token = read()", "pin = os.environ['X']", "max_tokens = 400", "monkey = 'b'"]
)
def test_code_that_says_no_secret_stays(code: str) -> None:
    assert without_secrets(code, code=True) == code


def test_keys_and_passwords_in_a_text_are_not_shown(subtests: pytest.Subtests) -> None:
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
            assert "v4lue99" not in without_secrets(f"a {text} b")
            assert without_secrets(f"a {text} b").startswith("a ")


def test_long_hostile_text_is_looked_through_once(subtests: pytest.Subtests) -> None:
    for part in [
        'a="""', 'token="\\', "eyJ-", "-----BEGIN PRIVATE KEY-----", "a: ", "password", "a'",
    ]:  # fmt: skip
        for code in [False, True]:
            with subtests.test(code=code, part=part):
                assert without_secrets(part * 200_000, code=code)

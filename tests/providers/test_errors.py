"""Retries after errors of a server: kinds of errors, and waits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.providers.network.errors import classify_response
from tests.kit.streams import StreamReader

NOW = 1_700_000_000.0
BODY = '{"error": {"message": "no"}}'
RETRYABLE = (408, 409, 429, 500, 502, 503, 504, 529)
FATAL = (400, 401, 402, 403, 404, 413, 422)
WAITS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0.25"}, 0.25),
    ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
    ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, None),
    ({"retry-after": "0"}, None),
    ({"retry-after": "soon"}, None),
]


def answered(status: int, headers: dict[str, str], body: str = BODY) -> jp.ProviderError:
    return classify_response(status, headers, body, now=NOW, provider="p")


def error_in_stream(error: Any) -> jp.ProviderError:
    """Return the error of a stream in which the server reports `error`."""
    with pytest.raises(jp.ProviderError) as caught:
        StreamReader("anthropic").feed({"type": "error", "error": error})
    return caught.value


def test_status_decides_whether_a_request_is_tried_again(subtests: pytest.Subtests) -> None:
    for status in (*RETRYABLE, *FATAL):
        with subtests.test(status=status):
            error = answered(status, {})
            kind = {402: "quota", 429: "rate_limit"}.get(status)
            assert error.kind == (kind or ("transient" if status in RETRYABLE else "other"))
            assert error.retryable is (status in RETRYABLE)
            assert (error.status, error.retry_after) == (status, None)


def test_retry_after_is_read_in_every_form(subtests: pytest.Subtests) -> None:
    for headers, wait in WAITS:
        with subtests.test(headers=headers):
            for status in (429, 503):
                assert answered(status, headers).retry_after == wait
            # An error with `retry-after` is retried.
            error = answered(400, headers)
            assert (error.kind, error.retry_after) == ("other", wait)
            assert error.retryable is (wait is not None)


def test_x_should_retry_overrides_the_status(subtests: pytest.Subtests) -> None:
    wait = {"retry-after": "7"}
    for status, verdict, kind, seconds in [
        (400, "true", "transient", 7.0),
        (429, "true", "rate_limit", 7.0),
        (402, "true", "quota", None),
        (402, "false", "quota", None),
        (429, "false", "other", None),
        (503, " False ", "other", None),
        (400, "false", "other", None),
    ]:
        with subtests.test(status=status, verdict=verdict):
            error = answered(status, {**wait, "x-should-retry": verdict})
            assert (error.kind, error.retry_after) == (kind, seconds)
            assert error.retryable is (seconds is not None)


@given(
    st.sampled_from(RETRYABLE + FATAL), st.sampled_from(WAITS), st.sampled_from(["", "true", "no"])
)
def test_status_wait_and_verdict_are_independent(
    status: int, wait: tuple[dict[str, str], float | None], verdict: str
) -> None:
    headers, seconds = wait
    error = answered(status, {**headers, "x-should-retry": verdict})
    tried = status in RETRYABLE or verdict == "true" or seconds is not None
    assert error.retryable is (tried and status != 402)
    assert error.retry_after == (None if status == 402 else seconds)


def test_rate_limit_headers_name_the_wait(subtests: pytest.Subtests) -> None:
    reset = {"x-ratelimit-reset-requests": "200ms", "x-ratelimit-reset-tokens": "6m0s"}
    rows: list[tuple[dict[str, str], float]] = [
        ({"ratelimit": '"default";r=0;t=12'}, 12.0),
        ({"ratelimit": "limit=10, remaining=0, reset=13"}, 13.0),
        (reset, 360.0),
        ({"x-ratelimit-reset": str(int(NOW) + 20)}, 20.0),
        ({"x-ratelimit-reset": str(int(NOW + 21) * 1000)}, 21.0),
        ({"retry-after": "3", **reset}, 3.0),
    ]
    for headers, wait in rows:
        with subtests.test(headers=headers):
            assert answered(429, headers, "").retry_after == wait
            assert not answered(400, {**headers, "retry-after": ""}, "wait 5").retryable


def test_wait_is_read_from_the_body(subtests: pytest.Subtests) -> None:
    for text, wait in [
        ("Rate limit reached. Please try again in 5.5s.", 6.0),
        ("Please try again in 20ms, thanks", 1.0),
        ("Please try again in 6m0s.", 360.0),
        ("retry after 10", 10.0),
        ("Retry-After: 4.", 4.0),
        ("please wait 12 seconds.", 12.0),
        ("Wait for 2 minutes", 120.0),
        ('{"@type": "RetryInfo", "retryDelay": "30s"}', 30.0),
        ("no hint, 5 items", None),
        ("try again in a while", None),
        (json.dumps({"error": {"message": "wait " * 10_000}}), None),  # in linear time
    ]:
        with subtests.test(text=text[:50]):
            assert answered(429, {}, text).retry_after == wait


def test_absurd_wait_is_ignored_or_bounded(subtests: pytest.Subtests) -> None:
    for value in [
        "-1",
        "nan",
        "inf",
        "1e999",
        "9" * 400,
        "",
        "5 5",
        "٣",
        "1_000_000_000_000",
        "-0.0",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "31 Dec 1999",
        "Fri, 99 Foo 99999 99:99:99 GMT",
        "Thu, 01 Jan 1970 00:00:00 -9999",
    ]:
        with subtests.test(value=value):
            for name in (
                "retry-after",
                "retry-after-ms",
                "x-ratelimit-reset",
                "x-ratelimit-reset-tokens",
            ):
                wait = classify_response(
                    429, {name: value}, BODY, now=1e9, provider="p"
                ).retry_after
                assert wait is None or 0 < wait <= 30 * 86400


def test_empty_account_is_not_a_rate_limit(subtests: pytest.Subtests) -> None:
    for text in [
        '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}',
        '{"error": {"message": "Your Credit Balance is too low"}}',
        '{"error": {"type": "billing_error", "message": "x"}}',
        "Insufficient credits",
    ]:
        with subtests.test(text=text):
            error = answered(429, {"retry-after": "1"}, text)
            assert (error.kind, error.retryable) == ("quota", False)


def test_context_overflow_is_recognized_by_its_message(subtests: pytest.Subtests) -> None:
    for text in [
        "This model's maximum prompt length is 131072 but the request has 200000 tokens",
        "The input token count (2000000) exceeds the maximum number of tokens allowed",
        "This model's maximum context length is 8192 tokens",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size",
        "input is too long",
    ]:
        with subtests.test(text=text):
            error = answered(400, {}, text)
            assert (error.kind, error.retryable) == ("too_long", False)
            assert error_in_stream({"message": text}).kind == "too_long"


def test_proxy_without_its_server_is_tried_again() -> None:
    assert answered(400, {}, "upstream connect error").kind == "transient"


def test_message_of_an_error_body(subtests: pytest.Subtests) -> None:
    for body, message in [
        ('{"error": {"message": "a"}}', "a"),
        ('{"error": "b"}', "b"),
        ('{"message": "c"}', "c"),
        ('{"detail": "d"}', "d"),
        ('[{"error": {"message": "e"}}]', "e"),
        ("404 page not found\n", "404 page not found"),
        ("<html>" + "x" * 9, None),
        ("x" * 1000, None),
        ("", None),
        ("[]", None),
        ("3", None),
    ]:
        with subtests.test(body=body):
            assert (message or "HTTP 418") in str(answered(418, {}, body))


def test_error_inside_a_stream_is_classified(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, str]] = [
        ({"type": "overloaded_error", "message": "Overloaded"}, "transient"),
        ({"type": "rate_limit_error", "message": "slow down"}, "rate_limit"),
        ({"code": 429, "message": "slow down"}, "rate_limit"),
        ({"code": "502", "message": "upstream"}, "transient"),
        ({"code": "insufficient_quota", "message": "x"}, "quota"),
        ({"type": "invalid_request_error", "message": "x"}, "other"),
        ({"type": "unheard_of", "message": "x"}, "other"),
        ("just a text", "other"),
        (None, "other"),
        (1e999, "other"),
        ([[]], "other"),
        ({"code": {}, "message": [1], "type": 5}, "other"),
        ("x" * 10**6, "other"),
    ]
    for error, kind in rows:
        with subtests.test(error=str(error)[:50]):
            found = error_in_stream(error)
            assert found.kind == kind
            assert len(str(found)) < 2500


def test_any_error_body_gives_a_short_message(subtests: pytest.Subtests) -> None:
    for body in [
        "1e999",
        "[" * 100_000,
        '{"error": ' * 5000 + "1" + "}" * 5000,
        '{"error": {"message": 1e999, "code": 1e999}}',
        '{"error": {"message": {"a": [1]}, "code": [[1]]}}',
        '{"error": {"message": "x", "code": ' + "9" * 5000 + "}}",
        "try again in " + "9" * 400 + " s",
        "retry after 1e999",
        '{"retryDelay": "' + "9" * 60_000 + 's"}',
        "\ufffd\ufffd\0",
    ]:
        with subtests.test(body=body[:50]):
            error = answered(429, {}, body)
            assert len(str(error)) < 3000
            assert error.retry_after in (None, 1.0)  # of `1e999` the first digit


def test_durations(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, float | None]] = [
        ("6m0s", 360),
        ("1h30m", 5400),
        ("200ms", 0.2),
        ("12.5", 12.5),
        ("1d", 86400),
        ("x", None),
    ]
    for text, seconds in rows:
        with subtests.test(text=text):
            wait = answered(429, {"x-ratelimit-reset-tokens": text}).retry_after
            assert wait == (None if seconds is None else pytest.approx(seconds))

from __future__ import annotations

import json

import pytest

from jp_nb.providers.retry import (
    classify,
    classify_in_stream,
    error_message,
    retry_after,
    seconds_of,
)

NOW = 1_700_000_000.0
RETRYABLE = {408, 409, 429, 500, 502, 503, 504, 529}
FATAL = {400, 401, 402, 403, 404, 413, 422}
HEADERS: dict[str, tuple[dict[str, str], float | None]] = {
    "none": ({}, None),
    "ms": ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    "seconds": ({"retry-after": "7"}, 7.0),
    "fraction": ({"retry-after": "0.25"}, 0.25),
    "date": ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
    "past date": ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, None),
    "zero": ({"retry-after": "0"}, None),
    "garbage": ({"retry-after": "soon"}, None),
}
RATE_LIMITS: dict[str, tuple[dict[str, str], float]] = {
    "draft": ({"ratelimit": '"default";r=0;t=12'}, 12.0),
    "older draft": ({"ratelimit": "limit=10, remaining=0, reset=13"}, 13.0),
    "resets": (
        {"x-ratelimit-reset-requests": "200ms", "x-ratelimit-reset-tokens": "6m0s"},
        360.0,
    ),
    "unix": ({"x-ratelimit-reset": str(int(NOW) + 20)}, 20.0),
    "unix ms": ({"x-ratelimit-reset": str(int(NOW + 21) * 1000)}, 21.0),
    "explicit first": ({"retry-after": "3", "x-ratelimit-reset-tokens": "6m0s"}, 3.0),
}


def test_status_matrix(subtests: pytest.Subtests) -> None:
    for verdict in [None, "true", "false"]:
        for headers in HEADERS:
            for status in sorted(RETRYABLE | FATAL):
                with subtests.test(status=status, headers=headers, verdict=verdict):
                    fields, wait = HEADERS[headers]
                    if verdict is not None:
                        fields = {**fields, "x-should-retry": verdict}
                    error = classify(
                        status, fields, '{"error": {"message": "no"}}', provider="p", now=NOW
                    )
                    assert error.status == status
                    if status == 402:
                        assert (error.kind, error.retryable) == ("quota", False)
                    elif verdict == "false":
                        assert (error.kind, error.retryable, error.retry_after) == (
                            "other",
                            False,
                            None,
                        )
                    elif verdict == "true" or status in RETRYABLE:
                        assert error.kind == ("rate_limit" if status == 429 else "transient")
                        assert error.retryable
                        assert error.retry_after == wait
                    else:
                        # An error that names the time to come back is worth coming back for.
                        assert error.kind == "other"
                        assert error.retry_after == wait
                        assert error.retryable is (wait is not None)


@pytest.mark.parametrize("name", RATE_LIMITS)
def test_rate_limit_headers(name: str) -> None:
    headers, wait = RATE_LIMITS[name]
    assert classify(429, headers, "", provider="p", now=NOW).retry_after == wait


def test_rate_limit_headers_do_not_make_a_bad_request_retryable() -> None:
    error = classify(400, {"x-ratelimit-reset-tokens": "6m0s"}, "wait 5", provider="p", now=NOW)
    assert not error.retryable


def test_hints_in_the_body(subtests: pytest.Subtests) -> None:
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
    ]:
        with subtests.test(text=text):
            assert retry_after({}, text, now=NOW) == wait


@pytest.mark.parametrize(
    "text",
    [
        '{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}',
        '{"error": {"message": "Your Credit Balance is too low"}}',
        '{"error": {"type": "billing_error", "message": "x"}}',
        "Insufficient credits",
    ],
)
def test_an_empty_account_is_not_a_rate_limit(text: str) -> None:
    error = classify(429, {"retry-after": "1"}, text, provider="p")
    assert (error.kind, error.retryable) == ("quota", False)


def test_a_proxy_without_its_server_is_worth_another_try() -> None:
    assert classify(400, {}, "upstream connect error", provider="p").kind == "transient"


def test_the_message_of_a_body(subtests: pytest.Subtests) -> None:
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
            assert error_message(body) == message
            assert (message or "HTTP 418") in str(classify(418, {}, body, provider="p"))


def test_errors_inside_a_stream(subtests: pytest.Subtests) -> None:
    for error, kind in [
        ({"type": "overloaded_error", "message": "Overloaded"}, "transient"),
        ({"type": "rate_limit_error", "message": "slow down"}, "rate_limit"),
        ({"code": 429, "message": "slow down"}, "rate_limit"),
        ({"code": "502", "message": "upstream"}, "transient"),
        ({"code": "insufficient_quota", "message": "x"}, "quota"),
        ({"type": "invalid_request_error", "message": "x"}, "other"),
        ({"type": "unheard_of", "message": "x"}, "other"),
        ("just a text", "other"),
        (None, "other"),
        ({"code": {}, "message": 3}, "other"),
    ]:
        with subtests.test(error=error):
            assert classify_in_stream(error, provider="p").kind == kind


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6m0s", 360), ("1h30m", 5400), ("200ms", 0.2), ("12.5", 12.5), ("1d", 86400), ("x", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == (None if seconds is None else pytest.approx(seconds))


def test_a_long_body_costs_little() -> None:
    body = json.dumps({"error": {"message": "wait " * 10_000}})
    assert classify(429, {}, body, provider="p").retry_after is None

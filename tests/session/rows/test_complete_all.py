"""A prompt for each row: order, failures, budget, pace, interrupts."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from io import StringIO
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import jp_nb as jp
from jp_nb.session.rows.single_completion import request_completion
from jp_nb.storage.shared_pace import RequestLimits, make_pace_folder
from tests.session.rows.row_server import RowServer, serve_rows
from tests.support.images import png
from tests.support.loopback import Reply
from tests.support.sessions import Notebook

ROOT = Path(__file__).resolve().parents[3]
ROWS = [f"row {number}" for number in range(40)]


@pytest.fixture(autouse=True)
def key(bare_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")


def texts(answers: jp.Completions) -> list[str]:
    return [each.text if isinstance(each, jp.Completion) else each.reason for each in answers]


@pytest.mark.req("MAP-3")
@pytest.mark.parametrize("kind", ["list", "tuple", "iterator"])
def test_answers_have_the_order_of_the_rows(kind: str) -> None:
    def later_is_faster(prompt: str, earlier: int) -> Reply:
        number = int(prompt.split()[1])
        return Reply(text=prompt.upper(), delay=(40 - number) / 1000)

    rows: Any = {"list": ROWS, "tuple": tuple(ROWS), "iterator": iter(ROWS)}[kind]
    with serve_rows(later_is_faster) as server:
        answers = jp.complete_all(rows, **server.options)
    assert texts(answers) == [row.upper() for row in ROWS]
    assert not answers.partial
    assert answers.usage.output_tokens == 7 * len(ROWS)


@pytest.mark.req("MAP-3", "MAP-7")
def test_rows_without_an_answer_are_values_and_stop_no_others() -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        replies = {
            "row 1": Reply(text="", finish="refusal"),
            "row 2": Reply(status=400, message="prompt is too long: 300000 tokens > 200000"),
            "row 3": Reply(text="half", finish="max_tokens"),
            "row 4": Reply(status=500),
        }
        return replies.get(prompt, Reply(text="yes"))

    rows = ["row 0", "row 1", "row 2", "row 3", "row 4", 5, " ", "row 7"]
    with serve_rows(answer) as server:
        answers = jp.complete_all(rows, **server.options)
    assert texts(answers) == [
        "yes",
        "refused",
        "too_long",
        "incomplete",
        "error",
        "prompt",
        "prompt",
        "yes",
    ]
    assert [failure.index for failure in answers.failures] == [1, 2, 3, 4, 5, 6]
    assert not answers.partial


@pytest.mark.req("MAP-3")
def test_first_failure_is_raised_on_request() -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        return Reply(text="", finish="refusal") if prompt == "row 3" else Reply(text="yes")

    with serve_rows(answer) as server, pytest.raises(jp.ProviderError, match="refused") as caught:
        jp.complete_all(ROWS, errors="raise", workers=1, **server.options)
    assert "row 3" in caught.value.__notes__[0]
    assert len(server.prompts) < len(ROWS)


@pytest.mark.req("MAP-7")
def test_limit_of_the_server_holds_all_workers() -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        if prompt == "row 5" and not earlier:
            return Reply(status=429, headers={"retry-after": "1"})
        return Reply(text="yes", delay=0.02)

    with serve_rows(answer) as server:
        answers = jp.complete_all(ROWS, workers=4, **server.options)
    assert texts(answers) == ["yes"] * len(ROWS)

    times = sorted(each.at for each in server.arrivals)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert sum(gap > 0.9 for gap in gaps) == 1, "one pause, in which nothing arrives"


@pytest.mark.req("MAP-7")
def test_half_as_many_requests_run_at_once_after_a_429() -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        if prompt == "row 7" and not earlier:
            return Reply(status=429, headers={"retry-after": "1"})
        return Reply(text="yes", delay=0.4)

    with serve_rows(answer) as server:
        answers = jp.complete_all(ROWS[:16], workers=8, **server.options)
    assert texts(answers) == ["yes"] * 16

    times = sorted(each.at for each in server.arrivals)
    resumed = next(later for earlier, later in pairwise(times) if later - earlier > 0.5)
    at_once = [time for time in times if 0 <= time - resumed < 0.3]
    assert len(at_once) <= 4


@pytest.mark.req("MAP-7")
def test_server_that_refuses_every_row_is_not_asked_for_the_rest() -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        return Reply(status=401, message="invalid x-api-key")

    rows = [f"row {number}" for number in range(500)]
    with serve_rows(answer) as server:
        answers = jp.complete_all(rows, workers=4, **server.options)
    assert texts(answers) == ["error"] * 500
    assert len(server.prompts) < 50
    assert "not asked" in answers.failures[-1].message
    assert answers.partial


@pytest.mark.req("MAP-7")
@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="", finish="refusal"),
        Reply(text="half", finish="max_tokens"),
        Reply(status=400, message="prompt is too long: 300000 tokens > 200000"),
    ],
    ids=["refused", "incomplete", "too_long"],
)
def test_many_rows_that_fail_by_their_content_stop_no_others(reply: Reply) -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        return Reply(text="yes") if prompt == "last" else reply

    with serve_rows(answer) as server:
        answers = jp.complete_all([*ROWS, "last"], workers=2, **server.options)
    assert texts(answers)[-1] == "yes"
    assert len(answers.failures) == len(ROWS)


@pytest.mark.req("MAP-6")
def test_no_row_begins_once_the_budget_is_used() -> None:
    with serve_rows(lambda prompt, earlier: Reply(text="yes")) as server:
        answers = jp.complete_all(ROWS, workers=1, max_total_tokens=90, **server.options)
    assert texts(answers) == ["yes"] * 5 + ["budget"] * 35  # 18 tokens each
    assert answers.partial


@pytest.mark.req("MAP-6")
def test_number_of_requests_at_once_is_limited() -> None:
    duration = 0.05
    with serve_rows(lambda prompt, earlier: Reply(text="yes", delay=duration)) as server:
        jp.complete_all(ROWS[:12], workers=6, max_concurrent=2, **server.options)
        times = [each.at for each in server.arrivals]
    overlaps = (sum(0 <= other - at < 0.9 * duration for other in times) for at in times)
    assert max(overlaps) <= 2


@pytest.mark.req("MAP-6", "BATCH-14")
def test_limits_of_a_batch_hold_for_rows_in_its_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jp_nb.storage.shared_pace.WINDOW_S", 0.6)
    monkeypatch.setenv("JP_NB_EVENTS", str(tmp_path / "events.jsonl"))
    limits = RequestLimits(per_minute={"anthropic": 4}, concurrent={"anthropic": 1})
    duration = 0.05
    with (
        make_pace_folder(limits) as folder,
        serve_rows(lambda prompt, earlier: Reply(text="yes", delay=duration)) as server,
    ):
        monkeypatch.setenv("JP_NB_PACE", folder)
        answers = jp.complete_all(ROWS[:9], workers=6, **server.options)
        times = [each.at for each in server.arrivals]

    assert texts(answers) == ["yes"] * 9
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) > 0.8 * duration, "one request at a time"
    assert all(later - times[n] > 0.5 for n, later in enumerate(times[4:])), "four in a window"
    reported = (tmp_path / "events.jsonl").read_text().splitlines()
    assert len(reported) == 9, "their tokens count for the budget of the batch"


@pytest.mark.req("MAP-4")
def test_interrupt_returns_the_answers_so_far() -> None:
    def answer(prompt: str, earlier: int) -> Reply:
        if prompt == "row 10":
            signal.raise_signal(signal.SIGINT)  # handled by the main thread
        return Reply(text="yes", delay=60 if int(prompt.split()[1]) >= 10 else 0)

    with serve_rows(answer) as server:
        answers = jp.complete_all(ROWS, workers=1, **server.options)
    assert texts(answers) == ["yes"] * 10 + ["interrupted"] * 30
    assert answers.partial


@pytest.mark.req("MAP-9")
def test_template_inserts_values_as_text(server: RowServer) -> None:
    rows = [
        {"text": "{other} {0.__class__}", "other": "secret"},
        {"text": None, "other": float("nan")},
        {"text": 7, "other": "x"},
    ]
    jp.complete_all(rows, prompt="Say {{}} {text}: {other}!", workers=1, **server.options)
    assert server.prompts == ["Say {} {other} {0.__class__}: secret!", "Say {} : !", "Say {} 7: x!"]


@pytest.mark.req("MAP-9", "MAP-10")
def test_template_that_leaves_no_text_is_a_failure_and_is_not_sent(server: RowServer) -> None:
    numpy = pytest.importorskip("numpy")
    empty = [None, "", " ", float("nan"), numpy.float32("nan"), numpy.datetime64("NaT", "s")]
    rows = [{"text": value} for value in (*empty * 5, "a")]
    answers = jp.complete_all(rows, prompt="{text}", workers=1, **server.options)
    assert texts(answers) == ["prompt"] * 30 + ["A"]
    assert server.prompts == ["a"]


@pytest.mark.req("MAP-9")
@pytest.mark.parametrize(
    "template", ["{text", "{text.__class__!r}", "{text:>10}", "{}", "{text!s}", "}"]
)
def test_template_with_more_than_names_is_refused(server: RowServer, template: str) -> None:
    with pytest.raises(jp.UsageError, match="template"):
        jp.complete_all([{"text": "a"}], prompt=template, **server.options)
    assert not server.prompts


@pytest.mark.req("MAP-9")
def test_name_that_looks_like_an_attribute_is_the_name_of_a_column(server: RowServer) -> None:
    answers = jp.complete_all([{"a.b": "x"}], prompt="{a.b}", **server.options)
    assert texts(answers) == ["X"]


class Review(BaseModel):
    mood: Literal["good", "bad"]
    stars: int


def review(prompt: str, earlier: int) -> Reply:
    """Answer with a review; that of "bad" is no review."""
    if "bad" in prompt:
        return Reply(text=json.dumps({"mood": "angry"}))
    return Reply(text=json.dumps({"mood": "good", "stars": len(prompt)}))


@pytest.mark.req("MAP-3", "MAP-8")
def test_pandas_series_and_frame_keep_their_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", "bad", "ccc"]}, index=["x", "y", "z"])
    with serve_rows(review) as server:
        answers = jp.complete_all(frame, prompt="{text}", schema=Review, **server.options)
        of_series = jp.complete_all(frame["text"], schema=Review, **server.options)

    table = answers.to_frame()
    assert list(table.index) == list(of_series.series.index) == ["x", "y", "z"]
    assert list(table.columns) == ["mood", "stars", "error"]
    assert table.loc["z", "stars"] == 3
    assert table.loc["y", "error"].startswith("invalid: ")
    assert of_series.series["x"] == Review(mood="good", stars=1)
    assert of_series.series["y"] is None


class Fields(BaseModel):
    error: str
    failure: str
    answer: int
    name: str


@pytest.mark.req("MAP-8")
def test_fields_and_columns_with_names_of_the_frame_are_kept() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["a", "b"], "index": [1, 2]})
    answer = {"error": "none", "failure": "disk", "answer": 1, "name": "x"}
    with serve_rows(lambda prompt, earlier: Reply(text=json.dumps(answer))) as server:
        answers = jp.complete_all(frame, prompt="{name}", schema=Fields, **server.options)
    table = answers.to_frame()
    assert list(table.columns) == ["error", "failure", "answer", "name", "failure_2"]
    assert table["error"].tolist() == ["none", "none"]
    assert table["failure"].tolist() == ["disk", "disk"]
    assert table["failure_2"].isna().all()
    assert answers.series.name == "answer"


class Request(BaseModel):
    # Pydantic's own attributes have these names, so the fields need others.
    schema_: date = Field(alias="schema")
    copy_: int = Field(validation_alias="copy")


@pytest.mark.req("MAP-8")
def test_field_with_an_alias_is_a_value_of_its_column() -> None:
    pytest.importorskip("pandas")
    answer = {"schema": "2026-03-01", "copy": 2}
    with serve_rows(lambda prompt, earlier: Reply(text=json.dumps(answer))) as server:
        answers = jp.complete_all(["a"], schema=Request, **server.options)
    table = answers.to_frame()
    assert table["schema"].tolist() == [date(2026, 3, 1)]
    assert table["copy"].tolist() == [2]


@pytest.mark.req("MAP-8")
def test_series_of_answers_has_the_name_of_the_prompts(server: RowServer) -> None:
    pandas = pytest.importorskip("pandas")
    for name, expected in ((0, 0), ("text", "text"), (None, "answer")):
        answers = jp.complete_all(pandas.Series(["a"], name=name), **server.options)
        assert answers.series.name == expected


@pytest.mark.req("MAP-3", "MAP-8")
def test_polars_series_and_frame_give_those_of_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": ["a", "bad", "ccc"]})
    with serve_rows(review) as server:
        answers = jp.complete_all(frame, prompt="{text}", schema=Review, **server.options)
    assert answers.to_frame()["stars"].to_list() == [1, None, 3]
    assert answers.series.to_list()[0] == {"mood": "good", "stars": 1}


class Place(BaseModel):
    city: str
    since: date


class Person(BaseModel):
    home: Place
    earlier: list[Place]


@pytest.mark.req("MAP-8")
def test_nested_answers_are_structs_of_polars_beside_a_row_without_an_answer() -> None:
    polars = pytest.importorskip("polars")
    delft = {"city": "Delft", "since": "2026-03-01"}

    def describe(prompt: str, earlier: int) -> Reply:
        answer = {} if "bad" in prompt else {"home": delft, "earlier": [delft]}
        return Reply(text=json.dumps(answer))

    prompts = polars.Series(["bad", "a"])
    with serve_rows(describe) as server:
        answers = jp.complete_all(prompts, schema=Person, **server.options)
    table = answers.to_frame()
    expected = {"city": "Delft", "since": date(2026, 3, 1)}
    assert table["home"].to_list() == [None, expected]
    assert table["earlier"].to_list() == [None, [expected]]


@pytest.mark.req("MAP-9")
def test_unknown_column_is_named_before_anything_is_sent(server: RowServer) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a"]})
    with pytest.raises(jp.UsageError, match="did you mean 'text'"):
        jp.complete_all(frame, prompt="{texts}", **server.options)
    with pytest.raises(jp.UsageError, match="template"):
        jp.complete_all(frame, **server.options)
    assert not server.prompts


@pytest.mark.req("MAP-10")
def test_each_row_has_its_images(server: RowServer) -> None:
    images = [png(), None, [png(), png(shade=3)]]
    jp.complete_all(ROWS[:3], images=images, workers=1, **server.options)
    contents = [request.body["messages"][0]["content"] for request in server.received]
    counts = [
        sum(part["type"] == "image" for part in content) if isinstance(content, list) else 0
        for content in contents
    ]
    assert counts == [1, 0, 2]


@pytest.mark.req("MAP-10")
def test_row_without_the_column_of_its_images_is_a_failure(server: RowServer) -> None:
    rows = [{"word": "a", "photo": png()}, {"word": "b", "photo": None}, {"word": "c"}, "d"]
    answers = jp.complete_all(rows, prompt="{word}", images="photo", **server.options)
    assert [bool(answer) for answer in answers] == [True, True, False, False]
    messages = [failure.message for failure in answers.failures]
    assert "has no 'photo'" in messages[0]
    assert "Give a list with the images of each row" in messages[1]


@pytest.mark.req("MAP-11")
def test_requests_begin_with_the_same_bytes(server: RowServer) -> None:
    jp.complete_all(ROWS[:3], system="Long instructions. " * 50, workers=1, **server.options)
    bodies = [dict(request.body, messages=None) for request in server.received]
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.req("MAP-13")
def test_tokens_are_listed_apart_from_the_conversation(server: RowServer, loaded: Notebook) -> None:
    jp.complete_all(ROWS[:3], progress=False, **server.options)
    shown = loaded.jp("usage")
    assert "outside of the conversation" in shown
    assert shown.count("33") == shown.count("21") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 5000}, "workers"),
        ({"workers": True}, "workers"),
        ({"max_total_tokens": -1}, "max_total_tokens"),
        ({"max_concurrent": 1.5}, "max_concurrent"),
        ({"errors": "ignore"}, "errors"),
        ({"images": [None]}, "images"),
    ],
)
def test_wrong_argument_is_named(server: RowServer, options: Any, said: str) -> None:
    with pytest.raises(jp.UsageError, match=said):
        jp.complete_all(ROWS, **options, **server.options)
    assert not server.prompts


@pytest.mark.parametrize("rows", ["one text", b"bytes", {"a": 1}, 7, None])
def test_rows_that_are_none_are_refused(server: RowServer, rows: Any) -> None:
    with pytest.raises(jp.UsageError, match="expected"):
        jp.complete_all(rows, **server.options)


def test_error_of_the_users_iterator_ends_the_requests_and_the_progress(
    server: RowServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows() -> Iterator[str]:
        yield "row 0"
        raise LookupError("no more data")

    with pytest.raises(LookupError):
        jp.complete_all(rows(), **server.options)
    assert capsys.readouterr().err.endswith("an error ended the requests\n")


@pytest.mark.req("MAP-6")
def test_cassette_replays_rows_in_any_order(
    server: RowServer, loaded: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.jp("cassette record rows.jsonl")
    recorded = jp.complete_all(ROWS, progress=False, **server.options)
    loaded.jp("cassette replay rows.jsonl")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    replayed = jp.complete_all(ROWS[::-1], progress=False, **server.options)
    assert texts(replayed) == texts(recorded)[::-1]
    assert len(server.prompts) == len(ROWS)


@pytest.mark.req("MAP-4")
def test_progress_of_a_headless_run_has_a_line_for_each_tenth(
    server: RowServer, capsys: pytest.CaptureFixture[str]
) -> None:
    jp.complete_all([*ROWS[:18], 1, 2], workers=1, **server.options)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:-1] == [f"jp_nb: {count} of 20 rows" for count in range(2, 20, 2)]
    assert lines[-1] == "jp_nb: 20 of 20 rows · 2 failed · 324 tokens"


def test_stopped_program_ends_at_once(server: RowServer) -> None:
    """The thread of the requests keeps no program alive, and its end prints nothing."""
    code = f"import jp_nb as jp; print(jp.complete('a', **{server.options!r}).text)"
    run = subprocess.run(
        [sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout == "A\n"
    assert run.stderr == ""


@pytest.mark.req("MAP-7")
def test_request_that_is_canceled_by_its_provider_is_a_failure(
    server: RowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancel_one(task: Any, prompt: Any, count: Any) -> jp.Completion:
        if prompt.text == "row 1":
            raise asyncio.CancelledError
        return await request_completion(task, prompt, count)

    monkeypatch.setattr("jp_nb.session.rows.row_run.request_completion", cancel_one)
    answers = jp.complete_all(ROWS[:3], **server.options)
    assert texts(answers) == ["ROW 0", "error", "ROW 2"]


class Terminal(StringIO):
    """A terminal that counts how often a line is replaced."""

    updates = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.updates += text.startswith("\r")
        return super().write(text)


@pytest.mark.req("MAP-4", "MAP-15")
def test_progress_is_shown_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m bench.rows 10000` has the figures of MAP-15 for memory and speed."""
    terminal = Terminal()
    with serve_rows(lambda prompt, _: Reply(text=prompt, delay=0.01)) as server:
        monkeypatch.setattr("sys.stderr", terminal)
        began = monotonic()
        answers = jp.complete_all([f"row {n}" for n in range(500)], **server.options)
        seconds = monotonic() - began
    assert not answers.failures
    assert 3 <= terminal.updates <= 10 * seconds + 2

    *shown, last = terminal.getvalue().split("\r\x1b[Kjp_nb: ")
    assert re.match(r"\d+ of 500 rows · \d+,\d+ tokens", shown[len(shown) // 2])
    assert last == "500 of 500 rows · 9,000 tokens\n"


@pytest.mark.req("MAP-15")
def test_rows_are_read_when_they_are_asked_and_as_many_run_at_once_as_there_are_workers() -> None:
    """So memory has no further prompts, and eight workers wait for eight answers at once."""
    ahead: list[int] = []
    latency = 1.0

    def rows() -> Iterator[str]:
        for number in range(24):
            ahead.append(number + 1 - len(server.arrivals))
            yield f"row {number}"

    def answer(prompt: str, _: int) -> Reply:
        number = int(prompt.removeprefix("row "))
        return Reply(text=prompt.upper(), delay=latency + 0.05 * (7 - number % 8))

    with serve_rows(answer) as server:
        answers = jp.complete_all(rows(), workers=8, progress=False, **server.options)
        times = [each.at - server.arrivals[0].at for each in server.arrivals]
    assert texts(answers) == [f"ROW {number}" for number in range(24)]
    assert max(ahead) <= 8
    assert times[7] < latency <= times[8]


@pytest.mark.req("MAP-20")
def test_row_costs_one_request_and_no_connection_of_its_own() -> None:
    with serve_rows(lambda prompt, _: Reply(text="yes", delay=0.01)) as server:
        answers = jp.complete_all(ROWS, workers=4, **server.options)
    assert not answers.failures
    assert len(server.arrivals) == len(ROWS)
    assert server.connections <= 4


@pytest.mark.req("MAP-20")
def test_row_makes_about_as_many_calls_as_a_plain_loop_with_httpx() -> None:
    """Calls do not depend on the load of the machine; `python -m bench.rows` has the times."""
    command = [sys.executable, "-m", "bench.rows", "--calls"]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    calls = json.loads(printed)
    assert calls["httpx"] > 100
    assert calls["complete_all"] <= 1.5 * calls["httpx"]

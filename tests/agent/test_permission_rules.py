"""Permission by the arguments of a call: rules of the configuration, and rules that users keep."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from jp_nb.agent.approvals.permission_rules import SessionRules
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import is_kind
from tests.kit.questions import answered, not_answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, for_tool, yes
from tests.support.partials import merge

GET = {"when": {"method": "GET"}, "run": "unattended"}
DELETE = {"when": {"method": "DELETE"}, "run": "skip"}
PUT = {"when": {"method": "PUT"}, "run": "ask"}


class Fetch:
    """A tool that records its arguments, in a turn that calls it with each of `arguments`."""

    def __init__(
        self,
        *arguments: dict[str, Any],
        ends: tuple[Any, ...] = (),
        kept: SessionRules | None = None,
        covers: str | None = None,
        away: str | None = None,
        star: Any = None,
        **settings: Any,
    ) -> None:
        self.seen: list[dict[str, Any]] = []

        def fetch(method: str = "GET", path: str = "", limit: int = 1) -> str:
            self.seen.append({"method": method, "path": path, "limit": limit})
            return "done"

        config = for_tool("fetch", **settings)
        if star is not None:
            config = merge(config, for_tool("*", **star))
        options: dict[str, Any] = {} if covers is None else {"covers": covers}
        calls = [call("fetch", f"c{n}", text=json.dumps(x)) for n, x in enumerate(arguments)]
        self.bench = TurnBench(
            [*(reply(each) for each in calls), DONE],
            tools=[new_tool(fetch, **options)],
            person=FakePrompter(*ends, away=away),
            config=config,
        )
        self.kept = kept or SessionRules()
        self.bench.use(kept_rules=self.kept)

    async def run(self) -> Fetch:
        await self.bench.run()
        return self

    @property
    def methods(self) -> list[str]:
        return [each["method"] for each in self.seen]

    @property
    def asked(self) -> list[Any]:
        return list(self.bench.person.asked)

    @property
    def responses(self) -> list[Any]:
        return self.bench.of("tool_call_response")


def method(name: str, **others: Any) -> dict[str, Any]:
    return {"method": name, **others}


# --- rules of the configuration ----------------------------------------------------------------


async def test_first_rule_that_matches_decides() -> None:
    rules = [GET, DELETE, {"when": {"method": "GET"}, "run": "skip"}]
    calls = [method("GET"), method("DELETE"), method("POST")]
    turn = await Fetch(*calls, run="ask", rules=rules, ends=(yes("run"),)).run()
    assert turn.methods == ["GET", "POST"]
    assert len(turn.asked) == 1
    assert [each.metadata.get("rule") for each in turn.responses] == [
        {"when": {"method": "GET"}, "from": "configuration"},
        {"when": {"method": "DELETE"}, "from": "configuration"},
        None,
    ]
    assert turn.responses[1].content == (
        'Tool skipped by user: a rule does not allow this call (method = "DELETE").'
    )
    shown = [event.rule for event in turn.bench.shown_of("tool_begins")]
    assert shown == ['method = "GET"', None]


async def test_rule_tightens_a_tool_that_runs_unattended() -> None:
    calls = [method("GET"), method("PUT")]
    turn = await Fetch(*calls, run="unattended", rules=[PUT], ends=(yes("skip"),)).run()
    assert turn.methods == ["GET"]
    [prompt] = turn.asked
    assert prompt.exhibits[-1].caption == "Your rule that asks about this call"
    assert prompt.exhibits[-1].value == 'method = "PUT"'


async def test_rule_loosens_only_its_calls_of_a_skipped_tool() -> None:
    turn = await Fetch(method("GET"), method("PUT"), run="skip", rules=[GET]).run()
    assert turn.methods == ["GET"]
    assert turn.responses[1].content == "Tool skipped by user."


async def test_same_rules_apply_without_a_user() -> None:
    rules = [GET, DELETE]
    calls = [method("GET"), method("DELETE"), method("POST")]
    turn = await Fetch(*calls, run="ask", rules=rules, away="headless").run()
    assert turn.methods == ["GET"]
    assert [each.is_error for each in turn.responses] == [False, False, True]


@pytest.mark.parametrize(
    ("own", "star", "ran"),
    [
        ({}, [GET], ["GET"]),
        ({"rules": [{"when": {"method": "GET"}, "run": "skip"}]}, [GET], []),
        ({"rules": [DELETE]}, [GET], ["GET"]),
        ({"run": "skip"}, [GET], []),
        ({"run": "unattended"}, [{"when": {"method": "GET"}, "run": "skip"}], []),
        ({"run": "unattended"}, [PUT], ["GET"]),
    ],
)
async def test_rules_for_all_tools_are_not_looser_than_the_tool(
    own: dict[str, Any], star: list[Any], ran: list[str]
) -> None:
    turn = await Fetch(method("GET"), star={"rules": star, "run": "skip"}, **own).run()
    assert turn.methods == ran


async def test_rules_judge_the_arguments_with_which_the_tool_runs() -> None:
    rules = [{"when": {"limit": 5}, "run": "unattended"}]
    calls: list[dict[str, Any]] = [{"limit": "5"}, {"limit": 5.0}, {"limit": True}, {}]
    turn = await Fetch(*calls, run="skip", rules=rules).run()
    # The text of a number becomes the number before anything else.
    assert [each["limit"] for each in turn.seen] == [5]
    assert type(turn.seen[0]["limit"]) is int


async def test_edited_arguments_are_judged_again() -> None:
    edit: JsonValue = {"method": "DELETE", "path": "", "limit": "1"}
    ends = (yes("edit"), answered(edit, "form"))
    turn = await Fetch(method("POST"), run="ask", rules=[DELETE], ends=ends).run()
    assert turn.seen == []
    assert "a rule does not allow this call" in turn.responses[0].content
    rule = turn.responses[0].metadata["rule"]
    assert rule == {"when": {"method": "DELETE"}, "from": "configuration"}


async def test_permission_for_the_turn_does_not_cover_calls_that_a_rule_asks_about() -> None:
    calls = [method("POST"), method("PUT"), method("PUT"), method("POST")]
    ends = (yes("run_turn"), yes("run_turn"))
    turn = await Fetch(*calls, run="ask", rules=[PUT], ends=ends).run()
    assert turn.methods == ["POST", "PUT", "PUT", "POST"]
    assert len(turn.asked) == 2

    turn = await Fetch(*calls, run="ask", rules=[PUT], ends=(yes("skip_turn"),)).run()
    assert (turn.methods, len(turn.asked)) == ([], 1)


# --- rules that the user keeps -----------------------------------------------------------------

KEEP = (yes("always"), yes("session"))


async def test_kept_rule_covers_the_same_arguments_alone() -> None:
    calls: list[dict[str, Any]] = [
        {"path": "a"},
        {"path": "a"},
        {"path": "a", "limit": 1},
        {"path": "a", "method": "GET"},
        {"path": "a "},
        {},
    ]
    ends = (*KEEP, *(yes("skip") for _ in range(4)))
    turn = await Fetch(*calls, run="ask", ends=ends).run()
    assert [each["path"] for each in turn.seen] == ["a", "a"]
    [_, rule, *others] = turn.asked
    assert len(others) == 4
    assert rule.exhibits[0].value == (
        '[[conversation.tools.fetch.rules]]\nwhen = { path = "a" }\nonly_these = true\n'
        'run = "unattended"'
    )
    assert turn.responses[0].metadata == {}
    assert turn.responses[1].metadata["rule"] == {
        "when": {"path": "a"},
        "from": "session",
        "only_these": True,
    }


async def test_user_changes_the_conditions_before_the_rule_is_kept() -> None:
    answer: dict[str, Any] = {
        "argument path": {"selected": [], "custom": "glob:a*"},
        "argument limit": "any",
        "argument method": "exact",
        "other arguments": "none",
    }
    ends = (
        yes("always"),
        yes("change"),
        answered(answer, "form"),
        yes("session"),
        yes("skip"),
        yes("skip"),
    )
    calls = [
        {"path": "ab", "limit": 1, "method": "GET"},
        {"path": "abc", "limit": 7, "method": "GET"},
        {"path": "b", "limit": 1, "method": "GET"},
        {"path": "ab", "limit": 1, "method": "PUT"},
    ]
    turn = await Fetch(*calls, run="ask", ends=ends).run()
    assert [each["path"] for each in turn.seen] == ["ab", "abc"]
    last = turn.asked[3]
    assert 'path = "glob:a*", limit = { any = true }, method = "GET"' in last.exhibits[0].value


@pytest.mark.parametrize(
    ("custom", "problem"),
    [
        ("glob:b*", "this call does not meet the condition"),
        ("{ min = 1 }", "this call does not meet the condition"),
        ("a*", "expected `inside:FOLDER`"),
        ("1\nx = 2", "expected `inside:FOLDER`"),
        ("inside:", "expected a folder"),
        ('"a"', ""),
        ("{ one_of = ['a', 'b'] }", ""),
    ],
)
async def test_own_condition_is_checked(custom: str, problem: str) -> None:
    answer: JsonValue = {
        "argument path": {"selected": [], "custom": custom},
        "other arguments": "none",
    }
    misfit = await find_problem_in_form({"path": "a"}, answer)
    assert problem in misfit
    assert bool(problem) == bool(misfit)


HALF_OF_A_RULE = f"{{ one_of = ['a', '{'x' * 5_000}'] }}"


@pytest.mark.parametrize("others", ["none", "any"])
@pytest.mark.parametrize(
    ("custom", "is_valid"), [(HALF_OF_A_RULE, False), ("{ one_of = ['a'] }", True), (None, True)]
)
async def test_form_refuses_conditions_that_are_too_long_together(
    custom: str | None, is_valid: bool, others: str
) -> None:
    answer: dict[str, Any] = {
        "argument path": {"selected": [], "custom": HALF_OF_A_RULE},
        "argument method": "any",
        "other arguments": others,
    }
    if custom is not None:
        answer["argument method"] = {"selected": [], "custom": custom}

    problem = await find_problem_in_form({"path": "a", "method": "a"}, answer)
    assert (problem == "") is is_valid
    if not is_valid:
        assert "a rule has at most 50 conditions and 10000 characters" in problem
        assert 'Write shorter conditions, or choose "any value" for an argument' in problem


async def find_problem_in_form(arguments: dict[str, Any], answer: JsonValue) -> str:
    """Return the problem of `answer` in the form for the conditions of a rule, or ""."""

    async def look() -> Any:
        return CANCELLED

    ends = (yes("always"), yes("change"), look, yes("back"), yes("skip"))
    turn = await Fetch(arguments, run="ask", ends=ends).run()
    [form] = [each for each in turn.asked if is_kind(each, "form_prompt")]
    question: jp.Question = form.pages[0].question

    if not question.misfit(answer):
        return ""
    assert is_kind(question.answer_type, "form_answer")
    return str(question.answer_type.format_problem(answer))


async def test_going_back_keeps_nothing(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, ...]] = [
        (yes("always"), yes("back"), yes("skip")),
        (yes("always"), CANCELLED, yes("skip")),
        (yes("always"), not_answered("timed_out", "form")),
        (yes("always"), not_answered("interrupted", "form")),
        (yes("always"), yes("change"), not_answered("interrupted", "form")),
        (yes("always"), yes("change"), CANCELLED, yes("back"), yes("skip")),
    ]
    for ends in rows:
        with subtests.test(ends=ends):
            turn = await Fetch({"path": "a"}, run="ask", ends=ends).run()
            assert (turn.seen, turn.kept.rules) == ([], [])


async def test_rule_that_cannot_be_stored_is_shown_again() -> None:
    class Full(SessionRules):
        def keep(self, rule: Any) -> None:
            raise jp.StorageError("the disk is full")

    ends = (*KEEP, yes("back"), yes("skip"))
    turn = await Fetch({"path": "a"}, run="ask", ends=ends, kept=Full()).run()
    assert turn.asked[2].exhibits[-1].value == "the disk is full"
    assert turn.seen == []


async def test_no_rule_is_offered_for_code() -> None:
    kept = SessionRules()
    offered = await Fetch({"path": "a"}, run="ask", ends=(yes("skip"),)).run()
    code = await Fetch({"path": "a"}, run="ask", ends=(yes("skip"),), covers="arguments").run()
    long = await Fetch({"path": "a" * 20_000}, run="ask", ends=(yes("skip"),), kept=kept).run()
    keys = [["a" in [x.key for x in turn.asked[0].actions]] for turn in (offered, code, long)]
    assert keys == [[True], [False], [False]]


async def test_kept_rule_ends_with_the_definition_of_the_tool() -> None:
    kept = SessionRules()
    await Fetch({"path": "a"}, run="ask", ends=KEEP, kept=kept).run()
    same = await Fetch({"path": "a"}, run="ask", kept=kept).run()
    assert len(same.seen) == 1
    for settings in ({"description": "Delete it."}, {"options": {"where": "live"}}):
        ends = (yes("skip"),)
        turn = await Fetch({"path": "a"}, run="ask", ends=ends, kept=kept, **settings).run()
        assert turn.seen == []


async def test_kept_rule_loosens_no_later_setting() -> None:
    kept = SessionRules()
    await Fetch(method("PUT"), run="ask", ends=KEEP, kept=kept).run()
    rows: list[tuple[dict[str, Any], int]] = [
        ({"run": "ask"}, 1),
        ({"run": "edit"}, 1),
        ({"run": "skip"}, 0),
        ({"run": "ask", "rules": [{"when": {"method": "PUT"}, "run": "skip"}]}, 0),
        ({"run": "ask", "rules": [PUT]}, 0),
    ]
    for settings, runs in rows:
        turn = await Fetch(method("PUT"), kept=kept, ends=(yes("skip"),), **settings).run()
        assert len(turn.seen) == runs, settings

    await Fetch(method("PUT"), run="ask", rules=[PUT], ends=KEEP, kept=kept).run()
    again = await Fetch(method("PUT"), run="ask", rules=[PUT], kept=kept).run()
    assert len(again.seen) == 1


async def test_refusal_for_the_turn_has_precedence_over_a_kept_rule() -> None:
    kept = SessionRules()
    await Fetch({"path": "a"}, run="ask", ends=KEEP, kept=kept).run()
    calls = [{"path": "b"}, {"path": "a"}]
    turn = await Fetch(*calls, run="ask", ends=(yes("skip_turn"),), kept=kept).run()
    assert turn.seen == []


async def test_kept_rule_applies_without_a_user() -> None:
    kept = SessionRules()
    await Fetch({"path": "a"}, run="ask", ends=KEEP, kept=kept).run()
    turn = await Fetch({"path": "a"}, {"path": "b"}, run="ask", away="headless", kept=kept).run()
    assert [each["path"] for each in turn.seen] == ["a"]


async def test_other_calls_of_the_response_follow_a_rule_that_was_just_kept() -> None:
    seen: list[str] = []

    def fetch(path: str) -> str:
        seen.append(path)
        return path

    parts = [call("fetch", f"c{n}", index=n, text='{"path": "a"}') for n in range(3)]
    person = FakePrompter(*KEEP)
    bench = TurnBench(
        [reply(*parts), DONE], [new_tool(fetch)], person, for_tool("fetch", run="ask")
    )
    bench.use(kept_rules=SessionRules())
    await bench.run()
    assert (seen, len(person.asked)) == (["a", "a", "a"], 2)


async def test_tool_that_proposes_a_rule_for_itself_needs_the_user() -> None:
    def grow() -> jp.Success:
        rules = [{"when": {}, "run": "unattended"}]
        return jp.Success("ok", config={"conversation": {"tools": {"grow": {"rules": rules}}}})

    access = {"config": [{"path": "conversation.tools", "write": "insecure_allow"}]}
    bench = TurnBench(
        [reply(call("grow")), DONE],
        tools=[new_tool(grow)],
        person=FakePrompter(away="headless"),
        config=for_tool("grow", access=access, run="unattended"),
    )
    await bench.run()
    assert bench.app_config().conversation.tools["grow"].rules is None

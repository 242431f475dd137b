"""Tests of `edit_cells`: its arguments, the plan of a proposal, and the result for the model."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.renderings import render
from tests.kit.tools import new_tool
from tests.support.fake_host import FakeNotebook
from tests.support.fakes import InlineCell

THIS = "%%jp\nTidy up."


def edited(*sources: str, **options: Any) -> Any:
    """Return a document with cells `a`, `b`, … The last one runs."""
    return make("edited_cells", *sources, **options)


async def propose(document: Any, *edits: Any, **options: Any) -> Any:
    """Return the outcome of a call. By default, all edits are applied without a review."""
    options.setdefault("needs_review", False)
    notebook = FakeNotebook({}, edited=document)
    context = jp.ToolContext("edit_cells", notebook=notebook, **options)
    arguments = {"edits": list(edits), "why": "It is untidy."}
    try:
        return await new_tool("edit_cells").run(arguments, context, InlineCell())
    except jp.ToolError as exc:
        return make("failure", str(exc))


def insert(source: str, after: str | None = None, **more: Any) -> dict[str, Any]:
    edit = {"op": "insert", "source": source, **more}
    return edit if after is None else {**edit, "after": after}


def replace(document: Any, cell: str, source: str, **more: Any) -> dict[str, Any]:
    version = document.version(cell)
    return {"op": "replace", "cell": cell, "version": version, "source": source, **more}


def patch(document: Any, cell: str, old: str, new: str) -> dict[str, Any]:
    version = document.version(cell)
    return {"op": "patch", "cell": cell, "version": version, "old": old, "new": new}


def on(document: Any, op: str, cell: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "cell": cell, "version": document.version(cell), **more}


# --- the operations --------------------------------------------------------------------------


@pytest.mark.req("CELL-2", "CELL-5")
async def test_all_operations_of_a_proposal_are_applied_in_order() -> None:
    document = edited("one", "x = 1\ny = 2", "three", "four", THIS)
    outcome = await propose(
        document,
        replace(document, "a", "uno"),
        patch(document, "b", "y = 2", "y = 3"),
        on(document, "delete", "c"),
        on(document, "move", "d", after="start"),
        insert("# Title", "start", type="markdown"),
        insert("last", "end"),
    )
    assert is_kind(outcome, "success"), outcome
    assert document.sources == ["four", "# Title", "uno", "x = 1\ny = 3", THIS, "last"]
    assert document.changes == 1
    assert outcome.content.startswith("Applied 6 of 6 edits.")


@pytest.mark.req("CELL-2")
async def test_insertions_after_the_same_cell_stand_in_the_order_of_the_edits() -> None:
    document = edited("one", "two", THIS)
    await propose(document, insert("1", "a"), insert("2", "a"), insert("3"), insert("4"))
    assert document.sources == ["one", "1", "2", "two", THIS, "3", "4"]


@pytest.mark.req("CELL-5")
async def test_later_edits_name_new_cells_and_use_the_version_same() -> None:
    document = edited("one", THIS)
    same = {"version": "same"}
    outcome = await propose(
        document,
        insert("a = 1", "a"),
        insert("b = 2", "new:1"),
        {"op": "patch", "cell": "new:1", "old": "1", "new": "10", **same},
        replace(document, "a", "uno"),
        {"op": "patch", "cell": "a", "old": "uno", "new": "eins", **same},
    )
    assert is_kind(outcome, "success"), outcome
    assert document.sources == ["eins", "a = 10", "b = 2", THIS]


@pytest.mark.req("CELL-8", "CELL-40")
async def test_sources_are_applied_byte_for_byte() -> None:
    exact = "  \u202eevil\u202c\r\n\ttab \u200b\x1b[31m</script>\n\n"
    document = edited("one", THIS)
    await propose(document, replace(document, "a", exact))
    assert document.sources[0] == exact


@pytest.mark.req("CELL-3")
async def test_result_has_id_and_version_of_each_cell() -> None:
    document = edited("one", THIS)
    outcome = await propose(document, replace(document, "a", "uno"), insert("new"))
    assert f"1. applied: cell `a`, version {document.version('a')}." in outcome.content
    new = document.ids[-1]
    assert f"2. applied: cell `{new}`, version {document.version(new)}." in outcome.content


# --- wrong arguments -------------------------------------------------------------------------


@pytest.mark.req("CELL-4", "CELL-6", "CELL-42")
async def test_wrong_edits_are_refused_whole_with_their_number_and_a_remedy(
    subtests: pytest.Subtests,
) -> None:
    def made() -> Any:
        document = edited("x = 1\nx = 1", "two", "fixed", "kept", "busy", "jp", THIS)
        document.set("c", is_editable=False)
        document.set("d", is_deletable=False)
        document.set("e", is_busy=True)
        document.set("f", has_record=True)
        return document

    document = made()
    rows: list[tuple[dict[str, Any], str]] = [
        (patch(document, "a", "x = 1", "y"), "occurs 2 times in `a`, in lines 1, 2"),
        (patch(document, "a", "z = 1", "y"), "does not occur in `a`"),
        (patch(document, "b", "two", "two"), "nothing would change"),
        (replace(document, "b", "two"), "nothing would change"),
        (on(document, "move", "b", after="a"), "nothing would change"),
        ({"op": "delete", "cell": "zz", "version": "0"}, "notebook_cells()"),
        ({"op": "delete", "cell": "1", "version": "0"}, "The nearest ids are a (cell 1)"),
        ({"op": "delete", "cell": "b"}, "`delete` needs `version`"),
        ({"op": "delete", "cell": "b", "version": "000000000000"}, "is old: cell 2 (`b`)"),
        ({"op": "delete", "cell": "b", "version": "same"}, "is not the version of an edit"),
        ({"op": "remove", "cell": "b"}, "Use one of insert, replace, patch"),
        ({"op": "insert", "source": "x", "metadata": "{}"}, "`insert` has no `metadata`"),
        ({"op": "insert", "source": "x", "outputs": []}, "`insert` has no `outputs`"),
        ({"op": "insert", "source": "x", "type": "sql"}, "`type` must be one of"),
        (insert("x", "new:3"), "inserted by an earlier edit"),
        (replace(document, "g", "x"), "the running cell cannot be changed"),
        (on(document, "delete", "g"), "the running cell cannot be changed"),
        (replace(document, "c", "x"), "`editable: false`"),
        (patch(document, "c", "fixed", "x"), "`editable: false`"),
        (on(document, "delete", "d"), "`deletable: false`"),
        (on(document, "delete", "e"), "is running or waits to run"),
        (replace(document, "f", "x"), "has data of jp in its metadata"),
        (insert("x" * 200_001), "The limit is 200,000"),
        (insert("\ud800"), "half a surrogate pair"),
    ]
    for edit, reason in rows:
        with subtests.test(edit=str(edit)[:60]):
            document = made()
            outcome = await propose(document, insert("fine"), edit)
            assert is_kind(outcome, "failure"), outcome
            assert reason in outcome.message
            assert document.changes == 0
            if "limit" not in reason:
                assert outcome.message.startswith("Edit 2: ")


@pytest.mark.req("CELL-6")
async def test_source_in_place_of_an_id_is_answered_with_the_id_of_its_cell() -> None:
    document = edited("# August (FIXED)\nimport os", "two", "two", THIS)
    outcome = await propose(document, {"op": "delete", "cell": document.sources[0], "version": "0"})
    assert "The nearest ids are a (cell 1). List the cells" in outcome.message
    outcome = await propose(document, {"op": "delete", "cell": "two", "version": "0"})
    assert "The nearest ids are b (cell 2), c (cell 3)." in outcome.message
    assert document.changes == 0


KEPT = ["one", "two", "three", "four", "five"]
DRAWN_EDITS = st.tuples(
    st.sampled_from(["insert", "replace", "delete", "move"]),
    st.sampled_from("abcde"),
    st.sampled_from(["start", "end", "this", *"abcde"]),
)


@pytest.mark.req("CELL-2", "CELL-16")
@given(st.lists(DRAWN_EDITS, min_size=1, max_size=6, unique_by=lambda drawn: drawn[1]))
async def test_only_cells_that_an_edit_deletes_are_gone(drawn: list[tuple[str, str, str]]) -> None:
    document = edited(*KEPT, THIS)
    before = dict(zip(document.ids, document.sources, strict=True))
    proposal: list[dict[str, Any]] = []
    for op, cell, after in drawn:
        if op == "insert":
            proposal.append(insert("new", after))
        elif op == "replace":
            proposal.append(replace(document, cell, "changed"))
        elif op == "move":
            proposal.append(on(document, "move", cell, after=after))
        else:
            proposal.append(on(document, "delete", cell))

    expected = dict(before)
    moved = set()
    if is_kind(await propose(document, *proposal), "success"):
        for op, cell, _ in drawn:
            if op == "delete":
                del expected[cell]
            elif op == "replace":
                expected[cell] = "changed"
            elif op == "move":
                moved.add(cell)

    present = dict(zip(document.ids, document.sources, strict=True))
    assert {cell: source for cell, source in present.items() if cell in before} == expected
    unmoved = [cell for cell in expected if cell not in moved]
    assert [cell for cell in document.ids if cell in unmoved] == unmoved


@pytest.mark.req("CELL-2", "CELL-6")
async def test_proposal_has_one_to_fifty_edits() -> None:
    document = edited(THIS)
    assert "1 to 50" in (await propose(document)).message
    outcome = await propose(document, *[insert("x")] * 51)
    assert "has 51 operations. The limit is 50" in outcome.message
    assert is_kind(await propose(document, *[insert("x")] * 50), "success")


@pytest.mark.req("CELL-6")
async def test_metadata_of_the_cell_allows_a_move_and_what_it_does_not_name() -> None:
    document = edited("fixed", "kept", THIS)
    document.set("a", is_editable=False)
    document.set("b", is_deletable=False)
    await propose(
        document, on(document, "move", "a", after="end"), replace(document, "b", "changed")
    )
    assert document.sources == ["changed", THIS, "fixed"]


@pytest.mark.req("CELL-5")
async def test_cell_that_an_earlier_edit_changed_needs_the_version_same() -> None:
    document = edited("one", THIS)
    again = replace(document, "a", "due")
    outcome = await propose(document, replace(document, "a", "uno"), again)
    assert 'Use "same" as the `version` of later edits' in outcome.message
    outcome = await propose(document, on(document, "delete", "a"), again)
    assert "edit 1 deletes the cell `a`" in outcome.message


@pytest.mark.req("CELL-7")
async def test_call_without_a_notebook_or_a_bridge_is_refused() -> None:
    outcome = await propose(None, insert("x"))
    assert outcome.message == "Nothing can be edited here."
    context = jp.ToolContext("edit_cells")
    outcome = await new_tool("edit_cells").run({}, context, InlineCell())
    assert "has no notebook" in outcome.message


async def test_document_that_no_program_can_change_accepts_only_insertions() -> None:
    document = edited("one", THIS, can_change=False)
    outcome = await propose(document, replace(document, "a", "x"))
    assert "`replace` is not possible here: there is no page." in outcome.message
    outcome = await propose(document, insert("x"))
    assert is_kind(outcome, "failure")
    assert document.changes == 0
    assert outcome.message.startswith("No edit was applied: this front end cannot change")


# --- decisions and results -------------------------------------------------------------------


async def review_of(document: Any, *edits: Any) -> Any:
    needs = await propose(document, *edits, needs_review=True)
    assert is_kind(needs, "needs_review"), needs
    return needs.review


async def decide(document: Any, review: Any, *edits: Any, chosen: set[int], **more: Any) -> Any:
    decision = make("edit_decision", review, frozenset(chosen), **more)
    return await propose(document, *edits, needs_review=True, edit_decision=decision)


@pytest.mark.req("CELL-28", "CELL-32")
async def test_result_names_the_outcome_of_each_edit() -> None:
    document = edited("one", "two", THIS)
    edits = [
        replace(document, "a", "uno"),
        replace(document, "b", "due"),
        insert("new"),
        {"op": "patch", "cell": "b", "version": "same", "old": "due", "new": "zwei"},
    ]
    review = await review_of(document, *edits)
    assert document.changes == 0
    outcome = await decide(
        document, review, *edits, chosen={1, 3, 4}, sources={1: "eins"}, reason="Keep it."
    )
    assert document.sources == ["eins", "two", THIS, "new"]
    text = outcome.content
    assert text.startswith("Applied 2 of 4 edits.")
    assert "1. applied after the user edited it: cell `a`" in text
    assert "- uno\n+ eins" in text
    assert "2. rejected by the user: Keep it." in text
    assert "3. applied: cell `made-0-1`" in text
    assert "4. not applied: it relies on edit 2, which was rejected." in text

    record = outcome.structured
    assert [entry["edit"] for entry in record["edits"]] == [1, 3]
    first = record["edits"][0]
    assert (first["source_before"], first["edited"]) == ("one", "eins")
    assert first["version"] == document.version("a")


@pytest.mark.req("CELL-10")
async def test_cell_is_inserted_after_a_new_cell_of_which_only_a_later_edit_was_rejected() -> None:
    document = edited("one", THIS)
    edits = [
        insert("new", "start"),
        {"op": "patch", "cell": "new:1", "version": "same", "old": "new", "new": "newer"},
        insert("next", "new:1"),
    ]
    review = await review_of(document, *edits)
    outcome = await decide(document, review, *edits, chosen={1, 3})
    assert document.sources == ["new", "next", "one", THIS]
    assert "2. rejected by the user." in outcome.content


@pytest.mark.req("CELL-28")
async def test_result_is_an_error_if_nothing_was_applied() -> None:
    document = edited("one", THIS)
    edits = [replace(document, "a", "uno")]
    review = await review_of(document, *edits)
    outcome = await decide(document, review, *edits, chosen=set())
    assert is_kind(outcome, "failure")
    assert outcome.message.startswith("No edit was applied.")

    document.answer = "unknown"
    outcome = await propose(document, *edits)
    assert is_kind(outcome, "failure")
    assert outcome.message.startswith("It is unknown whether the edits were applied")
    assert "1. unknown." in outcome.message


@pytest.mark.req("CELL-17")
async def test_cell_that_changed_since_the_review_is_a_conflict_and_nothing_is_applied() -> None:
    document = edited("one", "two", THIS)
    edits = [replace(document, "a", "uno"), replace(document, "b", "due")]
    review = await review_of(document, *edits)
    document.set("a", source="one and a half")

    again = await decide(document, review, *edits, chosen={1, 2})
    assert is_kind(again, "needs_review")
    assert list(again.review.conflicts) == [1]
    assert document.sources[:2] == ["one and a half", "two"]

    others = await decide(document, again.review, *edits, chosen={2})
    assert document.sources[:2] == ["one and a half", "due"]
    assert "1. conflict, not applied: the source has changed" in others.content
    assert "one and a half" in others.content


@pytest.mark.req("CELL-17")
async def test_conflict_without_a_user_applies_nothing() -> None:
    document = edited("one", "two", THIS)
    edits = [replace(document, "a", "uno"), replace(document, "b", "due")]
    review = await review_of(document, *edits)
    document.set("a", kind="markdown")
    outcome = await decide(document, review, *edits, chosen={1, 2}, decider="answers")
    assert is_kind(outcome, "failure")
    assert "1. conflict: the cell is now a markdown cell." in outcome.message
    assert "2. not applied, because of the conflict." in outcome.message
    assert document.changes == 0


@pytest.mark.req("CELL-25", "CELL-26", "CELL-27")
async def test_code_runs_only_with_the_consent_to_run_and_up_to_the_first_error() -> None:
    document = edited("bad = 1 / 0", "seen = 'ran'", THIS)
    edits = [
        insert("first = 1", run=True),
        on(document, "run", "b"),
        insert("later = 1"),
    ]
    review = await review_of(document, *edits)
    outcome = await decide(document, review, *edits, chosen={1, 2, 3})
    assert outcome.content.count("The user did not run it.") == 2

    notebook = FakeNotebook({}, edited=document)
    decision = make("edit_decision", review, frozenset({2}), may_run=True)
    context = jp.ToolContext("edit_cells", notebook=notebook, edit_decision=decision)
    arguments = {"edits": edits, "why": "W"}
    outcome = await new_tool("edit_cells").run(arguments, context, InlineCell())
    assert notebook.namespace["seen"] == "ran"
    assert "It ran." in outcome.content


@pytest.mark.req("CELL-25")
async def test_cell_that_a_later_edit_deletes_does_not_run() -> None:
    document = edited("one", THIS)
    edits = [
        replace(document, "a", "seen = 'ran'", run=True),
        {"op": "delete", "cell": "a", "version": "same"},
    ]
    review = await review_of(document, *edits)
    notebook = FakeNotebook({}, edited=document)
    decision = make("edit_decision", review, frozenset({1, 2}), may_run=True)
    context = jp.ToolContext("edit_cells", notebook=notebook, edit_decision=decision)
    arguments = {"edits": edits, "why": "W"}
    outcome = await new_tool("edit_cells").run(arguments, context, InlineCell())
    assert "Not run, because the cell is deleted." in outcome.content
    assert "It ran." not in outcome.content


@pytest.mark.req("CELL-32")
async def test_record_keeps_no_secret_of_the_source_before() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    document = edited(f'api_key = "{key}"', THIS)
    version = document.version("a")
    outcome = await propose(document, replace(document, "a", "import os"))
    assert key not in json.dumps(outcome.structured) + outcome.content
    assert outcome.structured["edits"][0]["version_before"] == version


@pytest.mark.req("CELL-28")
def test_model_of_a_stopped_call_reads_that_edits_may_remain() -> None:
    stopped = new_tool("edit_cells").registration["cancellation_response"]
    assert "Edits may have been applied before, and remain." in stopped


@pytest.mark.req("CELL-48")
def test_schema_fits_strict_tools_and_is_small() -> None:
    tool = new_tool("edit_cells")
    text = json.dumps({"description": tool.registration["description"], "schema": tool.schema})
    assert len(text) / 4 < 600  # about four characters a token

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert set(node["required"]) <= set(node["properties"])
            assert not {"$ref", "oneOf", "allOf", "patternProperties", "default"} & set(node)
            for each in node.values():
                walk(each)
        if isinstance(node, list):
            for each in node:
                walk(each)

    walk(tool.schema)


LINES = [f"x{number} = {number}" for number in range(5_000)]
CHANGED = [line if number % 3 else f"y{line}" for number, line in enumerate(LINES)]


@pytest.mark.req("CELL-12", "CELL-13")
@pytest.mark.parametrize(
    ("before", "after", "added"),
    [
        (LINES, CHANGED, 1_667),
        (["x = 1"] * 5_000, ["x = 1"] * 2_500 + ["y = 2"] * 2_500, 2_500),
        (["a", "b"] * 2_500, ["b", "a", "c"] * 1_700, 5_100),
        (LINES, LINES[2_500:] + LINES[:2_500], 2_501),
    ],
)
async def test_difference_of_five_thousand_lines_is_computed_at_once(
    before: list[str], after: list[str], added: int
) -> None:
    began = process_time()
    shown = render("source_diff", "\n".join(before), "\n".join(after)).split("\n")
    assert process_time() - began < 1.0  # 0.05 s; 57 s with the comparison of all pairs
    assert sum(line.startswith("+ ") for line in shown) == added


@pytest.mark.req("CELL-13")
def test_empty_line_of_a_difference_shows_no_space() -> None:
    assert render("source_diff", "a\n", "a\n\n b\n").splitlines() == ["  a", "+", "+  b"]


@given(
    st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12),
    st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12),
)
def test_difference_has_all_lines_of_both_sources(before: list[str], after: list[str]) -> None:
    old = "\n".join(before)
    new = "\n".join(after)
    lines = render("source_diff_lines", old, new)
    kept = [line for line in lines if line.kind != "folded"]
    folded = sum(int(line.text) for line in lines if line.kind == "folded")
    for source, own in ((old, "removed"), (new, "added")):
        shown = [line.text for line in kept if line.kind in ("same", own)]
        count = len(source.split("\n")) if source else 0
        assert len(shown) + folded == count
        assert not folded or "".join(shown) != source
        assert folded or "".join(shown) == source

"""Edits of cells in headless runs: the answers file decides, and the runner writes them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import nbformat
import pytest
import tomlkit

from jp_nb.cli import main
from jp_nb.headless.runner import run_notebook
from tests.kit.notebook_record import open_document
from tests.support.notebook_runs import write_cells

pytestmark = pytest.mark.runners

ASK = "%%jp -m scripted/edits -t cells\nTidy up."
APPLY_ALL = '[edits]\n"*" = "apply"\n'


def write(folder: Path, *edits: dict[str, Any], cells: tuple[str, ...] = (), **more: Any) -> Path:
    """Write a notebook whose model proposes `edits`, and the cells behind the request."""
    path = write_cells(folder / "in.ipynb", "%load_ext jp_nb", "x = 1", ASK, *cells, **more)
    write_script(folder, "edit_cells", {"edits": list(edits), "why": "It is untidy."})
    return path


def write_script(folder: Path, tool: str, arguments: dict[str, Any]) -> None:
    """Write the script of a model that calls a tool once."""
    replies = [{"tool_calls": [{"name": tool, "arguments": arguments}]}, {"text": "Done."}]
    text = tomlkit.dumps({"replies": replies})
    (folder / "edits.toml").write_text(text, encoding="utf-8")


def version(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def on(op: str, number: int, present: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "cell": f"cell-{number}", "version": version(present), **more}


def execute(path: Path, answers: str | None = APPLY_ALL, **options: Any) -> Any:
    """Run the notebook, and return the written one."""
    file = path.parent / "decided.toml"
    if answers is not None:
        file.write_text(answers, encoding="utf-8")
    out = path.parent / "out.ipynb"
    result = run_notebook(path, out=out, answers=None if answers is None else file, **options)
    assert result.ok or options.get("strict"), result.failure
    return nbformat.read(out, as_version=4)


def response(folder: Path) -> dict[str, Any]:
    raw = open_document(folder / "out.ipynb").conversation.raw
    [found] = [dict(entry) for entry in raw if entry["type"] == "tool_call_response"]
    return found


def sources(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells]


@pytest.mark.req("CELL-29", "CELL-32")
def test_edits_that_the_answers_file_applies_are_in_the_written_notebook(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        on("replace", 1, "x = 1", source="x = 2"),
        {"op": "insert", "after": "start", "type": "markdown", "source": "# Title"},
        {"op": "insert", "source": "print('inserted')"},
        on("delete", 4, "print('deleted')"),
        on("patch", 5, "print('old')", old="old", new="new"),
        on("move", 6, "print('moved')", after="cell-3"),
        cells=(
            "from IPython.display import display\nh = display('h', display_id=True)",
            "print('deleted')",
            "print('old')",
            "print('moved')",
            "h.update('updated')",
        ),
    )
    before = path.read_bytes()
    notebook = execute(path)
    assert path.read_bytes() == before
    assert sources(notebook) == [
        "# Title",
        "%load_ext jp_nb",
        "x = 2",
        ASK,
        "print('inserted')",
        "from IPython.display import display\nh = display('h', display_id=True)",
        "print('moved')",
        "print('new')",
        "h.update('updated')",
    ]
    printed = [[each.get("text") for each in cell.get("outputs", ())] for cell in notebook.cells]
    assert printed[4] == []  # inserted cells do not run
    assert printed[6:8] == [["moved\n"], ["new\n"]]
    assert notebook.cells[5].outputs[0]["data"]["text/plain"] == "'updated'"

    found = response(tmp_path)
    assert found["content"].startswith("Applied 6 of 6 edits.")
    kept = found["metadata"]["structured"]
    assert kept["decided_by"] == "answers"
    assert kept["edits"][0]["source_before"] == "x = 1"
    ids = {cell["id"] for cell in notebook.cells}
    assert {entry["cell"] for entry in kept["edits"]} - ids == {"cell-4"}


@pytest.mark.req("CELL-29")
def test_equal_runs_write_equal_notebooks(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        path = write(tmp_path / name, {"op": "insert", "source": "new = 1"})
        written.append([cell["id"] for cell in execute(path).cells])
    assert written[0] == written[1]


@pytest.mark.req("CELL-29")
def test_inserted_cells_run_with_the_option_only(tmp_path: Path) -> None:
    edits: list[dict[str, Any]] = [
        {"op": "insert", "source": "print(x + 1)"},
        {"op": "insert", "source": "print('in the turn')", "run": True},
    ]
    for run_inserted, printed in ((False, [[], []]), (True, [["2\n"], ["in the turn\n"]])):
        path = write(tmp_path, *edits)
        notebook = execute(path, run_inserted=run_inserted)
        outputs = [[each.text for each in cell.outputs] for cell in notebook.cells[3:]]
        assert outputs == printed
        content = response(tmp_path)["content"]
        assert ("It ran." in content) == run_inserted
        assert ("in the turn" in content) == run_inserted


@pytest.mark.req("CELL-29")
def test_answers_file_decides_by_id_tag_and_place_and_names_precede_patterns(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path,
        on("replace", 1, "x = 1", source="x = 2"),
        on("replace", 3, "y = 1", source="y = 2"),
        on("replace", 4, "z = 1", source="z = 2"),
        {"op": "insert", "source": "this"},
        {"op": "insert", "source": "end", "after": "end"},
        cells=("y = 1", "z = 1"),
    )
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[3].metadata["tags"] = ["draft"]
    nbformat.write(notebook, path)
    answers = (
        '[edits]\n"*" = "skip"\n"cell-*" = "skip"\n"cell-1" = "apply"\n'
        'draft = "apply"\nend = "apply"\n'
    )
    written = execute(path, answers)
    assert sources(written)[1:] == ["x = 2", ASK, "y = 2", "z = 1", "end"]
    content = response(tmp_path)["content"]
    assert "3. rejected by the user's answers file." in content


@pytest.mark.req("CELL-29", "CELL-14")
def test_edits_are_refused_without_a_decision_also_if_the_call_is_permitted(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, on("replace", 1, "x = 1", source="x = 2"))
    (tmp_path / ".jp").mkdir()
    config = '[conversation.tools.edit_cells]\nrun = "unattended"\n'
    (tmp_path / ".jp" / "config.toml").write_text(config, encoding="utf-8")
    answers = '[permissions]\nedit_cells = "run"\n'
    for given in (None, answers):
        notebook = execute(path, given)
        assert sources(notebook)[1] == "x = 1"
        found = response(tmp_path)
        assert found["is_error"]
        assert found["content"].startswith("No edit was applied: edits need the user's approval")


@pytest.mark.req("CELL-14")
def test_user_who_starts_the_run_can_apply_edits_unattended(tmp_path: Path) -> None:
    path = write(tmp_path, on("replace", 1, "x = 1", source="x = 2"))
    notebook = execute(path, None, overrides=["conversation.tools.edit_cells.run=unattended"])
    assert sources(notebook)[1] == "x = 2"
    assert response(tmp_path)["metadata"]["structured"]["decided_by"] == "unattended"
    shown = str(notebook.cells[2].outputs)  # the differences, after the fact
    assert "<summary>1 applied edit</summary>" in shown
    assert "1. replace cell cell-1" in shown
    assert "- x = 1\\n+ x = 2" in shown


@pytest.mark.req("CELL-35")
def test_diff_of_records_shows_applied_edits_as_folded_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "\n".join(f"x{number} = {number}" for number in range(20))
    proposed = [
        on("patch", 1, source, old="x10 = 10", new="x10 = 0"),
        {"op": "insert", "source": "rejected = 1"},
    ]
    path = write(tmp_path, *proposed)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].source = source
    nbformat.write(notebook, path)
    execute(path, '[edits]\n"cell-1" = "apply"\nthis = "skip"\n')

    main(["diff", str(path), str(tmp_path / "out.ipynb")])
    lines = [line.strip().lstrip("+ ") for line in capsys.readouterr().out.split("\n")]
    assert "edits applied" in lines
    at = lines.index("1. patch cell cell-1")
    assert lines[at + 1 : at + 3] == ["- x10 = 10", "x10 = 0"]
    assert not [line for line in lines if "x11" in line]  # unchanged lines are folded
    assert any("edits not applied" in line for line in lines)
    assert any("rejected = 1" in line for line in lines)


@pytest.mark.req("CELL-35")
def test_source_that_the_user_emptied_is_shown_in_place_of_the_proposed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(write(tmp_path, on("replace", 1, "x = 1", source="x = 2")))
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    for event in notebook.metadata["jp"]["events"]:
        if event["type"] == "tool_call_response":
            event["metadata"]["structured"]["edits"][0]["edited"] = ""
    nbformat.write(notebook, tmp_path / "edited.ipynb")

    main(["show", str(tmp_path / "edited.ipynb")])
    shown = capsys.readouterr().out
    assert "- x = 1" in shown
    assert "+ x = 2" not in shown


@pytest.mark.req("CELL-29")
def test_strict_run_fails_if_an_edit_is_undecided_and_others_are_applied(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        on("replace", 1, "x = 1", source="x = 2"),
        {"op": "insert", "source": "new"},
        cells=("print('after')",),
    )
    notebook = execute(path, '[edits]\n"cell-1" = "apply"\n', strict=True)
    assert sources(notebook)[1] == "x = 2"
    assert notebook.cells[3].outputs == []  # the run ended at the request
    assert "new" not in sources(notebook)


@pytest.mark.req("CELL-3", "CELL-29")
def test_reading_tools_show_the_cells_of_the_file_with_id_and_version(tmp_path: Path) -> None:
    path = write(tmp_path, cells=("later = 1",))
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# Title", id="title"))
    nbformat.write(notebook, path)
    write_script(tmp_path, "notebook_cells", {})
    execute(path)
    content = response(tmp_path)["content"]
    assert f"1 [markdown, id title, version {version('# Title')}] # Title" in content
    assert f"3 [code, ran as 2, id cell-1, version {version('x = 1')}] x = 1" in content
    assert "4 [code, running, id cell-2" in content
    assert "5 [code, not run, id cell-3" in content


@pytest.mark.req("CELL-29")
def test_open_edits_are_reported_by_their_names_in_an_answers_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path, on("replace", 1, "x = 1", source="x = 2"), {"op": "insert", "source": "new"}
    )
    template = tmp_path / "template.toml"
    out = str(tmp_path / "out.ipynb")
    main(["run", str(path), "-o", out, "--answers-template", str(template)])
    text = template.read_text(encoding="utf-8")
    assert "[edits]" in text
    assert 'cell-1 = "apply"' in text
    assert 'this = "apply"' in text
    assert "+ x = 2" in text


@pytest.mark.req("CELL-1")
def test_toolset_is_off_and_switches_on_the_reading_tools_with_it(tmp_path: Path) -> None:
    path = write(tmp_path, {"op": "insert", "source": "new"})
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].source = "%%jp -m scripted/edits\nTidy up."
    nbformat.write(notebook, path)
    execute(path)
    assert "is not available" in response(tmp_path)["content"]


@pytest.mark.req("CELL-33", "CELL-35")
def test_log_shows_applied_edits_as_differences_and_undo_says_that_they_stay(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path,
        on("replace", 1, "x = 1", source="x = 2"),
        {"op": "insert", "source": "new = 1"},
        cells=("%jp log", "%jp undo"),
    )
    notebook = execute(path)
    log = str(notebook.cells[4].outputs)
    assert "2 applied edits" in log
    assert "1. replace cell cell-1" in log
    assert "- x = 1\\n+ x = 2" in log
    assert "+ new = 1" in log
    undone = "".join(each.get("text", "") for each in notebook.cells[5].outputs)
    assert "The notebook keeps 2 edits of cells of this turn. Take them back with" in undone


@pytest.mark.req("CELL-31")
def test_replay_with_recorded_results_edits_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, on("replace", 1, "x = 1", source="x = 2"))
    cassette = {"providers.cassette.path": str(tmp_path / "in.cassette.jsonl")}
    recorded = execute(path, settings={**cassette, "providers.cassette.mode": "record"})
    assert sources(recorded)[1] == "x = 2"

    replay = {**cassette, "providers.cassette.mode": "replay"}
    again = execute(path, settings={**replay, "providers.cassette.tools": "recorded"})
    assert sources(again)[1] == "x = 1"
    assert response(tmp_path)["content"].startswith("Applied 1 of 1 edit.")

    ran = execute(path, settings={**replay, "providers.cassette.tools": "run"})
    assert sources(ran)[1] == "x = 2"


CODE_OF_CELL = """import sys
print('printed')
print('warned', file=sys.stderr)
value = 40
value + 2"""


@pytest.mark.req("CELL-23", "CELL-24")
def test_cell_that_runs_in_the_turn_has_its_outputs_and_its_place_in_the_history(
    tmp_path: Path,
) -> None:
    look = "print([In[4], In[5]], Out, _4, value)"
    path = write(
        tmp_path,
        {"op": "insert", "source": CODE_OF_CELL, "run": True},
        {"op": "insert", "source": "%time\n1 / 0", "run": True},
        {"op": "insert", "source": "never = 1", "run": True},
        cells=(look, "value"),
    )
    notebook = execute(path, run_inserted=True)
    request, inserted, failed, never, after, last = notebook.cells[2:]
    assert "printed" not in [each.get("text") for each in request.outputs]
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert last.outputs[0].execution_count == 8  # the kernel's number
    shown = [(each.output_type, each.get("name")) for each in inserted.outputs]
    assert shown == [("stream", "stdout"), ("stream", "stderr"), ("execute_result", None)]
    assert inserted.outputs[0].text == "printed\n"
    assert inserted.outputs[2].execution_count == 4
    assert inserted.outputs[2].data["text/plain"] == "42"

    assert failed.outputs[-1].output_type == "error"
    assert failed.outputs[-1].ename == "ZeroDivisionError"
    assert "line 2" in "".join(failed.outputs[-1].traceback)
    assert never.outputs == []  # as an inserted cell, it runs after the turn

    [printed] = [each.text for each in after.outputs]
    stored = [CODE_OF_CELL, "get_ipython().run_line_magic('time', '')\n1 / 0"]
    assert printed == f"{stored} {{4: 42}} 42 40\n"
    content = response(tmp_path)["content"]
    assert "printed" in content
    assert "Not run, because a cell before failed" in content
    assert "ZeroDivisionError" in content


@pytest.mark.req("CELL-24")
def test_failed_cell_is_named_also_after_a_cell_that_ran_in_its_turn(tmp_path: Path) -> None:
    ask = "jp.query('Tidy up.', model='scripted/edits', cfg='conversation.toolsets.cells=true')"
    fails = f"import jp_nb as jp\n{ask}\n1 / 0"
    path = write_cells(tmp_path / "in.ipynb", "%load_ext jp_nb", fails)
    edit = {"op": "insert", "source": "print('in the turn')", "run": True}
    write_script(tmp_path, "edit_cells", {"edits": [edit], "why": "It is untidy."})
    (tmp_path / "decided.toml").write_text(APPLY_ALL, encoding="utf-8")
    result = run_notebook(path, answers=tmp_path / "decided.toml", run_inserted=True)
    assert [cell.execution_count for cell in result.notebook.cells] == [1, 2, 3]
    assert result.failure is not None
    assert (result.failure.cell, result.failure.name) == (1, "ZeroDivisionError")


def test_outputs_that_a_cell_in_the_turn_has_cleared_do_not_count_for_its_limit(
    tmp_path: Path,
) -> None:
    code = """from IPython.display import clear_output, display
print('x' * 4_000_001)
for _ in range(3):
    clear_output(wait=True)
    display({'text/html': 'x' * 2_500_000}, raw=True)
print('all shown')"""
    path = write(tmp_path, {"op": "insert", "source": code, "run": True})
    inserted = execute(path, run_inserted=True).cells[3]
    assert [each.output_type for each in inserted.outputs] == ["display_data", "stream"]
    assert inserted.outputs[1].text == "all shown\n"

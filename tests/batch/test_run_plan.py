"""The plan of a batch: notebooks × parameter sets × models, checked before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.batches import BatchBench
from tests.support.notebook_runs import write_cells


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path, *arguments: str | Path) -> list[str]:
    return [spec["notebook"] for spec in BatchBench(folder).plan(*arguments)]


@pytest.mark.req("BATCH-1")
def test_files_folders_and_patterns_name_notebooks(folder: Path) -> None:
    for name in (
        "b.ipynb", "a.ipynb", "far/c.ipynb", "far/.ipynb_checkpoints/c.ipynb", ".git/d.ipynb",
        "OUT/e.ipynb", "far/x.txt",
    ):  # fmt: skip
        write_cells(folder / name, "1")

    assert names(folder, ".") == ["a.ipynb", "b.ipynb", "far/c.ipynb"]
    assert names(folder, "b.ipynb", "far", "a.ipynb") == ["b.ipynb", "far/c.ipynb", "a.ipynb"]
    assert names(folder, "*.ipynb", "a.ipynb") == ["a.ipynb", "b.ipynb"]
    assert names(folder, "**/c.ipynb") == ["c.ipynb"]
    for missing in ("none.ipynb", "none*.ipynb", "OUT"):
        with pytest.raises(jp.UsageError, match="there is no notebook"):
            names(folder, "a.ipynb", missing)


@pytest.mark.req("BATCH-1", "BATCH-33")
def test_notebook_whose_name_is_not_utf8_is_named_before_anything_runs(folder: Path) -> None:
    path = write_cells(folder / "walk.ipynb", "1")
    path.rename(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.ipynb"))
    with pytest.raises(jp.UsageError, match=r"caf\\udce9.ipynb: .*rename") as caught:
        names(folder, ".")
    str(caught.value).encode()


@pytest.mark.req("BATCH-1")
def test_output_folder_of_an_earlier_batch_is_no_input(folder: Path) -> None:
    write_cells(folder / "a.ipynb", "1")
    write_cells(folder / "far/b.ipynb", "1")
    bench = BatchBench(folder)
    for earlier in ("OUT1", "far/OUT2"):
        assert bench.run(".", "--workers", "1", "-o", earlier) == 0
    (folder / "OUT1/.jp-nb-batch.lock").unlink()  # copies may be without hidden files

    for argument in (".", "**/*.ipynb"):
        assert sorted(names(folder, argument)) == ["a.ipynb", "far/b.ipynb"]
        found = bench.warnings(argument)
        assert len(found) == 2
        assert "OUT1 is the output folder of an earlier batch" in "".join(found)

    for path in (folder / "OUT1").glob("*.ipynb"):
        write_cells(path, "1")
    assert len(names(folder, "OUT1")) == 2, "the user has named it"
    assert len(names(folder, "OUT1/*.ipynb")) == 2
    with pytest.raises(jp.UsageError, match="OUT1 is the output folder of an earlier batch"):
        names(folder, "OUT*/*.ipynb")


@pytest.mark.req("BATCH-1")
def test_output_folder_that_is_the_input_is_explained(folder: Path) -> None:
    write_cells(folder / "OUT/a.ipynb", "1")
    with pytest.raises(jp.UsageError, match="choose another folder with `-o`"):
        names(folder, "OUT")


@pytest.mark.req("BATCH-1")
def test_file_with_the_characters_of_a_pattern_is_a_file(folder: Path) -> None:
    write_cells(folder / "a[1].ipynb", "1")
    assert names(folder, "a[1].ipynb", "-p", "x", "1") == ["a[1].ipynb"]


@pytest.mark.req("BATCH-1")
def test_pattern_works_in_a_folder_with_the_characters_of_a_pattern(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = folder / "data [2024]"
    write_cells(named / "a.ipynb", "1")
    monkeypatch.chdir(named)
    assert names(named, "*.ipynb") == ["a.ipynb"]


@pytest.mark.req("BATCH-2", "BATCH-3")
def test_run_is_notebook_times_parameters_times_model(folder: Path) -> None:
    for name in ("a", "b"):
        write_cells(folder / f"{name}.ipynb", "1")
    (folder / "e.csv").write_text("n\n1\n2\n")
    specs = BatchBench(folder).plan("a.ipynb", "b.ipynb", "--each", "e.csv", "--models", "x/1,y/2")
    rows = [(each["notebook"], each["parameters"]["n"], each["cfg"]) for each in specs]
    assert rows == [
        (f"{name}.ipynb", n, (f"assistant.model.id={model}",))
        for name in "ab"
        for n in (1, 2)
        for model in ("x/1", "y/2")
    ]
    assert len({each["run"] for each in specs}) == 8
    assert specs[0]["run"].startswith("a-n=1-model=x-1-")


@pytest.mark.req("BATCH-3")
def test_id_depends_on_the_cells_and_not_on_outputs(folder: Path) -> None:
    path = write_cells(folder / "a.ipynb", "1")
    [first] = BatchBench(folder).plan(path, "-p", "x", "1")
    path.write_text(path.read_text().replace('"outputs": []', '"outputs": [ ]'))
    [second] = BatchBench(folder).plan(path, "-p", "x", "1")
    write_cells(folder / "a.ipynb", "2")
    [third] = BatchBench(folder).plan(path, "-p", "x", "1")
    assert first["run"] == second["run"] != third["run"]

    for name in ("a.cassette.jsonl", "a.answers.toml"):
        [before] = BatchBench(folder).plan(path, "-p", "x", "1")
        (folder / name).write_text("")
        [after] = BatchBench(folder).plan(path, "-p", "x", "1")
        assert before["run"] != after["run"], name


@pytest.mark.req("BATCH-2")
def test_unknown_parameter_is_a_warning_and_strictly_an_error(folder: Path) -> None:
    path = write_cells(folder / "walk.ipynb", "city = 'Delft'\ndays: int = 1", "print(city)")
    text = path.read_text().replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1)
    path.write_text(text)
    (folder / "e.csv").write_text("days,citty\n1,a\n")
    arguments = ["walk.ipynb", "--each", "e.csv", "-p", "far", "1"]

    assert BatchBench(folder).warnings(*arguments) == [
        "walk.ipynb has no parameter far (-p)",
        "walk.ipynb has no parameter citty (line 1 of e.csv): did you mean city?",
    ]
    with pytest.raises(jp.UsageError, match="no parameter citty"):
        BatchBench(folder).plan(*arguments, "--strict")
    assert BatchBench(folder).warnings("walk.ipynb", "-p", "city", "Gouda", "-p", "days", "2") == []


@pytest.mark.req("BATCH-2")
def test_parameter_without_a_tagged_cell_is_a_warning_and_strictly_an_error(folder: Path) -> None:
    write_cells(folder / "walk.ipynb", "city = 'Delft'")
    [warning] = BatchBench(folder).warnings("walk.ipynb", "-p", "city", "a", "-p", "days", "1")
    assert "walk.ipynb has no cell tagged `parameters`" in warning
    with pytest.raises(jp.UsageError, match="no cell tagged `parameters`"):
        BatchBench(folder).plan("walk.ipynb", "-p", "city", "a", "--strict")
    assert BatchBench(folder).warnings("walk.ipynb") == []
    assert len(BatchBench(folder).plan("walk.ipynb", "--strict")) == 1


@pytest.mark.req("BATCH-15")
def test_answers_file_of_the_notebook_is_used_unless_one_is_named(folder: Path) -> None:
    write_cells(folder / "a.ipynb", "1")
    write_cells(folder / "b.ipynb", "1")
    for name in ("a.answers.toml", "x"):
        (folder / name).write_text("")
    found = [each["answers"] for each in BatchBench(folder).plan("a.ipynb", "b.ipynb")]
    assert found == [str(folder / "a.answers.toml"), ""]
    found = [
        each["answers"] for each in BatchBench(folder).plan("a.ipynb", "b.ipynb", "--answers", "x")
    ]
    assert found == [str(folder / "x")] * 2


@pytest.mark.req("BATCH-11", "BATCH-15", "INBOX-7")
def test_options_of_the_command_line_are_in_each_run(folder: Path) -> None:
    write_cells(folder / "a.ipynb", "1")
    [found] = BatchBench(folder).plan("a.ipynb")
    names = ("strict", "continues", "timeout_s", "run_timeout_s", "settings")
    assert [found[name] for name in names] == [False, False, None, None, {}]

    limits = ("--timeout", "5", "--run-timeout", "60")
    recorded = ("--replay", "--tools", "recorded")
    [found] = BatchBench(folder).plan("a.ipynb", "--strict", "--continue", *limits, *recorded)
    assert [found[name] for name in names[:4]] == [True, True, 5, 60]
    assert found["settings"] == {
        "providers.cassette.mode": "replay",
        "providers.cassette.path": str(folder / "a.cassette.jsonl"),
        "providers.cassette.tools": "recorded",
    }


@pytest.mark.req("BATCH-15")
def test_cassette_of_a_run_has_priority_over_that_of_its_notebook(folder: Path) -> None:
    write_cells(folder / "a.ipynb", "n = 0")
    (folder / "e.csv").write_text("n\n1\n2\n")
    arguments = ("a.ipynb", "--each", "e.csv")
    first, _ = BatchBench(folder).plan(*arguments)
    own = folder / f"{first['run']}.cassette.jsonl"
    own.write_text("")
    of_notebook = folder / "a.cassette.jsonl"

    replayed = BatchBench(folder).plan(*arguments, "--replay")
    paths = [each["settings"]["providers.cassette.path"] for each in replayed]
    assert paths == [str(own), str(of_notebook)]

    extended = BatchBench(folder).plan(*arguments, "--replay-or-record")
    assert [each["recorded_before"] for each in extended] == [str(own), str(of_notebook)]
    targets = {each["settings"]["providers.cassette.path"] for each in extended}
    assert targets == {
        str(folder / f"OUT/.recordings/{each['run']}.cassette.jsonl") for each in extended
    }

    named = BatchBench(folder).plan(*arguments, "--replay", "all.jsonl")
    assert {each["settings"]["providers.cassette.path"] for each in named} == {
        str(folder / "all.jsonl")
    }


@pytest.mark.req("BATCH-8", "BATCH-15")
def test_broken_answers_file_is_an_error_before_anything_runs(folder: Path) -> None:
    write_cells(folder / "a.ipynb", "1")
    for content, problem in (
        ("to = ", "is not TOML: "),
        ("[question.t]\n", r"did you mean \[questions\]"),
        (b"\xff", "is not UTF-8"),
    ):
        for name, options in (("b.toml", ["--answers", "b.toml"]), ("a.answers.toml", [])):
            path = folder / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            with pytest.raises(jp.UsageError, match=f"the answers file .*{name} .*{problem}"):
                BatchBench(folder).plan("a.ipynb", *options)
            path.unlink()


@pytest.mark.req("BATCH-8")
def test_missing_answers_file_has_the_advice_of_an_inbox_only_in_an_output_folder(
    folder: Path,
) -> None:
    write_cells(folder / "a.ipynb", "1")
    with pytest.raises(jp.UsageError, match="there is no answers file") as caught:
        BatchBench(folder).plan("a.ipynb", "--answers", "none.toml")
    assert "inbox" not in str(caught.value)

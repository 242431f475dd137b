"""`%jp why` and `%jp retry` with nobody there: the same record twice."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat

from tests.support.notebook_runs import notebook, outputs, record, run

ANSWERS = "".join(f'[[replies]]\ntext = "answer {n}"\n' for n in range(4))
CELLS = (
    "%load_ext jp_nb\n%jp config assistant.model.id=scripted/answers",
    "rows = {'first': object()}\ndef last(table):\n    return table['last']\nlast(rows)",
    "%jp why",
    "%%jp\nAnd now?",
    "for text in 'ab':\n    get_ipython().run_line_magic('jp', f'q {text}')",
    "%jp retry",
)


def made(folder: Path) -> Path:
    path = notebook(folder, *CELLS)
    (path.parent / "answers.toml").write_text(ANSWERS, encoding="utf-8")
    read = nbformat.read(path, as_version=4)
    read.cells[1].metadata.tags = ["raises-exception"]
    nbformat.write(read, path)
    return path


def test_why_and_retry_leave_the_same_record_twice(tmp_path: Path) -> None:
    path = made(tmp_path)
    found = []
    for _ in range(2):
        done = run(["-m", "jp_nb.cli", "run", path.name], path.parent)
        assert done.returncode == 0, done.stderr
        stored = nbformat.read(path, as_version=4).metadata["jp"]
        found.append((record(path), outputs(path), len(stored["others"])))
    assert found[0] == found[1], "what is said names no conversation by its id"
    entries, all_shown, others = found[0]
    shown = [x["data"]["text/plain"] for x in all_shown if "data" in x]
    requests = [entry["content"] for entry in entries if entry["type"] == "chat_request"]
    assert [requests[0].split("\n")[0], *requests[1:]] == [
        "Explain this error, and how to mend it.",
        "And now?",
        "a",
        "b",
    ]
    assert "table (Cell In[2], line 3, in last): " in requests[0]
    assert "KeyError: 'last'" in requests[0]
    assert "0x" not in requests[0], "no addresses"
    assert shown[-1] == "> b\nanswer 3"
    assert others == 1, "the conversation with the turn that was asked again"
    assert "This cell has asked" not in json.dumps(outputs(path))

"""What is attached: read from files, in the next request to the model, and never silently not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from jp_nb.agent.ports import Attachment
from jp_nb.config.attachments import attachment_argument, attachment_parts
from jp_nb.headless.show import load_conversation
from jp_nb.notebook import attachments as module
from jp_nb.notebook.attachments import AttachmentError, Attachments
from tests.headless.test_command_tools import NOON, notebook
from tests.notebook.prompt.kernel_client import FrontEnd, front_end
from tests.notebook.test_menus import forget
from tests.notebook.test_turns import calls, error, events
from tests.test_quickstart import run as run_python

kernel_test = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
PNG = b"\x89PNG\r\n\x1a\n\0rest"


def read(folder: Path, *urls: str) -> tuple[Attachment, ...]:
    return Attachments().read(urls, folder)


def why_not(folder: Path, *urls: str) -> str:
    with pytest.raises(AttachmentError) as caught:
        read(folder, *urls)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.md").write_bytes("\ufeffDelft, größer\r\n".encode())
    (tmp_path / "data").mkdir()
    for name in ("b.csv", "a.csv", ".hidden.csv"):
        (tmp_path / "data" / name).write_text(name, encoding="utf-8")
    return tmp_path


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["file:notes.md", "file://notes.md", "file:./data/../notes.md"])
def test_text_is_read_as_it_is(folder: Path, url: str) -> None:
    [made] = read(folder, url)
    assert (made.media_type, made.content) == ("text/plain", "Delft, größer\r\n")
    assert made.source in ("notes.md", "data/../notes.md")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n\xff", "application/pdf"),
    ],
)
def test_images_and_pdfs_are_known_by_what_they_hold(
    folder: Path, data: bytes, media_type: str
) -> None:
    (folder / "figure.txt").write_bytes(data)
    assert read(folder, "file:figure.txt") == (Attachment("figure.txt", media_type, data),)


def test_a_pattern_is_all_files_that_are_called_so_in_order(folder: Path) -> None:
    (folder / "data" / "sub.csv").mkdir()
    found = read(folder, "file:data/*.csv")
    assert [a.source for a in found] == ["data/a.csv", "data/b.csv"]
    assert [a.source for a in read(folder, "file:**/*.md")] == ["notes.md"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: Path) -> None:
    (folder / "[a].txt").write_text("odd", encoding="utf-8")
    (folder / "a.txt").write_text("plain", encoding="utf-8")
    assert [a.content for a in read(folder, "file:[a].txt")] == ["odd"]


def test_paths_from_home_and_from_the_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert read(Path("/"), "file:~/notes.md")[0].content == "Delft, größer\r\n"
    assert read(Path("/"), f"file://{folder}/notes.md")[0].content == "Delft, größer\r\n"


def test_each_file_is_attached_once(folder: Path) -> None:
    os.symlink(folder / "notes.md", folder / "same.md")
    found = read(folder, "file:notes.md", "file:data/*.csv", "file:same.md", "file:data/a.csv")
    assert [a.content for a in found] == ["Delft, größer\r\n", "a.csv", "b.csv"]


def test_what_did_not_change_is_the_same_object(folder: Path) -> None:
    reader = Attachments()
    first = reader.read(["file:notes.md"], folder)
    assert reader.read(["file:notes.md"], folder) is first
    (folder / "notes.md").write_text("Leiden", encoding="utf-8")
    second = reader.read(["file:notes.md"], folder)
    assert [a.content for a in second] == ["Leiden"]
    assert reader.read([], folder) == ()
    assert reader.read(["file:notes.md"], folder) == second


# --- what cannot be attached -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:nots.md", "there is no such file in {folder}"),
        ("file:data/*.tsv", "no file in {folder} is called so"),
        ("file:data", "that is a folder; file:data/* attaches the files in it"),
        ("file:data/", "that is a folder; file:data/* attaches the files in it"),
        ("file:notes.md?lines=3", "a file takes no parameters"),
        ("file:notes.md/x", "Not a directory"),
        ("file:no%00te", "embedded null byte"),
        ("https://example.org/a", "attachments of the kind 'https' cannot be read here"),
        ("bear://x", "attachments of the kind 'bear' cannot be read here: file:PATH can"),
    ],
)
def test_what_cannot_be_read_says_why(folder: Path, url: str, why: str) -> None:
    assert why.format(folder=folder) in why_not(folder, "file:notes.md", url)


@pytest.mark.parametrize("data", [b"\xff\xfe\xfd", b"a\0b", "ä".encode("latin-1")])
def test_what_is_neither_text_nor_a_known_picture_is_refused(folder: Path, data: bytes) -> None:
    (folder / "data" / "c.csv").write_bytes(data)
    why = why_not(folder, "file:data/*")
    assert why.startswith("data/c.csv is neither text in UTF-8, nor an image")


def test_what_never_ends_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "could be read to its end" in why_not(folder, "file:pipe")
    assert "could be read to its end" in why_not(folder, "file:/dev/zero")


def test_too_much_is_refused_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2_000_000)
    monkeypatch.setattr(module, "_read", lambda file: pytest.fail("it was read"))
    with (folder / "big.txt").open("wb") as big:
        big.truncate(1_999_990)
    why = why_not(folder, "file:big.txt", "file:notes.md")
    assert why == "with notes.md, more than 2 MB are attached"
    monkeypatch.setattr(module, "MAX_FILES", 1)
    assert "more than 1 files are called so" in why_not(folder, "file:data/*")
    assert "more than 1 files are attached" in why_not(folder, "file:data/a.csv", "file:data/b.csv")


def test_the_error_names_the_item_and_what_to_do() -> None:
    made = AttachmentError('file:a"b', "gone").in_configuration()
    path = 'conversation.attachments["file:a\\"b"]'
    assert str(made) == f"{path}: gone. `%jp config --unset '{path}'` takes it away"
    assert made.path == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("notes.md", "sub/notes.md"),
        ("../a b?#%.md", "a b?#%.md"),
        ("*.md", "sub/*.md"),
        ("/x/y", "/x/y"),
        ("~/x", "~/x"),
    ],
)
def test_a_path_is_an_argument_too(text: str, path: str) -> None:
    url = attachment_argument(text, within="sub")
    parts = attachment_parts(url)
    assert (parts.type, parts.path, parts.params) == ("file", path, {})
    assert attachment_argument(url, within="sub") == url
    with pytest.raises(ValueError, match="the path of a file"):
        attachment_argument(" ")


# --- in a kernel -----------------------------------------------------------------------------

SCRIPTS = {
    "reader": "".join(
        f"[[replies]]\nexpect = {json.dumps(texts)}\ntext = {json.dumps(said)}\n"
        for texts, said in [
            (["notes.md", "Delft is old"], "I read it."),
            (["Delft is older"], "It changed."),
        ]
    ),
    "plain": '[[replies]]\ntext = "Nothing to read."\n' * 5,
    "proposer": calls(("attach", {"path": "notes.md"}))
    + '[[replies]]\nexpect = ["Attached.", "Delft is old"]\ntext = "Now I read it."\n',
    "lost": calls(("attach", {"path": "nots.md"})) + '[[replies]]\ntext = "The next turn works."\n',
    "asked": calls(("is_old", {}))
    + '[[replies]]\nexpect = "old: True"\ntext = "Old it is."\n[inquiries]\n"is_old.sure" = true\n',
}
TOOLS = """
@jp.tool(access=[jp.ConfigRule("conversation.attachments", read=True, write=True)])
def attach(ctx: jp.ToolContext, path: str) -> jp.Outcome:
    return jp.Success("Attached.", config={"conversation": {"attachments": ["file:" + path]}})

@jp.tool
def is_old(ctx: jp.ToolContext) -> jp.Outcome:
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("sure", "Is it old?"))
    return jp.Success(f"old: {ctx.answers['sure']}")
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("attachments")
    for name, text in SCRIPTS.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    with front_end(folder) as user:
        user.run("%load_ext jp_nb\nimport jp_nb as jp")
        user.run(TOOLS)
        user.run("from pathlib import Path")
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    forget(kernel)
    kernel.models.clear()
    kernel.run("Path('notes.md').write_text('Delft is old')")
    return kernel


def answer(user: FrontEnd, line: str) -> str:
    """What a turn answers, or its error."""
    request = user.start(f"%%jp {line}\nGo on.", cell_id="a cell")
    user.finish(request)
    return shown(user, request)


def said(user: FrontEnd, line: str) -> str:
    request = user.start(line, cell_id=None)
    user.finish(request)
    return shown(user, request)


def shown(user: FrontEnd, request: str) -> str:
    problem = error(user, request)
    return str(problem["evalue"]) if problem else str(user.displays(request)[-1]["text/plain"])


@kernel_test
def test_a_file_is_in_every_request_as_it_is_then(user: FrontEnd) -> None:
    assert answer(user, "-n -m scripted/reader -a notes.md") == "I read it."
    assert "attachments  1, 0.0 kB in all" in said(user, "%jp doctor")
    user.run("Path('notes.md').write_text('Delft is older')")
    assert answer(user, "") == "It changed."
    [delta] = [e["delta"] for e in events(user) if "attachments" in str(e.get("delta"))]
    assert delta["conversation"]["attachments"] == ["file://notes.md"]


@kernel_test
def test_what_is_not_there_is_refused_before_it_is_recorded(user: FrontEnd) -> None:
    answer(user, "-n -m scripted/plain")
    problem = answer(user, "-a nots.md")
    assert "-a nots.md: there is no such file in " in problem
    assert "nots.md" not in json.dumps(events(user))
    assert answer(user, "") == "Nothing to read."


@kernel_test
def test_a_file_that_went_away_ends_the_turn_and_says_what_to_do(user: FrontEnd) -> None:
    answer(user, "-n -m scripted/plain -a notes.md")
    user.run("Path('notes.md').unlink()")
    problem = answer(user, "")
    assert 'conversation.attachments["file://notes.md"]: there is no such file' in problem
    found = said(user, "%jp doctor")
    assert "model        scripted/plain (a script" in found
    assert 'attachments  does not work: conversation.attachments["file://notes.md"]' in found
    fix = problem[problem.index("%jp config --unset") :].split("`")[0]
    user.run(fix)
    assert answer(user, "") == "Nothing to read."


@kernel_test
@pytest.mark.req("R078-125", "R078-127", "R078-129")
def test_a_tool_attaches_and_the_next_request_of_the_turn_has_it(user: FrontEnd) -> None:
    request = user.start("%%jp -n -m scripted/proposer\nGo on.", cell_id="a cell")
    user.form("Configuration delta proposed by tool 'attach'")
    user.click("Apply")
    user.finish(request)
    assert shown(user, request).splitlines() == [
        '✓ attach(path="notes.md")',
        '⟳ attach: conversation.attachments: + "file:notes.md" — applied by you (form)',
        "Now I read it.",
    ]


@kernel_test
@pytest.mark.req("R078-130", "R078-132")
def test_a_tool_that_attaches_what_is_not_there_ends_the_turn_and_it_can_be_undone(
    user: FrontEnd,
) -> None:
    request = user.start("%%jp -n -m scripted/lost\nGo on.", cell_id="a cell")
    user.form("Configuration delta proposed by tool 'attach'")
    user.click("Apply")
    user.finish(request)
    problem = shown(user, request)
    assert 'conversation.attachments["file:nots.md"]: there is no such file' in problem
    user.run("%jp config --unset 'conversation.attachments[\"file:nots.md\"]'")
    assert answer(user, "") == "The next turn works."


@kernel_test
@pytest.mark.req("R028-17")
def test_a_model_that_answers_for_the_person_has_the_attachments_too(user: FrontEnd) -> None:
    # The script's `[inquiries]` answers; that the request holds the files is looked at here.
    user.run(
        "from jp_nb.providers.scripted import ScriptedProvider as S\n"
        "seen, stream = [], S.stream\n"
        "def spied(self, request):\n"
        "    seen.append([a.content for a in request.attachments])\n"
        "    return stream(self, request)\n"
        "S.stream = spied"
    )
    try:
        line = "-n -m scripted/asked -a notes.md"
        where = "-c conversation.tools.is_old.questions.sure.target=assistant"
        assert answer(user, f"{line} {where}").endswith("Old it is.")
        assert user.run("print(seen)").strip() == str([["Delft is old"]] * 3)
    finally:
        user.run("S.stream = stream")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_strangers_attachments_are_not_read_before_a_person_trusts_them(
    tmp_path: Path, trusted: bool
) -> None:
    first = "%load_ext jp_nb" + ("\n%jp trust --yes" if trusted else "")
    path = notebook(tmp_path, first, "%%jp\nHello again.")
    made = nbformat.read(path, as_version=4)
    made.metadata["jp"] = {
        "version": 1,
        "conversation": {"id": "jp-c17738399468", "made": "live"},
        "base_config": {"conversation": {"attachments": ["file:/no/such/file"]}},
        "events": [
            {"type": "turn_start", "timestamp": NOON},
            {"type": "chat_request", "timestamp": NOON, "content": "Hello."},
            {"type": "chat_response", "timestamp": NOON, "message": "Hello."},
        ],
    }
    nbformat.write(made, path)
    done = run_python(["-m", "jp_nb.cli", "run", "--continue", path.name], path.parent)
    assert (done.returncode != 0) == trusted, done.stderr
    turns = load_conversation(path).conversation.turn_count
    assert turns == (1 if trusted else 2)

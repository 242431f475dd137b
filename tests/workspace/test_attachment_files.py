"""What is attached: read from files, in the next request to the model, and never silently not."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jp_nb.agent.model_events import Attachment
from jp_nb.config.tree.attachment_url import attachment_argument, attachment_parts
from jp_nb.headless.show import load_conversation
from jp_nb.workspace import attachment_files as module
from jp_nb.workspace.attachment_files import AttachmentError, Attachments
from tests.support.cells import calls, error, events, forget, kernel_with, said
from tests.support.kernel_client import FrontEnd
from tests.support.notebook_runs import by_a_stranger, notebook
from tests.support.notebook_runs import run as run_python

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
    (tmp_path / "odd[1]").mkdir()
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
    [made] = read(Path("/"), "file:~/notes.md")
    assert (made.source, made.content) == ("~/notes.md", "Delft, größer\r\n")
    found = read(Path("/"), "file:~/data/*.csv")
    assert [a.source for a in found] == ["~/data/a.csv", "~/data/b.csv"]
    assert read(Path("/"), f"file://{folder}/notes.md")[0].content == "Delft, größer\r\n"


def test_each_file_is_attached_once_as_it_was_named_first(folder: Path) -> None:
    os.symlink(folder / "notes.md", folder / "same.md")
    found = read(folder, "file:notes.md", "file:data/*.csv", "file:same.md", "file:data/a.csv")
    assert [a.source for a in found] == ["notes.md", "data/a.csv", "data/b.csv"]


def test_patterns_go_deep_without_hidden_files_and_round_no_circle(folder: Path) -> None:
    deep = folder / "data" / "x" / "y"
    deep.mkdir(parents=True)
    (deep / "c.csv").touch()
    (folder / ".git").mkdir()
    (folder / ".git" / "d.csv").touch()
    os.symlink(folder, deep / "round")
    os.symlink(folder / "data", folder / "linked")
    sources = {
        "file:**/*.csv": ["data/a.csv", "data/b.csv", "data/x/y/c.csv"],
        "file:**/y/*": ["data/x/y/c.csv"],
        "file:data/**": ["data/a.csv", "data/b.csv", "data/x/y/c.csv"],
        "file:.git/*": [".git/d.csv"],
        "file:data/.*": ["data/.hidden.csv"],
        "file:l*/[!b].csv": ["linked/a.csv"],
        f"file:{folder}/data/%3F.csv": ["data/a.csv", "data/b.csv"],
    }
    for url, expected in sources.items():
        assert [a.source for a in read(folder, url)] == expected, url


def test_a_file_that_cannot_be_looked_at_is_not_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.symlink(folder / "nothing", folder / "data" / "0.csv")
    os.symlink(folder / "data" / "loop.csv", folder / "data" / "loop.csv")
    why = why_not(folder, "file:data/*.csv")
    assert why == f"{folder}/data/loop.csv: Too many levels of symbolic links"
    (folder / "data" / "loop.csv").unlink()
    assert len(read(folder, "file:data/*.csv")) == 2
    assert "File name too long" in why_not(folder, f"file:[d]ata/{'x' * 300}")


def test_a_pattern_looks_at_so_many_files_and_no_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOOKED_AT", 3)
    assert len(read(folder, "file:data/*.csv")) == 2
    assert "more than 3 files would have to be looked at" in why_not(folder, "file:**/*.tsv")


@pytest.mark.parametrize("pattern", ["file:*/*.csv", "file:data/[a].csv", "file:**/*"])
def test_a_folder_that_cannot_be_looked_into_is_not_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path) == folder / "data":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert why_not(folder, pattern) == f"{folder}/data: Permission denied"


def test_what_did_not_change_is_the_same_object(folder: Path) -> None:
    reader = Attachments()
    first = reader.read(["file:notes.md"], folder)
    assert reader.read(["file:notes.md"], folder) is first
    (folder / "notes.md").write_text("Leiden", encoding="utf-8")
    second = reader.read(["file:notes.md"], folder)
    assert [a.content for a in second] == ["Leiden"]
    times = (folder / "notes.md").stat()
    (folder / "notes.md").write_text("London", encoding="utf-8")
    os.utime(folder / "notes.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    second = reader.read(["file:notes.md"], folder)
    assert [a.content for a in second] == ["London"]
    assert reader.read([], folder) == ()
    assert reader.read(["file:notes.md"], folder) == second


def test_after_an_error_nothing_old_is_sent(folder: Path) -> None:
    reader = Attachments()
    reader.read(["file:notes.md"], folder)
    (folder / "notes.md").write_bytes(b"\0")
    for _ in range(2):
        with pytest.raises(AttachmentError, match="neither text"):
            reader.read(["file:notes.md"], folder)


def test_long_files_are_read_whole(folder: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(200_000))
    (folder / "long.txt").write_text(text, encoding="utf-8")
    assert read(folder, "file:long.txt")[0].content == text


def test_a_file_may_be_another_one_in_its_place(folder: Path) -> None:
    reader = Attachments()
    other = folder / "other.md"
    other.write_text("Delft, GRÖSSER", encoding="utf-8")
    reader.read(["file:notes.md"], folder)
    times = (folder / "notes.md").stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(folder / "notes.md")
    assert reader.read(["file:notes.md"], folder)[0].content == "Delft, GRÖSSER"


# --- what cannot be attached -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:nots.md", "there is no file {folder}/nots.md"),
        ("file:data/*.tsv", "there is no file {folder}/data/*.tsv"),
        ("file:data", "{folder}/data is a folder; file://data/* attaches its files"),
        ("file:data/", "{folder}/data is a folder; file://data/* attaches its files"),
        ("file:notes.md?lines=3", "a file takes no parameters"),
        ("file:notes.md/x", "Not a directory"),
        ("file:no%00te", "no\\u0000te: embedded null byte"),
        ("file:\x1b[31m%0Ared", "there is no file {folder}/\\u001b[31m\\nred"),
        ("FILE:nots.md", "there is no file {folder}/nots.md"),
        ("file:**/*.tsv", "there is no file {folder}/**/*.tsv"),
        ("file:[a", "there is no file"),
        ("file:odd[1]", "folder; file://odd[[]1]/* attaches its files"),
        ("https://example.org/a", "attachments of the kind 'https' cannot be read here"),
        ("bear://x", "attachments of the kind 'bear' cannot be read here: file:PATH and "),
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


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="a system without /proc")
def test_what_has_no_length_is_not_read(folder: Path) -> None:
    assert why_not(folder, "file:/proc/uptime") == "/proc/uptime is not a file on a disk"
    (folder / "empty").touch()
    assert read(folder, "file:empty")[0].content == ""


def test_a_file_that_grows_as_it_is_read_counts_with_all_it_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    monkeypatch.setattr(module, "_bytes_of", lambda file: b"x" * 60)
    assert "more than 0 MB are attached" in why_not(folder, "file:notes.md", "file:data/a.csv")
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_BYTES", 20)
    monkeypatch.setattr(module._AttachedFile, "size", 1)
    (folder / "notes.md").write_text("x" * 21, encoding="utf-8")
    assert "with notes.md, more than" in why_not(folder, "file:notes.md")


def test_a_file_that_is_gone_when_it_is_read_is_named(folder: Path) -> None:
    [file] = module._find("file:notes.md", folder)
    (folder / "notes.md").unlink()
    with pytest.raises(AttachmentError, match=r"notes.md: No such file"):
        module._bytes_of(file)


def test_too_much_is_refused_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2_000_000)
    monkeypatch.setattr(module, "_bytes_of", lambda file: pytest.fail("it was read"))
    with (folder / "big.txt").open("wb") as big:
        big.truncate(1_999_990)
    why = why_not(folder, "file:big.txt", "file:notes.md")
    assert why == "with notes.md, more than 2 MB are attached"
    monkeypatch.setattr(module, "MAX_FILES", 1)
    assert "more than 1 files are attached" in why_not(folder, "file:data/*")
    assert "more than 1 files are attached" in why_not(folder, "file:data/a.csv", "file:data/b.csv")


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
    assert attachment_parts(attachment_argument("./~x", within=".")).path == "./~x"
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
    cells = ("import jp_nb as jp\nfrom pathlib import Path", TOOLS)
    with kernel_with(folder, SCRIPTS, *cells) as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    forget(kernel)
    kernel.models.clear()
    kernel.run("Path('notes.md').write_text('Delft is old')")
    return kernel


def answer(user: FrontEnd, line: str) -> str:
    """What a turn answers, or its error."""
    request = user.start(f"%%jp {line}\nGo on.")
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
def test_a_function_attaches_too(user: FrontEnd) -> None:
    code = "jp.query('Go.', model='scripted/reader', new=True, attach=['notes.md'])"
    request = user.start(code)
    user.finish(request)
    assert error(user, request) is None
    assert "I read it." in json.dumps(events(user))


@kernel_test
def test_the_fix_can_be_pasted_whatever_the_file_is_called(user: FrontEnd) -> None:
    name = 'it\'s "$x" {a} #1.md'
    user.run(f"Path({name!r}).write_text('Delft is old')")
    both = " ".join(f"-a {shlex.quote(each)}" for each in (name, "it's*.md"))
    answer(user, f"-n -m scripted/plain {both}")
    user.run(f"Path({name!r}).unlink()")
    for _ in range(2):
        problem = answer(user, "")
        user.run(problem[problem.index("%jp config ") :].split("`")[0])
    assert answer(user, "") == "Nothing to read."


@kernel_test
def test_what_a_file_attaches_says_which(user: FrontEnd) -> None:
    user.run(
        "Path('.jp').mkdir(exist_ok=True)\n"
        "Path('.jp/config.toml').write_text("
        '\'conversation.attachments = [{ type = "file", path = "gone.md" }]\')'
    )
    try:
        problem = answer(user, "-n -m scripted/plain")
        assert 'conversation.attachments["file://gone.md"]: there is no file ' in problem
        assert ".jp/config.toml)" in problem
        assert "(from workspace file: " in problem
    finally:
        user.run("import shutil; shutil.rmtree('.jp')")


@kernel_test
def test_what_is_not_there_is_refused_before_it_is_recorded(user: FrontEnd) -> None:
    answer(user, "-n -m scripted/plain")
    problem = answer(user, "-a nots.md")
    assert "-a nots.md: there is no file /" in problem
    assert "nots.md" not in json.dumps(events(user))
    assert answer(user, "") == "Nothing to read."


@kernel_test
def test_a_file_that_went_away_ends_the_turn_and_says_what_to_do(user: FrontEnd) -> None:
    answer(user, "-n -m scripted/plain -a notes.md")
    user.run("Path('notes.md').unlink()")
    problem = answer(user, "")
    assert 'conversation.attachments["file://notes.md"]: there is no file' in problem
    found = said(user, "%jp doctor")
    assert "model        scripted/plain (a script" in found
    assert 'attachments  does not work: conversation.attachments["file://notes.md"]' in found
    fix = problem[problem.index("%jp config ") :].split("`")[0]
    user.run(fix)
    assert answer(user, "") == "Nothing to read."


@kernel_test
@pytest.mark.req("R078-125", "R078-127", "R078-129")
def test_a_tool_attaches_and_the_next_request_of_the_turn_has_it(user: FrontEnd) -> None:
    request = user.start("%%jp -n -m scripted/proposer\nGo on.")
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
    request = user.start("%%jp -n -m scripted/lost\nGo on.")
    user.form("Configuration delta proposed by tool 'attach'")
    user.click("Apply")
    user.finish(request)
    problem = shown(user, request)
    assert 'conversation.attachments["file:nots.md"]: there is no file' in problem
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
    path = notebook(tmp_path, first, "%%jp\nHello! Who answers here?")
    by_a_stranger(path, {"conversation": {"attachments": ["file:/no/such/file"]}})
    done = run_python(["-m", "jp_nb.cli", "run", "--continue", path.name], path.parent)
    assert (done.returncode != 0) == trusted, done.stderr
    turns = load_conversation(path).conversation.turn_count
    assert turns == (1 if trusted else 2)

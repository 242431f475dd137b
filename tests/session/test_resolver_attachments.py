"""Attached files of a conversation: current content in each request, and errors with a fix."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.sessions import current_session, directive
from tests.support.cells import calls, error, kernel_with
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter, yes
from tests.support.kernel_client import FrontEnd
from tests.support.sessions import note_requests, run_line

PLAIN = '[[replies]]\ntext = "one"\n' * 5


@pytest.fixture
def folder(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook's folder with a file to attach, without configuration."""
    monkeypatch.setenv("JP_NB_TRUST_FOLDERS", str(bare_folder))
    (bare_folder / "talk.toml").write_text(PLAIN)
    (bare_folder / "notes.md").write_text("Delft is old")
    return bare_folder


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    made = Session(FakeHost(FakePrompter(yes("apply"))))
    with current_session(made):
        yield made
    made.close()


def ask(session: Session, *attach: str, script: str = "talk") -> list[list[Any]]:
    """Run a turn; return the content of the attachments of each request."""
    requests = note_requests(session)
    directives = [directive("attach", text) for text in attach]
    session.turns.run("Go.", model=f"scripted/{script}", directives=directives)
    return [[each.content for each in sent.attachments] for sent in requests]


def doctor_line(session: Session, name: str) -> str:
    """Return the line of `%jp doctor` about `name`."""
    [line] = [x for x in run_line(session, "doctor").splitlines() if x.startswith(name)]
    return line


def test_file_is_in_every_request_with_its_current_content(session: Session, folder: Path) -> None:
    assert ask(session, "notes.md") == [["Delft is old"]]
    assert "1, 0.0 kB in all" in doctor_line(session, "attachments")
    (folder / "notes.md").write_text("Delft is older")
    assert ask(session) == [["Delft is older"]]
    assert session.config.conversation.attachments == ["file://notes.md"]


def test_query_attaches_files(session: Session) -> None:
    jp.query("Go.", model="scripted/talk", new=True, attach=["notes.md"])
    assert session.config.conversation.attachments == ["file://notes.md"]


def test_missing_file_is_refused_before_the_request_is_recorded(session: Session) -> None:
    ask(session)
    with pytest.raises(jp.JpNbError, match=r"^-a nots\.md: file /"):
        ask(session, "nots.md")
    assert "nots.md" not in json.dumps(session.document.to_json())
    assert ask(session) == [[]]


def test_error_of_a_file_that_is_gone_says_how_to_detach_it(session: Session, folder: Path) -> None:
    ask(session, "notes.md")
    (folder / "notes.md").unlink()
    with pytest.raises(jp.ConfigError) as caught:
        ask(session)
    assert 'conversation.attachments["file://notes.md"]: file ' in str(caught.value)
    shown = doctor_line(session, "attachments")
    assert 'error: conversation.attachments["file://notes.md"]' in shown
    fix = str(caught.value).split("`%jp config ")[1].split("`")[0]
    [assignment] = shlex.split(fix)
    session.configure(directive("cfg", assignment))
    assert ask(session) == [[]]


def test_error_names_the_configuration_file_that_attaches(session: Session, folder: Path) -> None:
    (folder / ".jp").mkdir()
    attached = '[{ type = "file", path = "gone.md" }]'
    (folder / ".jp" / "config.toml").write_text(f"conversation.attachments = {attached}")
    with pytest.raises(jp.ConfigError) as caught:
        ask(session)
    assert 'conversation.attachments["file://gone.md"]: file ' in str(caught.value)
    assert "(from workspace file: " in str(caught.value)
    assert ".jp/config.toml)" in str(caught.value)


@pytest.fixture
def attach() -> Iterator[None]:
    @jp.tool(access=[jp.ConfigRule("conversation.attachments", read=True, write=True)])
    def attach(path: str) -> jp.Outcome:
        attached = {"conversation": {"attachments": ["file:" + path]}}
        return jp.Success("Attached.", config=attached)

    yield
    jp.remove_tool("attach")


@pytest.mark.usefixtures("attach")
@pytest.mark.req("R078-125", "R078-127", "R078-129")
def test_file_that_a_tool_attaches_is_in_the_next_request(session: Session, folder: Path) -> None:
    (folder / "tool.toml").write_text(calls(("attach", {"path": "notes.md"})) + PLAIN)
    assert ask(session, script="tool") == [[], ["Delft is old"]]


@pytest.mark.usefixtures("attach")
@pytest.mark.req("R078-130", "R078-132")
def test_missing_file_that_a_tool_attaches_ends_the_turn_and_can_be_detached(
    session: Session, folder: Path
) -> None:
    (folder / "tool.toml").write_text(calls(("attach", {"path": "nots.md"})) + PLAIN)
    with pytest.raises(
        jp.ConfigError, match=r'attachments\["file:nots.md"\]: file .* does not exist'
    ):
        ask(session, script="tool")
    session.configure(directive("unset", 'conversation.attachments["file:nots.md"]'))
    assert ask(session) == [[]]


@pytest.mark.req("R028-17")
def test_model_that_answers_a_question_has_the_attachments(session: Session, folder: Path) -> None:
    @jp.tool
    def is_old(ctx: jp.ToolContext) -> jp.Outcome:
        if "sure" not in ctx.answers:
            return jp.NeedsInput(jp.Question.boolean("sure", "Is it old?"))
        return jp.Success(f"old: {ctx.answers['sure']}")

    answers = (
        '[[replies]]\nexpect = "old: True"\ntext = "Old."\n[inquiries]\n"is_old.sure" = true\n'
    )
    (folder / "asked.toml").write_text(calls(("is_old", {})) + answers)
    session.configure(directive("cfg", "conversation.tools.is_old.questions.sure.target=assistant"))
    try:
        assert ask(session, "notes.md", script="asked") == [["Delft is old"]] * 3
    finally:
        jp.remove_tool("is_old")


def test_attachments_of_an_untrusted_record_are_read_once_the_user_trusts_it(
    folder: Path,
) -> None:
    first = Session(FakeHost())
    first.configure(directive("cfg", "conversation.attachments=file:/no/such/file"))
    stored: Any = first.document.to_json()
    first.close()
    session = Session(FakeHost(home=FakeHome(stored={**stored, "signature": None})))
    assert ask(session) == [[]]
    session.active.accept()
    with pytest.raises(jp.ConfigError, match="file /no/such/file does not exist"):
        ask(session)
    session.close()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("attachments")
    cells = ("import jp_nb as jp\nfrom pathlib import Path",)
    with kernel_with(folder, {"plain": PLAIN}, *cells) as user:
        yield user


@pytest.mark.kernel
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in jupyter_client, zmq
def test_fix_can_be_pasted_for_any_file_name(kernel: FrontEnd) -> None:
    """IPython replaces `$x` and `{a}` in a line magic."""
    kernel.forget(widgets=False)
    name = 'it\'s "$x" {a} #1.md'
    kernel.run(f"Path({name!r}).write_text('Delft is old')")
    both = " ".join(f"-a {shlex.quote(each)}" for each in (name, "it's*.md"))
    kernel.finish(kernel.start(f"%%jp -n -m scripted/plain {both}\nContinue."))
    kernel.run(f"Path({name!r}).unlink()")
    for _ in range(2):
        request = kernel.start("%%jp\nContinue.")
        kernel.finish(request)
        problem = error(kernel, request)
        assert problem is not None
        text = str(problem["evalue"])
        kernel.run(text[text.index("%jp config ") :].split("`")[0])
    request = kernel.start("%%jp\nContinue.")
    kernel.finish(request)
    assert error(kernel, request) is None

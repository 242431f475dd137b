"""`-a NAME` of a variable: described anew for each turn, text and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.kinds import make
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHost
from tests.support.images import pdf_bytes
from tests.values.sample_values import figure


@pytest.fixture
def host(bare_folder: Path) -> FakeHost:
    replies = "\n".join(['[[replies]]\ntext = "one"'] * 4)
    (bare_folder / "talk.toml").write_text(replies)
    made = FakeHost()
    made.namespace |= {"table": pd.DataFrame({"a": [1]}), "rows": [[1, 2], [3]], "fig": figure()}
    return made


def ask(session: Session, *attach: str) -> tuple[Any, ...]:
    """Run a turn, and return the attachments of its request."""
    session.turns.run(
        "Go.", model="scripted/talk", directives=[directive("attach", text) for text in attach]
    )
    sent: Any = session.turns.contexts.last_request
    return tuple(sent.request.attachments)


def test_variable_is_described_again_for_each_turn(host: FakeHost) -> None:
    session = Session(host)
    [first] = ask(session, "table")
    assert (first.source, first.media_type) == ("table", "text/plain")
    assert str(first.content).startswith("pandas.DataFrame, 1 row x 1 column")
    assert session.config.conversation.attachments == ["value://table"]
    assert "the variable table is attached and described again for each turn" in session.notices
    host.namespace["table"] = pd.DataFrame({"a": [1, 2]})
    [second] = ask(session)
    assert "2 rows" in str(second.content)
    assert ask(session)[0] is second


def test_path_figure_and_pdf_are_attached(host: FakeHost) -> None:
    host.namespace["report"] = pdf_bytes()
    part, words, picture, _, paper = ask(Session(host), "rows[0]", "fig", "report")
    assert (part.source, part.content) == ("rows[0]", "[1, 2]")
    assert words.source == "fig"
    assert (picture.source, picture.media_type) == ("fig, image 1", "image/png")
    assert isinstance(picture.content, bytes)
    assert paper == make("attachment", "report, PDF 1", "application/pdf", pdf_bytes())


def test_file_precedes_a_variable_of_its_name_with_a_notice(
    host: FakeHost, bare_folder: Path
) -> None:
    (bare_folder / "table").write_text("the file", encoding="utf-8")
    session = Session(host)
    assert ask(session, "table") == (make("attachment", "table", "text/plain", "the file"),)
    assert any(
        "attaches the file of that name. To attach the variable" in x for x in session.notices
    )
    assert [each.source for each in ask(session, "value:rows")] == ["table", "rows"]


def test_unknown_name_is_an_error(host: FakeHost) -> None:
    session = Session(host)
    with pytest.raises(jp.UsageError, match="does not exist"):
        ask(session, "tabel")
    with pytest.raises(jp.ConfigError, match="no variable 'tabel' in this notebook; did you mean"):
        ask(session, "value:tabel")
    assert session.config.conversation.attachments == []


def test_error_of_a_missing_variable_says_how_to_detach_it(host: FakeHost) -> None:
    session = Session(host)
    ask(session, "table")
    del host.namespace["table"]
    with pytest.raises(jp.ConfigError) as caught:
        ask(session)
    assert "no variable 'table' in this notebook" in str(caught.value)
    assert caught.value.path == 'conversation.attachments["value://table"]'
    fix = """`%jp config 'conversation.attachments["value://table"]:=null'`"""
    assert fix in str(caught.value)
    session.configure(directive("cfg", 'conversation.attachments["value://table"]:=null'))
    assert ask(session) == ()


def test_untrusted_folder_cannot_attach_a_variable(
    host: FakeHost, bare_folder: Path, subtests: pytest.Subtests
) -> None:
    rows: list[str] = ["value:table", "VALUE:table", "value://fig"]
    for url in rows:
        with subtests.test(url=url):
            (bare_folder / ".jp").mkdir(exist_ok=True)
            (bare_folder / ".jp" / "config.toml").write_text(
                f'conversation.attachments = ["{url}"]'
            )
            assert ask(Session(host)) == ()

"""How long a person has to answer is one setting, read anew for each question.

Settled otherwise: RPI-44 would take deadlines off in a mode for planning. There is no such mode:
`prompt.timeout_s` alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jp_nb.config.tree.app_config import AppConfig
from jp_nb.errors import ConfigError
from tests.support.kernel_client import FrontEnd, front_end
from tests.support.magic_shell import Notebook

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

ASK = "import jp_nb as jp\nprint(jp.ask(jp.Question.text('q', '{}')))"


@pytest.fixture
def person(tmp_path: Path) -> Iterator[FrontEnd]:
    with front_end(tmp_path) as user:
        user.run("%load_ext jp_nb")
        yield user


@pytest.mark.req("RPI-43")
def test_there_is_no_deadline_unless_somebody_sets_one() -> None:
    assert AppConfig().prompt.timeout_s == 0


@pytest.mark.req("RPI-41")
def test_a_deadline_is_a_number_of_seconds(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    notebook.jp("config prompt.timeout_s=0.5")
    for wrong in ("-1", "soon"):
        with pytest.raises(ConfigError, match=r"prompt\.timeout_s: expected a number"):
            notebook.jp(f"config prompt.timeout_s={wrong}")
    assert notebook.value("prompt.timeout_s") == 0.5


@pytest.mark.req("RPI-40", "RPI-42", "RPI-44")
def test_each_question_has_the_deadline_that_is_set_when_it_is_asked(person: FrontEnd) -> None:
    person.run("%jp config prompt.timeout_s=0.2")
    late = person.start(ASK.format("Which name?"))
    assert person.models[person.form("Which name?")]["timed"] is True
    person.finish(late)
    [error] = [m["content"] for m in person.messages if m["header"]["msg_type"] == "error"]
    assert error["evalue"] == "'Which name?' was not answered"

    person.run("%jp config prompt.timeout_s=0")
    asked = person.start(ASK.format("Which town?"))
    beacon = person.form("Which town?")
    assert person.models[beacon]["timed"] is False
    person.send(beacon, {"type": "submit", "value": "Delft"})
    person.finish(asked)
    assert person.printed(asked) == "Delft\n"

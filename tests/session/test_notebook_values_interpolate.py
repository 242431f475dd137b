"""`{{name}}` in a request: replaced expressions, literal braces and errors."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.values.sample_values import figure


class Table:
    columns = ("a", "b")

    def __str__(self) -> str:
        return "<table>"

    @property
    def broken(self) -> str:
        raise RuntimeError("no")


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")


NAMESPACE: dict[str, Any] = {
    "name": "Ada {{name}}",
    "table": Table(),
    "rows": [{"key": 1}, {"key": 2}],
    "mute": Mute(),
    "long": "0123456789" * 100,
    "figure": figure(),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session with the variables of `NAMESPACE`. A request has at most 100 characters of each."""
    folder = tmp_path_factory.mktemp("interpolate")
    (folder / "talk.toml").write_text('[[replies]]\ntext = "I see."\n' * 500)
    host = FakeHost(home=FakeHome(folder / "nb.ipynb"))
    host.namespace.update(NAMESPACE)
    opened = Session(host)
    opened.configure(directive("cfg", "interpolation.max_chars=100"), model="scripted/talk")
    yield opened
    opened.close()


def interpolated(session: Session, text: str) -> str:
    """Send `text`, and return it as the model gets it."""
    session.turns.run(text)
    [*_, request] = session.document.conversation.requests
    content: str = request.content
    return content


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="{} ab\n\"':", max_size=20).filter(lambda t: "{{" not in t and t.strip()))
def test_single_braces_are_unchanged(session: Session, text: str) -> None:
    assert interpolated(session, text) == text.strip("\n")


def test_names_with_attributes_and_subscripts_are_replaced(
    session: Session, subtests: pytest.Subtests
) -> None:
    for text, result in [
        ("{{name}}", "Ada {{name}}"),
        ("{{ name }}!", "Ada {{name}}!"),
        ("{{table}}: {{table.columns}}", "<table>: ('a', 'b')"),
        ("{{rows[0]}} {{rows[-1]['key']}} {{rows[1][\"key\"]}}", "{'key': 1} 2 2"),
        ("{{rows[:1]}} {{rows[-1:][0]['key']}}", "[{'key': 1}] 2"),
        (r"\{{name}} and {x}", "{{name}} and {x}"),
        ("{{name", "{{name"),
        ("{a} }} {", "{a} }} {"),
    ]:
        with subtests.test(text=text):
            assert interpolated(session, text) == result


def test_invalid_expressions_are_errors(session: Session, subtests: pytest.Subtests) -> None:
    for text, says in [
        ("{{nmae}}", "no variable 'nmae' in this notebook; did you mean 'name'?"),
        ("{{table.rows}}", "cannot read 'rows' of it: AttributeError"),
        ("{{table.broken}}", "cannot read 'broken' of it: RuntimeError: no"),
        ("{{rows[9]}}", "cannot read 9 of it: IndexError"),
        ("{{print('x')}}", "Function calls are not possible"),
        ("{{rows[name:1]}}", "is not a name"),
        ("{{rows['a':]}}", "is not a name"),
        ("{{table[(1, x)]}}", "is not a name"),
        ("{{1 + 1}}", "is not a name"),
        ("{{}}", "is not a name"),
        ("{{a b}}", "is not a name"),
        ("{{\x00}}", "is not a name"),
        ("{{" + "(" * 5000 + "}}", "is not a name"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(jp.UsageError) as caught:
                interpolated(session, text)
            assert says in str(caught.value)


def test_value_without_a_text_is_described(session: Session) -> None:
    assert "Mute: no text available: RuntimeError: no text" in interpolated(session, "{{mute}}")


def test_long_text_is_truncated_in_the_middle_with_its_range(session: Session) -> None:
    text = interpolated(session, "<{{long}}>")
    assert len(text) <= 102
    found = re.search(r"characters omitted; long\[(\d+):(\d+)\] has them", text)
    assert found is not None
    start, end = map(int, found.groups())
    assert text.startswith(f"<{NAMESPACE['long'][:start]}\n…")
    assert text.endswith(f"…\n{NAMESPACE['long'][end:]}>")


def test_figure_is_attached_once_as_an_image(session: Session) -> None:
    session.configure(directive("cfg", "values.image_side=300"))
    text = interpolated(session, "{{figure}} and {{ figure }}")
    assert text.count("matplotlib.Figure, 600 x 400 pixels") == 2
    stream = session.document.conversation
    [*_, request] = stream.requests
    [image] = stream.images.images_of(request).images
    assert (image.media_type, image.name) == ("image/png", "figure")
    assert struct.unpack(">II", image.content[16:24]) == (300, 200)

"""Values in a real kernel: in a request, as a tool's result, with pictures, shown once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cells import calls, error, events, kernel_with, start, value
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

SETUP = """
import itertools
import jp_nb as jp
import pandas as pd
from matplotlib.figure import Figure
frame = pd.DataFrame({"a": [1, 2, None]})
fig = Figure(figsize=(6, 4))
fig.add_subplot().plot([1, 2])

class Lying:
    @property
    def __class__(self):
        raise RuntimeError("no class")
    def __repr__(self):
        return "a value without a class"

@jp.tool
def draw() -> object:
    return "See:", fig, frame

@jp.tool
def endless() -> object:
    return [itertools.count(), Lying(), {"b", "a"}]
"""


TOOLS = {"tool": "draw", "endless": "endless"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("values")
    talk = '[[replies]]\ntext = "Done."\n'
    scripts = {name: calls((tool, {})) + talk for name, tool in TOOLS.items()}
    with kernel_with(folder, {"talk": talk, **scripts}, SETUP) as user:
        user.folder = folder  # type: ignore[attr-defined]
        yield user


def test_request_has_texts_and_images_of_its_values(kernel: FrontEnd) -> None:
    request = kernel.start("%%jp -n -m scripted/talk\nLook: {{frame}} and {{fig}}.")
    kernel.finish(request)
    assert error(kernel, request) is None
    [asked] = [each for each in events(kernel) if each["type"] == "chat_request"]
    assert "Look: pandas.DataFrame, 3 rows x 1 column\n" in asked["content"]
    assert "matplotlib.Figure, 600 x 400 pixels, 1 axes" in asked["content"]
    assert len(asked["metadata"]["images"]) == 1
    assert value(kernel, "[[i.media_type, i.name] for i in jp.last.images]") == [
        ["image/png", "fig"]
    ]


def test_result_of_a_tool_may_be_texts_figures_and_frames(kernel: FrontEnd) -> None:
    request = start(kernel, "tool")
    kernel.finish(request)
    assert error(kernel, request) is None
    [answer] = [each for each in events(kernel) if each["type"] == "tool_call_response"]
    assert answer["content"].startswith("See:\n\nmatplotlib.Figure, 600 x 400 pixels, 1 axes")
    assert "\n\npandas.DataFrame, 3 rows x 1 column" in answer["content"]
    assert not answer.get("is_error", False)
    assert len(answer["metadata"]["images"]) == 1


def test_result_with_an_endless_iterator_or_a_broken_object_is_described(
    kernel: FrontEnd,
) -> None:
    request = start(kernel, "endless")
    kernel.finish(request)
    assert error(kernel, request) is None
    [answer] = [each for each in events(kernel) if each["type"] == "tool_call_response"]
    assert answer["content"] == "[count(0), a value without a class, {'a', 'b'}]"
    assert not answer.get("is_error", False)


def test_cell_shows_a_description_as_text_and_then_its_images(kernel: FrontEnd) -> None:
    request = kernel.start("jp.describe(fig, name='fig')")
    kernel.finish(request)
    shown: list[Any] = list(kernel.displays(request))
    assert [sorted(each) for each in shown] == [["text/plain"], ["image/png", "text/plain"]]
    assert shown[0]["text/plain"].startswith("matplotlib.Figure, 600 x 400 pixels, 1 axes")


SECRET = "geheim-Zx9!qQ7~wV3"
SECRETS = f"""
import os, collections, numpy as np
os.environ["SOME_SETTING"] = "outside-4711-of-the-notebook"
Login = collections.namedtuple("Login", "user password")
login = Login("ada", "{SECRET}")
users = pd.DataFrame({{"user": ["ada"], "password": ["{SECRET}"]}})
row = users.iloc[0]
table = np.array([("ada", "{SECRET}")], [("user", "U9"), ("password", "U30")])
def opened():
    password = "{SECRET}"
    yield 1
    yield password
reader = opened()
next(reader)
shell = get_ipython()
"""
ATTACKS = (
    "os.environ['SOME_SETTING']",
    "os.sys.modules['posix'].environ",
    "os.sys.stdout.session.key",
    "shell.kernel.session.key",
    "shell.user_ns['login']",
    "In[1].join.__self__",
    "reader.gi_frame.f_locals",
    "login[1]",
    "login[:]",
    "row[1]",
    "row.iloc[1]",
    "row.values",
    "users.values",
    "users.T",
    "users.iloc[0, 1]",
    "users.T.iloc[1]",
    "table[0]",
    "table[0][1]",
    "table",
)


def test_notebook_tools_do_not_reveal_secrets(kernel: FrontEnd) -> None:
    made = [("notebook_variable", {"name": path}) for path in ATTACKS]
    script = calls(("notebook_variables", {}), *made) + '[[replies]]\ntext = "Done."\n'
    folder: Any = kernel.folder  # type: ignore[attr-defined]
    (folder / "attack.toml").write_text(script, encoding="utf-8")
    kernel.run(SECRETS)
    key = value(kernel, "shell.kernel.session.key.decode()")
    request = start(kernel, "attack", "-t notebook")
    kernel.finish(request)
    answers = [each["content"] for each in events(kernel) if each["type"] == "tool_call_response"]
    assert len(answers) == 1 + len(ATTACKS)
    for path, answer in zip(("the list", *ATTACKS), answers, strict=True):
        for secret in (SECRET, key, "outside-4711-of-the-notebook"):
            assert secret not in answer, path

"""Rules that decide by the arguments of a call: values, patterns, ranges, and folders."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from jp_nb.config import argument_rules, condition_text

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.text(max_size=3), below, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=4).filter(
    lambda found: not any(name.startswith("hint") for name in found)
)


def meets_conditions(
    when: Mapping[str, Any],
    arguments: Mapping[str, Any],
    *folders: Path,
    hints: Mapping[str, bool] | None = None,
    only_these: bool = False,
) -> bool:
    """Return True if the arguments of a call meet the conditions `when` of a rule of its tool.

    The first of `folders` is the workspace. Conditions that are not valid are a `ValueError`.
    """
    workspace, *others = folders or (Path("/ws"),)
    conditions = argument_rules.check_conditions(dict(when))
    call = argument_rules.JudgedCall(arguments, workspace, tuple(others), hints=hints or {})
    return argument_rules.matches_conditions(conditions, call, only_these=only_these)


def is_met(condition: JsonValue, value: JsonValue, root: Path = Path("/ws")) -> bool:
    """Return True if the argument `x` with this `value` meets `condition`."""
    return meets_conditions({"x": condition}, {"x": value}, root)


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "others"),
    [
        ("GET", ["get", "GET ", "\u0262ET", "G\u0395T", "GET\u200b", ["GET"], {"x": "GET"}, None]),
        (1, [True, 1.0, "1", 2, [1], None, float("nan"), float("inf")]),
        (1.0, [True, 1, "1.0", float("nan")]),
        (True, [1, 1.0, "true", False, None]),
        (10**30, [10**30 + 1, 1e30, str(10**30)]),
        ({"equals": None}, [0, "", False, [], {}, "null"]),
        ({"equals": [1]}, [[True], [1.0], [1, 1], [], 1]),
        ({"equals": {"a": {"b": 0}}}, [{"a": {"b": False}}, {"a": {"b": 0}, "c": 1}, {"a": 0}]),
        ({"equals": "inside:."}, ["a.txt", "."]),
        ({"one_of": ["GET", 1]}, ["HEAD", True, 1.0, "1", ["GET", 1]]),
    ],
)
def test_exact_value_matches_only_itself(condition: Any, others: list[Any]) -> None:
    own = condition
    if isinstance(condition, dict):
        own = condition["equals"] if "equals" in condition else condition["one_of"][0]
    assert is_met(condition, own)
    assert [other for other in others if is_met(condition, other)] == []


@given(ARGUMENTS)
def test_exact_conditions_match_their_own_arguments(arguments: dict[str, JsonValue]) -> None:
    assert meets_conditions(
        argument_rules.make_exact_conditions(arguments), arguments, only_these=True
    )


@given(ARGUMENTS, ARGUMENTS)
def test_exact_conditions_match_no_other_arguments(
    arguments: dict[str, JsonValue], others: dict[str, JsonValue]
) -> None:
    is_same = repr(sorted(arguments.items())) == repr(sorted(others.items()))
    is_match = meets_conditions(
        argument_rules.make_exact_conditions(arguments), others, only_these=True
    )
    assert is_match <= (is_same or arguments == others)


def test_missing_and_further_arguments() -> None:
    when = {"path": "a", "mode": {"any": True}}
    calls: list[tuple[dict[str, JsonValue], bool, bool]] = [
        ({"path": "a"}, True, True),
        ({"path": "a", "mode": [1]}, True, True),
        ({"mode": "w"}, False, False),
        ({"path": "a", "force": True}, True, False),
        ({"path": "a", "hint.read_only": True}, True, False),
    ]
    for arguments, is_match, is_only in calls:
        assert meets_conditions(when, arguments) is is_match
        assert meets_conditions(when, arguments, only_these=True) is is_only


@pytest.mark.parametrize(
    ("limits", "inside", "outside"),
    [
        ({"min": 1, "max": 3}, [1, 2.5, 3], [0, 3.1, True, "2", [2], None]),
        ({"max": 10}, [-(10**400), 10], [10**400, 10.5, float("nan"), float("-inf"), False]),
        ({"min": 0.5}, [1, 10**400], [0, float("inf"), float("nan"), "1", {"min": 1}]),
    ],
)
def test_number_in_a_range(limits: Any, inside: list[Any], outside: list[Any]) -> None:
    assert [value for value in inside if not is_met(limits, value)] == []
    assert [value for value in outside if is_met(limits, value)] == []


def test_hint_of_a_server_is_no_argument() -> None:
    conditions: list[dict[str, JsonValue]] = [
        {"hint.read_only": True},
        {"hint": {"read_only": True}},
    ]
    for when in conditions:
        claimed: dict[str, JsonValue] = {
            "hint.read_only": True,
            "hint": {"read_only": True},
            "read_only": True,
        }
        assert not meets_conditions(when, claimed)
        assert meets_conditions(when, {}, hints={"read_only": True})
        assert not meets_conditions(when, {}, hints={"read_only": False})


# --- patterns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits", "misfits"),
    [
        ("https://a.org/*", ["https://a.org/", "https://a.org/x?y"], ["https://a.org.evil/", "x"]),
        ("*.csv", [".csv", "a/b.csv", "a\n.csv"], ["a.csv ", "a.CSV", "a.csv.exe"]),
        ("a*b*a", ["aba", "axxbyya"], ["aa", "ab", "aab", "ba"]),
        ("a**a", ["aa", "aba"], ["a"]),
        ("[a]?.txt", ["[a]?.txt"], ["ab.txt", "a.txt"]),
        ("plain", ["plain"], ["plain2", "xplain"]),
    ],
)
def test_pattern_has_only_the_star(pattern: str, fits: list[str], misfits: list[str]) -> None:
    assert [text for text in fits if not is_met(f"glob:{pattern}", text)] == []
    assert [text for text in misfits if is_met({"glob": pattern}, text)] == []
    assert not is_met(f"glob:{pattern}", [fits[0]])


@given(st.lists(st.text(alphabet="ab", max_size=3), min_size=1, max_size=5), st.data())
def test_pattern_matches_each_text_in_place_of_a_star(
    parts: list[str], data: st.DataObject
) -> None:
    gaps = [data.draw(st.text(alphabet="abc", max_size=3)) for _ in parts[1:]]
    text = parts[0] + "".join(gap + part for gap, part in zip(gaps, parts[1:], strict=True))
    pattern = "*".join(parts) or "*"
    assert is_met({"glob": pattern}, text) or (pattern == "*" and not text)


def test_long_texts_take_linear_time() -> None:
    began = time.perf_counter()
    pattern = "glob:" + "*a" * 1000 + "b*c"
    assert not is_met(pattern, "a" * 1_000_000)
    assert not is_met("inside:.", "../" * 300_000)
    assert not is_met("inside:.", "a/" * 300_000)
    assert time.perf_counter() - began < 2


# --- folders -----------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with links to the outside, and a secret next to it."""
    root = tmp_path / "ws"
    (root / "data" / "deep").mkdir(parents=True)
    (root / "data" / "a.txt").write_text("a")
    (tmp_path / "ws-secret").mkdir()
    (tmp_path / "secret.txt").write_text("s")
    (root / "out").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "data" / "up").symlink_to("..")
    (root / "inner").symlink_to("data")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to(tmp_path / "later")
    return root


INSIDE = [
    "a.txt", "data/a.txt", "./data//a.txt", "data/../data/a.txt", ".", "data", "new/dir/x.csv",
    "data/up/data/a.txt", "inner/a.txt", "...", "..a", "a b.txt", "é.txt", "日本.txt",
]  # fmt: skip
OUTSIDE: list[JsonValue] = [
    "", " ", "..", "../ws-secret/x", "../secret.txt", "data/../../secret.txt", "/etc/passwd",
    "out/secret.txt", "out", "file", "dangling", "dangling/x", "loop/../../secret.txt",
    "data/up/../secret.txt", "~", "~/x", "~root/x", "$HOME/x", "${HOME}", "a\0b", "a.txt\n",
    " /etc/passwd", "/etc/passwd ", "file:///etc/passwd", "C:\\x", "..\\secret.txt", "data\\..\\x",
    "\uff0e\uff0e/secret.txt", "a\uff0f..\uff0f..", "\u2024\u2024/x", "\u2025/x", "%2e%2e/x",
    "..%2fsecret.txt", "a\u202etxt", "a\u200b", "x" * 5000, None, 1, True, ["a.txt"],
    {"path": "a.txt"}, "\ud800", "data/../../ws-secret",
]  # fmt: skip


@pytest.mark.parametrize("path", INSIDE)
def test_path_inside_of_the_workspace(workspace: Path, path: str) -> None:
    assert is_met("inside:.", path, workspace)
    assert is_met("inside:.", str(workspace / path), workspace)


@pytest.mark.parametrize("path", OUTSIDE)
def test_doubtful_path_is_not_inside(workspace: Path, path: JsonValue) -> None:
    assert not is_met("inside:.", path, workspace)
    assert not is_met({"inside": str(workspace)}, path, workspace)


def test_folder_of_a_condition(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    rows = [
        ("inside:data", "data/a.txt", True),
        ("inside:data", "database.txt", False),
        ("inside:data", "a.txt", False),
        ("inside:data/", "data", True),
        ("inside:inner", "data/a.txt", True),
        ("inside:new", "new/x", True),
        ("inside:..", "../secret.txt", True),
        ("inside:~/ws", "a.txt", True),
        ("inside:~", "../secret.txt", True),
        ("inside:/", "/etc/passwd", True),
        ("inside:loop", "loop", True),
        ("inside:Data", "data/a.txt", False),
    ]
    for condition, path, expected in rows:
        assert is_met(condition, path, workspace) is expected, (condition, path)


def test_path_is_resolved_in_each_folder_in_which_the_tool_may_run(workspace: Path) -> None:
    when = {"path": "inside:data"}
    elsewhere = workspace.parent
    for path, in_root, in_both in [
        ("data/a.txt", True, False),
        (str(workspace / "data" / "a.txt"), True, True),
        ("../../data/a.txt", False, False),
    ]:
        assert meets_conditions(when, {"path": path}, workspace) is in_root
        assert meets_conditions(when, {"path": path}, workspace, elsewhere) is in_both

    # `data/deep/data/x` is also in the folder.
    assert meets_conditions(when, {"path": "data/x"}, workspace, workspace / "data" / "deep")


@given(st.lists(st.sampled_from(["..", ".", "data", "up", "out", "x", "", "inner"]), max_size=8))
def test_inside_agrees_with_the_file_system(parts: list[str]) -> None:
    root = Path(os.environ["RULES_WORKSPACE"])
    path = "/".join(parts).lstrip("/")
    real = os.path.realpath(root / path)
    if is_met("inside:.", path, root):
        assert Path(real).is_relative_to(root.resolve())


@pytest.fixture(autouse=True, scope="module")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The workspace of the property, for which a fixture of each example is too slow."""
    root = tmp_path_factory.mktemp("rules") / "ws"
    (root / "data").mkdir(parents=True)
    (root / "data" / "up").symlink_to("..")
    (root / "out").symlink_to(root.parent)
    (root / "inner").symlink_to("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULES_WORKSPACE", str(root))
        yield


# --- conditions of the configuration -------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        ["GET"], None, {}, {"min": "1"}, {"max": True}, {"min": float("nan")}, {"inside": 1},
        "inside:", "glob:", {"glob": ""}, {"equals": 1, "min": 1}, {"regex": ".*"}, {"any": False},
        {"one_of": "GET"}, float("inf"),
    ],
)  # fmt: skip
def test_other_conditions_are_errors(condition: Any) -> None:
    with pytest.raises(ValueError, match=r"^x: expected"):
        meets_conditions({"x": condition}, {})


def test_rule_with_too_many_conditions_is_an_error() -> None:
    with pytest.raises(ValueError, match="at most 50 conditions"):
        meets_conditions({str(number): 1 for number in range(51)}, {})
    with pytest.raises(ValueError, match="hint"):
        meets_conditions({"hint.open_world": True}, {})


@given(ARGUMENTS)
def test_conditions_are_written_in_one_line(arguments: dict[str, JsonValue]) -> None:
    assert "\n" not in condition_text.format_conditions(
        argument_rules.make_exact_conditions(arguments)
    )

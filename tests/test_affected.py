"""`python -m tests.affected` names the tests of a change."""

from __future__ import annotations

import pytest

from tests.affected import ALWAYS, find_tests, main, package


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("jp_nb/session/threads/turn_line.py", "tests/session/test_turn_line.py"),
        ("jp_nb/agent/turn.py", "tests/agent/test_turn_commands.py"),  # by its name
        ("jp_nb/toolkit/outcome.py", "tests/agent/test_batch.py"),  # through a helper
        ("tests/support/fake_host.py", "tests/session/test_session.py"),
        ("tests/session/test_ask.py", "tests/session/test_ask.py"),
        ("docs/ci.md", "tests/test_docs.py"),
    ],
)
def test_tests_of_a_change_are_found(changed: str, test: str) -> None:
    assert test in find_tests([changed])


def test_modules_without_a_test_are_few() -> None:
    modules = [name.replace(".", "/") + ".py" for name in package() if name.count(".") > 1]
    without = [each for each in modules if find_tests([each]) == {*ALWAYS}]
    assert len(without) < len(modules) / 20, without


def test_command_names_the_tiers_of_the_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jp_nb/headless/commands/demo.py"]) == 0
    plain, *tiers = capsys.readouterr().out.splitlines()
    assert plain.startswith("pytest tests/headless/test_demo.py ")
    assert tiers == ["pytest -m runners tests/headless/test_demo.py"]

"""`prompt.timeout_s`: the deadline of questions.

Settled otherwise: RPI-44 would take deadlines off in a mode for planning. There is no such mode:
`prompt.timeout_s` alone decides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import jp_nb as jp
from tests.support.sessions import Notebook


@pytest.mark.req("RPI-43")
def test_no_deadline_is_set_by_default(tmp_path: Path) -> None:
    assert Notebook(tmp_path).value("prompt.timeout_s") == 0


@pytest.mark.req("RPI-41")
def test_deadline_is_a_number_of_seconds(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    notebook.jp("config prompt.timeout_s=0.5")
    for wrong in ("-1", "soon"):
        with pytest.raises(jp.ConfigError, match=r"prompt\.timeout_s: expected a number"):
            notebook.jp(f"config prompt.timeout_s={wrong}")
    assert notebook.value("prompt.timeout_s") == 0.5

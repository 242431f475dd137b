"""A request in JupyterLab is shown as tables, also if its text is hostile."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.support.browser import Lab, OpenNotebook
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.page_actions import assert_harmless, load, picture

pytestmark = pytest.mark.browser

HOSTILE = "Which <img src=x onerror='window.pwned=1'> | **city**, $x$ \u202e?"
TOOL = '''
import jp_nb as jp
@jp.tool
def weather(city: str, days: int = 1) -> str:
    """The weather of a city.

    Args:
        city: Where.
        days: How many.
    """
    return f"sun in {city}"
'''


def test_request_is_shown_as_tables(lab: Lab, open_notebook: OpenNotebook) -> None:
    call = Reply(text="Looking.", tool_calls=(ToolCall("weather", {"city": "Delft"}),))
    with LoopbackServer([call, HOSTILE, "And **then**."]) as server:
        config = shlex.join(
            [
                f"providers.llm.llamacpp.base_url={server.url}",
                "assistant.model.id=llamacpp/qwen",
                'assistant.model.parameters:={"temperature": 0.5}',
            ]
        )
        page = open_notebook(
            "%load_ext jp_nb",
            TOOL,
            f"%jp config {config}",
            f"%%jp\n{HOSTILE}",
            "%%jp -c assistant.system_prompt='Be brief.'\nSecond.",
            "%jp request",
            "%jp request --diff 0.1 1",
            "%jp request 0.1 --full",
            "%jp request --curl",
        )
        load(page)
        for cell in (1, 2, 3, 4):
            page.run_cell(cell)
            page.wait_for_kernel_status("idle")
        page.run_cell(5)
        assert "as it was sent" in page.output_text(5, contains="estimated: about")
        cells = page.outputs(5).locator("table td").all_inner_texts()
        assert f"POST {server.url}/v1/chat/completions" in cells
        assert "The weather of a city." in cells
        assert any("<img src=x onerror" in cell for cell in cells)
        picture(page, "request")
        page.run_cell(6)
        difference = page.output_text(6, contains="shared prefix for a prompt cache:")
        assert "Be brief." in difference
        picture(page, "request-diff")
        page.run_cell(7)
        page.output_text(7, contains="How many.")
        page.run_cell(8)
        printed = page.output_text(8, contains="\nEND_OF_BODY")
        body = printed.split("END_OF_BODY'\n", 1)[1].rsplit("\nEND_OF_BODY", 1)[0]
        assert json.loads(body) == server.requests[-1].body
        assert_harmless(page)

"""Replies about the walks of tutorial 09, in place of two models: `small` and `large`."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.support.loopback import Received, Reply, ToolCall

PRICES: Final = {"small": 40, "large": 60}
"""What a guide costs in euros: each model books another one."""
WORDINESS: Final = {"small": 1, "large": 3}
"""How many times the tokens of a short answer a model writes."""


def reply_about_walk(request: Received) -> Reply:
    """Return the next step of a plan: look, then book and publish, then tell what happened."""
    model = str(request.body["model"])
    messages: list[dict[str, Any]] = request.body["messages"]
    results = [str(each["content"]) for each in messages if each["role"] == "tool"]
    tokens = 20 * WORDINESS[model]

    if not results:
        look = ToolCall("places", {"city": _find_city(messages)})
        return Reply(tool_calls=(look,), input_tokens=120, output_tokens=tokens)

    if len(results) == 1:
        plan = f"From {' to '.join(re.findall(r'[A-Z][a-z]+(?: [A-Z]?[a-z]+)*', results[0]))}."
        return Reply(
            text="I book a guide, and publish the plan.",
            tool_calls=(
                ToolCall("book", {"euros": PRICES[model]}),
                ToolCall("publish", {"plan": plan}),
            ),
            input_tokens=180,
            output_tokens=2 * tokens,
        )

    is_done = all(word in results[-1] + results[-2] for word in ("booked", "Published"))
    text = "The plan is not finished: it needs a decision of yours."
    if is_done:
        text = "The guide is booked, and the plan is published."
    return Reply(text=text, input_tokens=260, output_tokens=tokens)


def _find_city(messages: list[dict[str, Any]]) -> str:
    asked = [str(each["content"]) for each in messages if each["role"] == "user"]
    found = re.search(r"through (\w+)", asked[-1])
    assert found is not None
    return found[1]

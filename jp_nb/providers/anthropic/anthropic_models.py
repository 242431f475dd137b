"""The parts of a request that a model of Anthropic accepts.

The server's list of models says it. If it was not requested yet, the version in the name decides:
only models before 4.7 differ, and there will be no new ones. An error 400 corrects the rest.

Source: `docs/providers.md`, https://platform.claude.com/docs/en/api/models/list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from jp_nb.agent.model_info import ModelInfo

EFFORT_LEVELS: Final = ("low", "medium", "high", "xhigh", "max")
_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
"""The version in the name of a model, such as 4 and 6 in `claude-opus-4-6`."""
_LONG_CONTEXT_BETA: Final = "context-1m"
_SHORT_CONTEXT: Final = 200_000  # tokens
MAX_PAGES_SHORT_CONTEXT: Final = 100
"""Maximum number of PDF pages in a request to a model with a context of 200,000 tokens.

Source: https://platform.claude.com/docs/en/build-with-claude/pdf-support
"""
MAX_PAGES_LONG_CONTEXT: Final = 600
"""The same for a model with a larger context."""
_ALWAYS_THINK: Final = re.compile(r"claude-(?:fable|mythos)-")
"""Models that cannot answer without thinking."""
_MODERN_OUTPUT: Final = 32_000  # tokens, which every model since 4.0 can write
_OLD_OUTPUT: Final = 8_192


def find_max_pdf_pages(model: str, listed: ModelInfo | None, betas: str = "") -> int | None:
    """Return the maximum number of PDF pages in a request to `model`; None if it is unknown.

    `listed` is the model as its server describes it, and `betas` the header `anthropic-beta`.
    """
    if "claude-" not in model:  # a compatible server
        return None

    if _LONG_CONTEXT_BETA in betas:
        return MAX_PAGES_LONG_CONTEXT

    if listed is not None and listed.context_window is not None:
        is_short = listed.context_window <= _SHORT_CONTEXT
    else:
        is_short = _parse_version(model) < (4, 6)

    return MAX_PAGES_SHORT_CONTEXT if is_short else MAX_PAGES_LONG_CONTEXT


def _parse_version(model: str) -> tuple[int, int]:
    """Return the version in the name of `model`, such as (4, 6); a high one if it has none."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


@dataclass(frozen=True, slots=True)
class Abilities:
    """The parts of a request that a model accepts.

    Attributes:
        thinking: Accepted values of `thinking.type`: `adaptive` is thinking by effort, `enabled` by
            a number of tokens.
        efforts: Accepted efforts, in ascending order.
        sampling: True if `temperature`, `top_p`, and `top_k` are accepted.
        strict: True if the API can enforce the arguments of tools.
        max_tokens: The length of an answer if the user configures none.
        max_output: The longest answer of the model; None if it is unknown.
        thinks_unasked: True if the model also thinks for a request without `thinking`.
        corrected: The fields of this class that an error of the server has corrected.
    """

    thinking: frozenset[str] = frozenset({"adaptive", "disabled"})
    efforts: tuple[str, ...] = EFFORT_LEVELS
    sampling: bool = False
    strict: bool = True
    max_tokens: int = _MODERN_OUTPUT
    max_output: int | None = None
    thinks_unasked: bool = False
    corrected: frozenset[str] = frozenset()

    @classmethod
    def of(cls, model: str, listed: ModelInfo | None = None) -> Self:
        """Return the abilities of `model`, which its server describes as `listed`."""
        known = cls._from_name(model)
        if listed is None:
            return known

        if listed.thinking is not None:
            # The API does not list sampling. Models with budgets for thinking support it, and so
            # do models without thinking.
            thinking = frozenset(listed.thinking)
            sampling = "enabled" in thinking or not thinking & {"adaptive", "enabled"}
            thinks = known.thinks_unasked and "disabled" not in thinking
            known = replace(known, thinking=thinking, sampling=sampling, thinks_unasked=thinks)

        if listed.efforts is not None:
            efforts = tuple(level for level in EFFORT_LEVELS if level in listed.efforts)
            known = replace(known, efforts=efforts)

        if listed.structured is not None:
            known = replace(known, strict=listed.structured)

        return known.limit_output(listed.max_output)

    @classmethod
    def _from_name(cls, model: str) -> Self:
        """Return the abilities by the version in the name of `model`."""
        if "claude-" not in model:  # a compatible server
            return cls(sampling=True, strict=False, max_tokens=_OLD_OUTPUT)

        if _ALWAYS_THINK.search(model):
            return cls(frozenset({"adaptive"}), thinks_unasked=True)

        version = _parse_version(model)
        if version >= (4, 7):
            return cls()
        if version == (4, 6):
            efforts = tuple(level for level in EFFORT_LEVELS if level != "xhigh")
            return cls(frozenset({"adaptive", "enabled", "disabled"}), efforts, sampling=True)

        thinking = frozenset[str]()
        if version >= (3, 7):
            thinking = frozenset({"enabled", "disabled"})
        max_tokens = _MODERN_OUTPUT if version >= (4, 0) else _OLD_OUTPUT
        return cls(
            thinking,
            efforts=(),
            sampling=True,
            strict=version >= (4, 5),
            max_tokens=max_tokens,
        )

    def limit_output(self, limit: int | None) -> Self:
        """Return the abilities with `limit` as the maximum length of an answer, if it is known."""
        if limit is None:
            return self
        return replace(self, max_output=limit, max_tokens=min(self.max_tokens, limit))

    def find_nearest_effort(self, level: str) -> str | None:
        """Return the highest effort up to `level`, or else the lowest; None if there is none."""
        if not self.efforts:
            return None

        highest = EFFORT_LEVELS.index(level)
        lower = [effort for effort in self.efforts if EFFORT_LEVELS.index(effort) <= highest]
        return lower[-1] if lower else self.efforts[0]

    def correct(self, error: str, sent: Mapping[str, Any]) -> Self:
        """Return the abilities after `error`, a message of status 400 in lower case.

        `sent` are the members of the request. The result is equal to `self` if the message names
        nothing that the request can omit.
        """
        thinking = sent.get("thinking", {}).get("type", "")
        effort = sent.get("output_config", {}).get("effort")

        if limit := re.search(r"max_tokens: (\d{1,9}) > (\d{1,9})", error):
            tokens = max(int(limit[2]), 1)
            return self._correct_once(max_output=tokens, max_tokens=min(self.max_tokens, tokens))

        # The API rejects a forced tool, because the model thinks although it was not asked to.
        if "thinking" in error and "tool_choice" in error:
            return self._correct_once(thinks_unasked=True)

        if "thinking" in error and thinking and re.search(f"{thinking}|budget_tokens", error):
            return self._without_thinking(thinking)

        # The error names the efforts that the model has.
        if "effort" in error and effort:
            named = {*re.findall(r"[a-z]+", error)} - {effort}
            efforts = tuple(level for level in self.efforts if level in named)
            return self._correct_once(efforts=efforts)

        if re.search("temperature|top_p|top_k", error):
            return self._correct_once(sampling=False)
        if re.search("strict|grammar|schema is too complex", error):
            return self._correct_once(strict=False)
        return self

    def _without_thinking(self, rejected: str) -> Self:
        """Return the abilities without the `rejected` value of `thinking.type`."""
        others = self.thinking - {rejected}
        if rejected == "disabled":
            return self._correct_once(thinking=others, thinks_unasked=True)

        # A model that thinks accepts one of the two ways.
        if not others & {"adaptive", "enabled"}:
            others |= {"enabled"} if rejected == "adaptive" else {"adaptive"}
        return self._correct_once(thinking=others)

    def _correct_once(self, **fields: Any) -> Self:
        """Return the abilities with these `fields`; `self` if one of them was corrected before.

        So a server cannot cause endless repairs.
        """
        if self.corrected & fields.keys():
            return self
        changed = replace(self, **fields)
        return self if changed == self else replace(changed, corrected=self.corrected | {*fields})

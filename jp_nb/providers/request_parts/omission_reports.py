"""Tell the user about the parts that a request omits, once in a conversation.

Omitted files of a turn become events, which show a notice in the cell. The log has all others.
"""

from __future__ import annotations

import logging
from typing import Final

from jp_nb.agent.provider import ModelRequest
from jp_nb.agent.provider_events import OmittedFiles

_LOGGER: Final = logging.getLogger(__name__)

Omitted = dict[str, str]
"""The reason for each setting or file that a request does not contain, by its name."""


def omit_parameter(omitted: Omitted, name: str, reason: str) -> None:
    """Add to `omitted` the reason why the model parameter `name` is not sent."""
    omitted.setdefault(f"assistant.model.parameters.{name}", reason)


class OmissionReports:
    """Reports to the user about the requests to one provider. Each is made once in a conversation.

    The *subject* of a report is, for example, the path of a setting, or the name of a file.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._reported: set[tuple[str, str]] = set()  # conversation and subject

    def was_reported(self, request: ModelRequest, subject: str) -> bool:
        """Return True if the user knows about the `subject` in this conversation."""
        return (request.conversation_id, subject) in self._reported

    def mark_reported(self, request: ModelRequest, subject: str) -> bool:
        """Note that the user knows about the `subject`. Return True if this is the first time."""
        is_first = not self.was_reported(request, subject)
        self._reported.add((request.conversation_id, subject))
        return is_first

    def warn_once(self, request: ModelRequest, setting: str, fact: str) -> None:
        """Write a `fact` about a `setting` to the log."""
        if self.mark_reported(request, setting):
            _LOGGER.warning("%s: %s %s", self._provider, setting, fact)

    def log_omissions(self, request: ModelRequest, omitted: Omitted) -> None:
        """Write the omitted parts, each with the reason, to the log."""
        for part, reason in omitted.items():
            self.warn_once(request, part, f"is not sent: {reason}")

    def make_notices(
        self, request: ModelRequest, omitted_files: Omitted, advice: str
    ) -> list[OmittedFiles]:
        """Return an event for each reason to omit files. `advice` is for all of them."""
        names_by_reason: dict[str, list[str]] = {}
        for name, reason in omitted_files.items():
            if self.mark_reported(request, name):
                names_by_reason.setdefault(reason, []).append(name)

        return [
            OmittedFiles(tuple(names), reason, advice) for reason, names in names_by_reason.items()
        ]

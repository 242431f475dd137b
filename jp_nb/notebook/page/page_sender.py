"""Send the messages of the kernel to the pages of a notebook, in its own thread.

The kernel keeps the record in one page, the *followed* one. A page with another path is its
*candidate*: perhaps the same notebook after a rename. It is followed if the followed page does not
answer in time (`followed_page.py`).

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.output_sender import OutputSender
from jp_nb.notebook.page.page_deliveries import PageDeliveries
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.record_comparison import RecordComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSender:
    """Sends each message when it is due. The lock of the link guards all attributes.

    Whoever changes something that must be sent calls `notify_all` of the lock.

    Attributes:
        link: The comm, its lock, and the known pages.
        deliveries: The writes to each page.
        comparison: Has the reason not to write the record, `refusal`: for example, the page is
            read-only.
        outputs: Sends the outputs of running cells to a page that lacks them. It takes the lock.
        follow: Follows another page. It is called with the lock held.
    """

    link: PageLink
    deliveries: PageDeliveries
    comparison: RecordComparison
    outputs: OutputSender
    follow: Callable[[Hello], None]

    def send_until_closed(self) -> None:
        """Send messages until the comm is closed. The lock is released while one is sent.

        Outputs of running cells come first, for a page that lacks them.
        """
        while True:
            with self.link.lock:
                if self.link.is_closed:
                    return

                now = time.monotonic()
                lacking_page = self.link.pages.take_lacking_page()
                message = None if lacking_page else self._take_message(now)
                if lacking_page is None and message is None:
                    self.link.lock.wait(self._find_idle_time(now))
                    continue

            if lacking_page is not None:
                self.outputs.send_outputs(lacking_page)
            elif message is not None:
                self.link.send(message)

    def _take_message(self, now: float) -> JsonObject | None:
        """Return the message to send at the monotonic time `now`, if there is one. Hold the lock.

        Urgent messages come first. While there is a refusal, nothing is written.
        """
        tracker = self.link.pages.followed  # knows the page that is followed now
        if candidate := tracker.find_due_candidate(now):
            self.follow(candidate)  # from now on, `candidate` is the followed page

        if self.link.urgent:
            return self.link.urgent.popleft()
        if self.comparison.refusal:
            return None

        message = self.deliveries.next_message(now)
        delivery = self.deliveries.followed  # the writes to the followed page
        if delivery.is_silent:  # the page did not answer the last write in time
            tracker.is_silent = True
            self.link.lock.notify_all()  # a thread may wait for this page, such as after a cell

        return message

    def _find_idle_time(self, now: float) -> float | None:
        """Return the seconds until there is something to do; None if nothing is planned."""
        due_times = [self.link.pages.followed.candidate_due]
        if not self.comparison.refusal:
            due_times.append(self.deliveries.next_due)

        planned = [due for due in due_times if due is not None]
        return min(planned) - now if planned else None

"""Let a page save the notebook file, because only the page may write it while it is open.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import time

from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.save_requests import SaveAnswer, SaveRequests


class FileSaver:
    """Asks pages to save the file. Any thread may use it, except those that send and receive.

    `requests` gets the answers from the receiving thread. The lock of `link` guards it.
    """

    def __init__(self, link: PageLink, requests: SaveRequests) -> None:
        self._link = link
        self._requests = requests

    def save(self, page: str, ends_at: float) -> SaveAnswer | None:
        """Let `page` or another page save; return None without an answer until `ends_at`.

        `page` is the id of the *followed* page, the only one that writes the record into the
        document (`followed_page.py`). `ends_at` is a monotonic time.
        """
        sent: list[int] = []  # the `seq` of each message that asks to save

        # First only the followed page, for half of the time that is left: two pages that write the
        # file at once can corrupt it. Then all pages. An answer to the first request still counts.
        now = time.monotonic()
        half_time = now + (ends_at - now) / 2
        answer = self._request_save(page, sent, half_time)
        if answer is None:
            answer = self._request_save("", sent, ends_at)

        with self._link.lock:
            self._requests.drop_answers(sent)

        return answer

    def _request_save(self, page: str, sent: list[int], wait_until: float) -> SaveAnswer | None:
        """Ask `page` (all pages if "") to save; return the first answer to a message in `sent`.

        The new message is added to `sent`. Return None if there is no answer until the monotonic
        time `wait_until`.
        """
        link = self._link
        with link.lock:
            message = link.numbering.make_message("save", to=page)
            sent.append(link.numbering.last)
            self._requests.expect_answer(link.numbering.last)

        link.send(message)

        # The lock is a `Condition`, on which the receiving thread wakes this one up.
        with link.lock:
            timeout = wait_until - time.monotonic()
            link.lock.wait_for(lambda: self._requests.find_answer(sent), timeout)
            return self._requests.find_answer(sent)

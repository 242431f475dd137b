"""The thread of ipykernel that publishes output, without its periodic task."""

from __future__ import annotations

from typing import Any

from ipykernel import iostream

_untyped: Any = iostream


class IOPubThreadWithoutTask(_untyped.IOPubThread):  # type: ignore[misc]
    """ipykernel's thread; its own cleanup task would be pending when the thread stops."""

    def _thread_main(self) -> None:
        self.io_loop.start()
        self.io_loop.close(all_fds=True)

"""A new session in a kernel that tests of a module share."""

from __future__ import annotations

from tests.support.kernel_client import FrontEnd

FRESH = """
%unload_ext jp_nb
from jp_nb.notebook.page import page_storage
page_storage.CONSOLE_TIMEOUT_S = 0.0  # no page is there
_shell = get_ipython()
_shell._jp_nb_session.close()
_shell._jp_nb_session = None
%load_ext jp_nb
"""


def fresh_session(user: FrontEnd) -> FrontEnd:
    """Give the kernel a session without conversations and settings; drop earlier messages."""
    user.run(FRESH, cell_id=None)
    user.forget()
    return user

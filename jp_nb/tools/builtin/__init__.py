"""Tools that every conversation has."""

from __future__ import annotations

from jp_nb.tools.base import Tool
from jp_nb.tools.builtin.ask_user import AskUser

BUILTINS: dict[str, Tool] = {"ask_user": AskUser()}
"""Executor by the key of `conversation.tools`."""

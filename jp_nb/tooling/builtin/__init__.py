"""Tools that every conversation has."""

from __future__ import annotations

from jp_nb.tooling.base import Tool
from jp_nb.tooling.builtin.ask_user import AskUser
from jp_nb.tooling.builtin.describe_tools import DescribeTools

BUILTINS: dict[str, Tool] = {"ask_user": AskUser(), "describe_tools": DescribeTools()}
"""Executor by the key of `conversation.tools`."""

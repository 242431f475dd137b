"""Turns: the loop, tool calls, questions, permissions, and the ports to other rooms."""

"""The threads of a session: the cell's, the agent's, and those that wait for their turn."""

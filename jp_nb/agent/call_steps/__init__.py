"""The steps of tool calls: permission, questions, changes, result; alone, or in a batch."""

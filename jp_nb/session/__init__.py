"""One assistant: its conversation, its settings, and what runs its turns. No IPython."""

"""The assistant of one kernel: conversations, settings, and turns. It does not use IPython."""

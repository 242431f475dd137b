"""The running cell: its page, its user, messages while the kernel is busy, and deadlines."""

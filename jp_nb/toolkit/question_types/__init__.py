"""Types of questions: the answers that each accepts, and forms."""

"""The inbox of a batch: answers of the user to the open decisions of its runs."""

"""Sign-in to remote servers."""

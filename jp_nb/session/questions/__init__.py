"""Questions of code in cells, prepared answers, and the question log."""

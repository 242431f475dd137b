"""Texts of turns: while they run, in the log, and beside each other."""

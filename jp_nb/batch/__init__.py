"""Batches: many runs of notebooks, in a pool of processes, with one log, report, and inbox."""

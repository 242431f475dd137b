"""Results of batches: the folder, the log of runs, the report, and open decisions."""

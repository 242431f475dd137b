"""Plans of batches: which notebooks run, with which parameters, in which order."""

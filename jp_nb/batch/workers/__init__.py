"""Workers of batches: processes that execute runs, on this machine or in a Dask cluster."""

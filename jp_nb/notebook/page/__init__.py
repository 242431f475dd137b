"""Storage of the record in the page: find the notebook, deliver entries, read replies."""

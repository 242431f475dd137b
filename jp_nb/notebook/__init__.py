"""Front end for IPython: magics, displays, prompts, and storage in the page."""

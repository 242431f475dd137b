"""Where it runs: magics, displays, prompts and the document."""

"""The tools that a configuration offers to the model, and their sources."""

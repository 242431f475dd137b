"""How the record gets into the notebook."""

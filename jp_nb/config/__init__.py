"""The configuration: its tree, its layers, its assignments."""

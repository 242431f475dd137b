"""The models of the configuration tree, one file for each table."""

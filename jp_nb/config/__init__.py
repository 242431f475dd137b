"""What is configured: the tree, its layers, its assignments."""

"""JSON schemas of arguments, and arguments that fit them."""

"""Recognition of secrets by their names and forms, and texts without them."""

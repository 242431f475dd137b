"""What a model is told about a Python value: text and images, within a budget."""

"""Descriptions of Python values for the model, as text and images within a budget."""

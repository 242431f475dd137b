"""JSON schemas in the forms that the APIs accept."""

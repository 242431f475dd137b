"""Files of journals."""

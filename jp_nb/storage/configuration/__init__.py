"""Files of the configuration and of answers."""

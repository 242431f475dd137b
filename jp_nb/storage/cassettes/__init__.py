"""Files of cassettes."""

"""Files of question logs."""

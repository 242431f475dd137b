"""Settings resolved to models, tools, and attachments."""

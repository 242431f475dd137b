"""Files of the workspace and the user: configuration, attachments, cassettes, keys, trust."""

"""What lies around a notebook: configuration files, attachments, keys, trust in folders."""

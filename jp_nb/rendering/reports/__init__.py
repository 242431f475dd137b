"""Reports of commands: requests, models, tools, usage, compaction."""

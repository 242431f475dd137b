"""Reports of headless runs: their values, and the formats for users and programs."""

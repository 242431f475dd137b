"""Questions of tools: who answers them, and their entries in the record."""

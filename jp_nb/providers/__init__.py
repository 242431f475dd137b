"""Model providers: over HTTP, and the scripted one."""

"""Parts of responses that several APIs share: streams, events, and structured answers."""

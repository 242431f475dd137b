"""Parts of requests that several APIs share: messages, attachments, ids, and their heads."""

"""OpenAI Responses, and Chat Completions of OpenAI and many other servers."""

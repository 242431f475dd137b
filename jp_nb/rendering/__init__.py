"""Text for the user: transcripts, Markdown, prompts, reports. No IPython."""

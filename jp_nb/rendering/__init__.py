"""What a person reads: transcripts, Markdown, prompts in words, reports. No IPython."""

"""Forms of prompts: their pages, fields, and outputs."""

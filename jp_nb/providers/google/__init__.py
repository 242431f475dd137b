"""Gemini: `generateContent`, and the Interactions API."""

"""The browser's fixtures, for these tests."""

from __future__ import annotations

from tests.browser import chromium, lab, open_notebook

__all__ = ["chromium", "lab", "open_notebook"]

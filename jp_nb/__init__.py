"""An assistant's turn loop inside a notebook kernel."""

from __future__ import annotations

__version__ = "0.1.0"

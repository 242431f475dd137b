"""The report of a batch as a page for people: one HTML file that loads nothing.

The page is `report_page.html` with the report of all runs as JSON (`batch_report.py`), compressed
so that 100,000 runs stay a few megabytes. It decompresses them, and shows, sorts, and filters them.
It sets them as text only, never as HTML.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from html import escape
from importlib.resources import files
from typing import Final

from jp_nb.batch.results.report_text import clean_text
from jp_nb.text import pluralize

# Marks in `report_page.html` that are replaced, and its script.
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_DATA: Final = "__DATA__"
_HEADING: Final = "__HEADING__"
_POLICY: Final = "__POLICY__"


def format_page(report: str, name: str, count: int) -> str:
    """Return the JSON `report` as one HTML file without external parts.

    Its heading has the `name` of the folder, and the number of runs.
    """
    page = files(__package__).joinpath("report_page.html").read_text(encoding="utf-8")
    heading = f"{clean_text(name)}: {count:,} {pluralize('run', count)}"
    data = base64.b64encode(zlib.compress(report.encode(), 9)).decode("ascii")

    # The data comes last: it is long, and is not a part of the script that the policy allows.
    page = page.replace(_POLICY, _make_policy(page))
    page = page.replace(_HEADING, escape(heading))
    return page.replace(_DATA, data)


def _make_policy(page: str) -> str:
    """Return the content policy of the page: its own script and styles, and nothing else."""
    script = _SCRIPT.search(page)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"

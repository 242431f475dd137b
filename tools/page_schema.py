"""Write the JSON Schema of the messages between kernel and page, for the lab extension.

`python -m tools.page_schema`, then `npm run messages` in `js/`.
"""

from __future__ import annotations

import json
from pathlib import Path

from jp_nb.notebook.page.message_schema import make_message_schema

SCHEMA = Path(__file__).parents[1] / "js" / "schema" / "messages.json"


def format_schema() -> str:
    """Return the text of the file."""
    return json.dumps(make_message_schema(), indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(format_schema(), encoding="utf-8")

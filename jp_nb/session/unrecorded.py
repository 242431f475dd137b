"""The error for a request that is not on the cassette.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from jp_nb.agent.asked_request import AskedRequest
from jp_nb.agent.nearest_request import nearest
from jp_nb.errors import UnrecordedError
from jp_nb.rendering.request_miss import missed_lines
from jp_nb.workspace.cassette_file import CassetteContent

AGAIN = (
    "Record everything again: `jp-nb run NOTEBOOK --record`, or `%jp cassette "
    "record` in a notebook. Record only the missing requests: `--replay-or-record`, "
    "or `%jp cassette replay-or-record`"
)


def unrecorded(
    asked: AskedRequest, cassette: CassetteContent, used: Collection[int], path: Path
) -> UnrecordedError:
    """Return the error that says how `asked` differs from what `cassette` has.

    Args:
        asked: The request.
        cassette: What there is.
        used: The numbers of the exchanges that have answered already.
        path: Where that is.
    """
    same = [each for each in cassette.exchanges if each.request == asked.id]
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return UnrecordedError(
            f"this request is on the cassette {path.name} {times} (line "
            f"{', '.join(str(each.line) for each in same[:10])}), but was sent more "
            "often. Each recording is used once. Start again with `%jp cassette "
            f"replay`. {AGAIN}"
        )
    unused = [each for each in cassette.exchanges if each.number not in used]
    found = nearest(asked, unused or cassette.exchanges, cassette.parts)
    if found is None:
        return UnrecordedError(f"the cassette {path.name} is empty. {AGAIN}")
    which = "closest unused recording" if unused else "closest recording (all were used)"
    differing = missed_lines(cassette.asked(found), asked)
    by_line = any(line.startswith(("    - ", "    + ")) for line in differing)
    legend = "- on the cassette, + now" if by_line else "on the cassette → now"
    first = (
        f"this request is not on the cassette {path.name}. The {which} is on line "
        f"{found.line}. Differences ({legend}):"
    )
    return UnrecordedError("\n".join([first, *differing, AGAIN]))

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
    "`jp-nb run NOTEBOOK --record` records all of it again, `--replay-or-record` only what is "
    "missing; in a notebook `%jp cassette record` and `%jp cassette replay-or-record`"
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
            f"{', '.join(str(each.line) for each in same[:10])}), and was asked more often: each "
            f"exchange answers once. `%jp cassette replay` begins at its start; {AGAIN}"
        )
    unused = [each for each in cassette.exchanges if each.number not in used]
    found = nearest(asked, unused or cassette.exchanges, cassette.parts)
    if found is None:
        return UnrecordedError(f"the cassette {path.name} is empty: {AGAIN}")
    which = "nearest of those not used yet" if unused else "nearest (all were used)"
    differing = missed_lines(cassette.asked(found), asked)
    by_line = any(line.startswith(("    - ", "    + ")) for line in differing)
    legend = "- on the cassette, + asked now" if by_line else "on the cassette → asked now"
    first = (
        f"this request is not on the cassette {path.name}. The {which} is that of line "
        f"{found.line}, from which it differs ({legend}):"
    )
    return UnrecordedError("\n".join([first, *differing, AGAIN]))

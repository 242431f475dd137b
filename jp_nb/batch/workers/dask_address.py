"""The value of `--dask`: a scheduler, or a local cluster.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jp_nb.errors import UsageError

_LOCAL: Final = "local"


@dataclass(frozen=True, slots=True)
class DaskAddress:
    """The value of `--dask`.

    Attributes:
        scheduler: Address of a scheduler, or path of a scheduler file; "" for a local cluster.
        workers: Number of workers of a local cluster; None for as many as a pool of one machine
            has.
    """

    scheduler: str = ""
    workers: int | None = None


def read_address(text: str) -> DaskAddress:
    """Return the cluster that `--dask TEXT` names.

    Raises:
        UsageError: `text` is neither a local cluster nor a scheduler.
    """
    name, _, count = text.partition(":")
    if name == _LOCAL:
        if not count:
            return DaskAddress()
        if not (count.isascii() and count.isdigit() and 0 < int(count) < 10_000):
            raise UsageError(f"--dask {text}: write `local:N` with a number of workers")
        return DaskAddress(workers=int(count))

    is_file = text.endswith(".json") and Path(text).is_file()
    if not is_file and "://" not in text:
        raise UsageError(
            f"--dask {text}: expected `local`, `local:N`, an address such as "
            "`tcp://scheduler:8786`, or a scheduler file"
        )
    return DaskAddress(text)

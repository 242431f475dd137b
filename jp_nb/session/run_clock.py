"""The clock of a session: the system's, or one that tells the same times in each headless run.

Source: `docs/record.md`, `docs/decisions.md` D119.
"""

from __future__ import annotations

import os

from jp_nb.record.by_position import EARLIEST, position_clock
from jp_nb.record.timestamps import Clock, utc_now
from jp_nb.session.host import Home
from jp_nb.workspace import variables
from jp_nb.workspace.config_files import ConfigFiles


def clock_at(home: Home, files: ConfigFiles) -> Clock:
    """Return what gives entries made at `home` their times, and with them their ids.

    Raises:
        UsageError: If `SOURCE_DATE_EPOCH` is no number of seconds.
    """
    if not home.headless:
        return utc_now
    if epoch := os.environ.get(variables.EPOCH):
        return position_clock(epoch)
    if files.anything() or os.environ.get(variables.OVERRIDES):
        from jp_nb.session.starting_config import is_reproducible

        if is_reproducible(files):
            return EARLIEST
    return utc_now

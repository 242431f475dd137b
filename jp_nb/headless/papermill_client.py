"""Execute a notebook for papermill so that the record is in the notebook.

The kernel gets the path of the notebook. After the run, the record is moved from the state of the
widgets to `metadata.jp`, also if a cell fails or the kernel dies.

papermill registers `JpEngine` (`papermill_engine.py`), which loads this module for a run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine
from papermill.log import logger

from jp_nb.headless.result_writing import INCOMPLETE_RECORD, join_streams, lift_record
from jp_nb.record.documents.carrier import find_unreadable_carriers
from jp_nb.storage import environment as environment_module


class _Client(PapermillNotebookClient):  # type: ignore[misc]  # papermill has no types
    """papermill's client, which moves the record into the notebook's metadata at the end."""

    def execute(self, **options: Any) -> Any:
        unreadable = find_unreadable_carriers(self.nb.metadata)  # of an earlier run
        try:
            return super().execute(**options)
        finally:
            lift_record(self)
            join_streams(self.nb)
            if any(state not in unreadable for state in find_unreadable_carriers(self.nb.metadata)):
                logger.error("jp_nb: %s", INCOMPLETE_RECORD)


class RecordingEngine(NBClientEngine):  # type: ignore[misc]  # papermill has no types
    """Engine of papermill that keeps the record."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        start_timeout: int = 60,
        execution_timeout: int | None = None,
        input_path: str | None = None,
        **options: Any,
    ) -> Any:
        """Execute as `NBClientEngine` does, and keep the record."""
        environment = dict(os.environ)
        if input_path and Path(input_path).is_file():
            environment[environment_module.PATH_VARIABLE] = str(Path(input_path).resolve())
        options["timeout"] = execution_timeout or options.get("timeout")
        options["startup_timeout"] = start_timeout
        client = _Client(nb_man, **options, kernel_name=kernel_name, log=logger)
        return client.execute(env=environment)

"""The user's arguments for a batch, as the log stores them.

`jp-nb run --resume OUT/` repeats the last request in the log of `OUT/`.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from jp_nb.batch.plans.batch_cassettes import (
    RecordingMode,
)


class BatchRequest(BaseModel):
    """The user's arguments for a batch. All paths are absolute, or relative to `cwd`.

    Attributes:
        cwd: The user's folder.
        notebooks: Files, folders, and patterns.
        base: The folder to which the names of notebooks are relative; "" for their common folder.
        common: Parameters of `--params`, which all runs have.
        each: The file of `--each`, with a set of parameters in each line; "" for none.
        given: Parameters of `-p`, which replace those of the same names in `common` and `each`.
        models: The models of `--models`.
        cfg: The arguments of `-c`, such as `assistant.model.id=haiku`.
        strict: True if an open decision makes a run fail.
        continues: True if runs continue the conversations in the notebooks.
        timeout_s: Limit of each cell.
        run_timeout_s: Limit of each run.
        answers: The file of `--answers`; "" to use the answers file of each notebook.
        cassette: Mode of the cassette, such as `replay`; None to send all requests.
        cassette_file: The cassette of all runs; "" to use that of each run or notebook.
        tools: Tools whose results a replay takes from the cassette; "" for the default.
        inputs: Digests of cassette and answers file of each notebook, as they were before the first
            run, by the name of the notebook. Recording does not change the ids of runs.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    cwd: str
    notebooks: tuple[str, ...]
    base: str = ""
    common: dict[str, JsonValue] = {}
    each: str = ""
    given: dict[str, JsonValue] = {}
    models: tuple[str, ...] = ()
    cfg: tuple[str, ...] = ()
    strict: bool = False
    continues: bool = False
    timeout_s: float | None = None
    run_timeout_s: float | None = None
    answers: str = ""
    cassette: RecordingMode | None = None
    cassette_file: str = ""
    tools: str = ""
    inputs: dict[str, tuple[str, str]] = {}

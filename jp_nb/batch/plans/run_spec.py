"""Specification and end of a run: the input and the output of a worker.

`run_plan.py` makes a `RunSpec` of each notebook, parameter set, and model. A pool gives it to a
worker as one JSON object, and the worker gives back one `RunEnd`. Neither contains an API key: the
kernels read keys from the environment of their worker.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from jp_nb.batch.results.run_log_lines import EndedLine


class RunSpec(BaseModel):
    """One run, complete: a worker needs nothing else but its environment.

    Attributes:
        run: The id.
        notebook: Name of the input: its path relative to the common folder of the batch.
        path: Absolute path of the input. The kernel runs in its folder.
        output: Absolute path of the file to write.
        parameters: Values for the cell tagged `parameters`.
        overrides: The settings of `cfg` for the log: values by the path of the setting.
        cfg: Arguments of `-c`, such as `assistant.model.id=haiku`. They include the model of
            `--models`, and the notebook's record stores them.
        settings: Further settings, by path, which the notebook does not store, such as those of a
            cassette.
        recorded_before: Absolute path of the cassette with which a recording begins; "" for none.
        answers: Absolute path of the answers file; "" for none.
        strict: True if an open decision makes the run fail, as with `--strict`.
        continues: True if the run continues the conversation in the notebook.
        timeout_s: Limit of each cell.
        run_timeout_s: Limit of the run.
        limits: The folder with the request limits that all workers share; "" for none.
        digest: Digest of everything that decides the result, see `make_run_digest`.
        notebook_digest: Digest of the input file, which must not change during the batch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    notebook: str
    path: str
    output: str
    parameters: dict[str, JsonValue] = {}
    overrides: dict[str, str] = {}
    cfg: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    recorded_before: str = ""
    answers: str = ""
    strict: bool = False
    continues: bool = False
    timeout_s: float | None = None
    run_timeout_s: float | None = None
    limits: str = ""
    digest: str = ""
    notebook_digest: str = ""


class RunEnd(BaseModel):
    """The end of a run, as a worker reports it.

    `fatal` is why no further run should start, such as a full disk; "" if others may run.
    """

    model_config = ConfigDict(frozen=True)

    line: EndedLine
    fatal: str = ""

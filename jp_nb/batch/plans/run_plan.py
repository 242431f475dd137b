"""The plan of a batch: which notebooks run with which parameters, models, and options.

`BatchRequest` has the user's arguments. It is stored in the log, so that `jp-nb run --resume OUT/`
repeats it without further arguments. `RunPlan` reads the notebooks and parameter files of a
request, checks them before anything runs, and yields a `RunSpec` for each run: notebook × parameter
set × model, in this order. It keeps only the notebooks in memory, and streams the parameter sets.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, JsonValue

from jp_nb.batch.plans.batch_cassettes import (
    RecordingMode,
    check_targets,
    choose_cassette,
    find_recording,
)
from jp_nb.batch.plans.notebook_search import find_common_folder, find_notebooks
from jp_nb.batch.plans.parameter_files import ParameterSet, ParameterSets
from jp_nb.batch.plans.run_spec import RunSpec, make_run_digest, make_run_id
from jp_nb.config.secrets import find_api_keys
from jp_nb.errors import UsageError
from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.headless.files import read_notebook
from jp_nb.headless.parameter_cell import is_parameter_name, list_parameter_names
from jp_nb.storage.cassettes.cassette_file import make_default_cassette_path
from jp_nb.storage.configuration.answers_file import ANSWERS_SUFFIX
from jp_nb.text import one_line

MODEL_SETTING: Final = "assistant.model.id"


class BatchRequest(BaseModel):
    """The user's arguments for a batch. All paths are absolute, or relative to `cwd`.

    Attributes:
        cwd: The user's folder.
        notebooks: Files, folders, and patterns.
        base: The folder to which the names of notebooks are relative; "" for their common folder.
        common: The set of parameters of `--params`.
        each: The file of `--each`, with a set a line; "" for none.
        given: The parameters of `-p`, which have priority.
        models: The models of `--models`.
        cfg: The arguments of `-c`.
        answers: The file of `--answers`; "" to use the answers file of each notebook.
        cassette: Mode of the cassette, such as `replay`; None to send all requests.
        cassette_file: The cassette of all runs; "" to use that of each run or notebook.
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


@dataclass(frozen=True, slots=True)
class PlannedNotebook:
    """A notebook of a batch. `name` is its path relative to the common folder, with slashes.

    Attributes:
        content: Digest of its cells and metadata, without outputs.
        file: Digest of its file.
        inputs: Digests of its cassette and its answers file before the first run.
        parameters: The names that its cell tagged `parameters` assigns; None if any may be right.
    """

    path: Path
    name: str
    content: str
    file: str
    inputs: tuple[str, str]
    parameters: frozenset[str] | None


class RunPlan:
    """All runs of a request. Iterate over it for their specifications, which write to `out`.

    Attributes:
        request: The complete request, with which the batch can be resumed.
        warnings: Warnings for the user, to be shown before the runs.

    Raises:
        UsageError: A notebook, a file of parameters, or a name is wrong. Nothing was run.
    """

    def __init__(self, request: BatchRequest, *, out: Path, limits: str = "") -> None:
        self._out = out
        self._limits = limits
        self.warnings: list[str] = []
        _refuse_secrets(request)

        paths = find_notebooks(request.notebooks, folder=Path(request.cwd), out=out)
        base = Path(request.base) if request.base else find_common_folder(paths)
        self.notebooks = [_plan_notebook(path, base, request.inputs) for path in paths]
        inputs = request.inputs | {each.name: each.inputs for each in self.notebooks}
        self.request = request.model_copy(update={"base": str(base), "inputs": inputs})

        self._sets = ParameterSets(Path(request.cwd, request.each)) if request.each else None
        self._check_names()
        self._check_cassettes()

    @cached_property
    def count(self) -> int:
        """Number of runs. Repeated sets of parameters count."""
        sets = 1 if self._sets is None else sum(1 for _ in self._sets)
        return len(self.notebooks) * sets * max(1, len(self.request.models))

    def __iter__(self) -> Iterator[RunSpec]:
        for notebook in self.notebooks:
            for parameters in self._iterate_sets():
                for model in self.request.models or (None,):
                    yield self._make_spec(notebook, parameters, model)

    def _iterate_sets(self) -> Iterator[ParameterSet]:
        request = self.request
        if self._sets is None:
            yield request.common | request.given
            return
        for each in self._sets:
            yield request.common | each | request.given

    def _make_spec(
        self, notebook: PlannedNotebook, parameters: ParameterSet, model: str | None
    ) -> RunSpec:
        request = self.request
        own_overrides = {} if model is None else {MODEL_SETTING: model}
        overrides = parse_overrides(request.cfg) | own_overrides
        cfg = (*request.cfg, *(f"{name}={value}" for name, value in own_overrides.items()))
        cassette, answers = notebook.inputs

        digest = make_run_digest(
            notebook.name,
            content=notebook.content,
            parameters=parameters,
            overrides=overrides,
            cassette=cassette,
            answers=answers,
        )
        run = make_run_id(notebook.name, parameters, own_overrides, digest)
        return RunSpec(
            run=run,
            notebook=notebook.name,
            path=str(notebook.path),
            output=str(self._out / f"{run}.ipynb"),
            parameters=parameters,
            overrides=overrides,
            cfg=cfg,
            settings=self._make_cassette_settings(notebook.path, run),
            recorded_before=self._find_recorded_before(notebook.path, run),
            answers=self._choose_answers(notebook.path),
            strict=request.strict,
            continues=request.continues,
            timeout_s=request.timeout_s,
            run_timeout_s=request.run_timeout_s,
            limits=self._limits,
            digest=digest,
            notebook_digest=notebook.file,
        )

    def _choose_answers(self, notebook: Path) -> str:
        if self.request.answers:
            return str(Path(self.request.cwd, self.request.answers))
        own = notebook.with_suffix(ANSWERS_SUFFIX)
        return str(own) if own.is_file() else ""

    def _make_cassette_settings(self, notebook: Path, run: str) -> dict[str, str]:
        request = self.request
        if request.cassette is None:
            return {}

        path = choose_cassette(notebook, run, request.cassette_file)
        if request.cassette != "replay":
            path = find_recording(self._out, run)
        settings = {
            "providers.cassette.mode": request.cassette,
            "providers.cassette.path": str(path),
        }
        if request.tools:
            settings["providers.cassette.tools"] = request.tools
        return settings

    def _find_recorded_before(self, notebook: Path, run: str) -> str:
        if self.request.cassette != "replay-or-record":
            return ""
        return str(choose_cassette(notebook, run, self.request.cassette_file))

    def _check_cassettes(self) -> None:
        """Check the options and the targets of recordings, before anything runs."""
        mode = self.request.cassette
        if self.request.tools and mode in (None, "record"):
            raise UsageError(
                "--tools selects where a replay takes tool results from: add `--replay`"
            )
        if mode in ("record", "replay-or-record"):
            check_targets((each.path for each in self.notebooks), self.request.cassette_file)

    def _check_names(self) -> None:
        """Check the names of all parameters against the notebooks, before anything runs."""
        request = self.request
        places = dict.fromkeys(request.common, "--params") | dict.fromkeys(request.given, "-p")
        for name in places:
            if not is_parameter_name(name):
                raise UsageError(f"{one_line(repr(name), limit=80)} is not a name of Python")

        if self._sets is not None:
            for name, number in self._sets.check().items():
                places.setdefault(name, f"line {number} of {self._sets.path.name}")

        unknown = [*self._find_unknown_names(places)]
        if unknown and request.strict:
            raise UsageError("; ".join(unknown))
        self.warnings += unknown

    def _find_unknown_names(self, places: Mapping[str, str]) -> Iterator[str]:
        for notebook in self.notebooks:
            known = notebook.parameters
            if known is None:
                continue
            for name, place in places.items():
                if name not in known:
                    yield _format_unknown_name(notebook.name, name, place, known)


def _format_unknown_name(notebook: str, name: str, place: str, known: frozenset[str]) -> str:
    text = f"{one_line(notebook)} has no parameter {one_line(name, limit=80)} ({place})"
    near = get_close_matches(name, sorted(known), n=1)
    return f"{text}: did you mean {near[0]}?" if near else text


def parse_overrides(cfg: Sequence[str]) -> dict[str, str]:
    """Return the arguments of `-c` as names and values, for the log."""
    pairs = (argument.partition("=") for argument in cfg)
    return {name.rstrip(":"): value for name, _, value in pairs}


def _refuse_secrets(request: BatchRequest) -> None:
    for text in (*request.cfg, *request.models):
        if find_api_keys(text):
            name = one_line(text.partition("=")[0], limit=80)
            raise UsageError(
                f"-c {name} contains an API key, which would be stored in the log: set the "
                "environment variable of the provider instead"
            )


def _plan_notebook(
    path: Path, base: Path, inputs: Mapping[str, tuple[str, str]]
) -> PlannedNotebook:
    name = Path(os.path.relpath(path, base)).as_posix()
    notebook = read_notebook(path)
    files = inputs.get(name)
    if files is None:
        files = (
            digest_file(make_default_cassette_path(path)),
            digest_file(path.with_suffix(ANSWERS_SUFFIX)),
        )
    return PlannedNotebook(
        path,
        name,
        digest_content(notebook),
        digest_file(path),
        files,
        list_parameter_names(notebook),
    )


def digest_content(notebook: Any) -> str:
    """Return the digest of a notebook's cells and metadata, without outputs and counts."""
    cells = [
        {key: cell.get(key) for key in ("cell_type", "source", "metadata", "attachments")}
        for cell in notebook.cells
    ]
    metadata = {key: value for key, value in notebook.metadata.items() if key != "widgets"}
    text = json.dumps([cells, metadata], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a file's bytes; "" if there is no such file."""
    try:
        return hashlib.sha256(read_regular(path, max_bytes=MAX_NOTEBOOK_BYTES)).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc

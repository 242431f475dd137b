"""The plan of a batch: which notebooks run with which parameters, models, and options.

`RunPlan` reads the notebooks and parameter files of a `BatchRequest`, checks them before anything
runs, and yields a `RunSpec` for each run: notebook × parameter set × model, in this order. It keeps
only the notebooks in memory, and streams the parameter sets.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Final

from jp_nb.batch.plans.batch_answers import read_batch_answers
from jp_nb.batch.plans.batch_cassettes import check_targets, choose_cassette, find_recording
from jp_nb.batch.plans.batch_request import BatchRequest
from jp_nb.batch.plans.notebook_search import find_common_folder, find_notebooks
from jp_nb.batch.plans.parameter_checks import ParameterSet
from jp_nb.batch.plans.parameter_files import ParameterSets
from jp_nb.batch.plans.planned_notebook import PlannedNotebook, plan_notebook
from jp_nb.batch.plans.request_check import check_path, check_request
from jp_nb.batch.plans.run_id import make_run_digest, make_run_id
from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.errors import UsageError
from jp_nb.headless.parameter_cell import is_parameter_name
from jp_nb.storage.configuration.answers_content import AnswersFile
from jp_nb.storage.configuration.answers_file import ANSWERS_SUFFIX
from jp_nb.text import one_line

MODEL_SETTING: Final = "assistant.model.id"


class RunPlan:
    """All runs of a request. Iterate over it for their specifications, which write to `out`.

    `limits` is the folder with the request limits that all runs share (`shared_pace.py`); "" for
    none.

    Attributes:
        notebooks: The notebooks, in the order in which they run.
        request: The complete request, with which the batch can be resumed.
        warnings: Warnings for the user, to be shown before the runs.
        answers: The file of `--answers`; None if each notebook uses its own one.

    Raises:
        UsageError: A notebook, a file of parameters, or a name is wrong. Nothing was run.
    """

    def __init__(self, request: BatchRequest, *, out: Path, limits: str = "") -> None:
        self._out = out
        self._limits = limits
        check_request(request, out)

        found = find_notebooks(request.notebooks, folder=Path(request.cwd), out=out)
        paths = found.paths
        self.warnings = found.warnings
        for path in paths:
            check_path(path)

        # The names of notebooks are relative to `base`. Digests of the cassettes and answers files
        # are kept for a resumed batch: the ids of its runs must not change with these files.
        base = Path(request.base) if request.base else find_common_folder(paths)
        self.notebooks = [plan_notebook(path, base, request.inputs) for path in paths]
        inputs = request.inputs | {
            notebook.name: notebook.input_digests for notebook in self.notebooks
        }
        self.request = request.model_copy(update={"base": str(base), "inputs": inputs})

        self._sets = ParameterSets(Path(request.cwd, request.each)) if request.each else None
        self._check_names()
        self._check_cassettes()
        self.answers = self._read_answers()

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
        """Yield the parameters of each run. `-p` replaces values of a set, and both `--params`."""
        common = self.request.common  # of `--params`
        given = self.request.given  # of `-p`
        if self._sets is None:
            yield common | given
            return

        for parameters in self._sets:
            yield common | parameters | given

    def _make_spec(
        self, notebook: PlannedNotebook, parameters: ParameterSet, model: str | None
    ) -> RunSpec:
        """Return the specification of one run; `model` is None without `--models`."""
        request = self.request
        cfg = request.cfg
        overrides = parse_overrides(cfg)
        # Settings of `-c` are the same for all runs, so only the model is in the readable id.
        shown_overrides = {}
        if model is not None:
            shown_overrides = {MODEL_SETTING: model}
            overrides |= shown_overrides
            cfg = (*cfg, f"{MODEL_SETTING}={model}")
        cassette_digest, answers_digest = notebook.input_digests

        digest = make_run_digest(
            notebook.name,
            content=notebook.content_digest,
            parameters=parameters,
            overrides=overrides,
            cassette=cassette_digest,
            answers=answers_digest,
        )
        run = make_run_id(notebook.name, parameters, shown_overrides, digest)
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
            notebook_digest=notebook.file_digest,
        )

    def _choose_answers(self, notebook: Path) -> str:
        """Return the path of `--answers`, or else of the notebook's own answers file; or ""."""
        if self.request.answers:
            return str(Path(self.request.cwd, self.request.answers))
        own = notebook.with_suffix(ANSWERS_SUFFIX)
        return str(own) if own.is_file() else ""

    def _read_answers(self) -> AnswersFile | None:
        """Return the file of `--answers`; None without one.

        Then each notebook may have its own file. All are read, so that errors precede the runs.
        """
        if self.request.answers:
            return read_batch_answers(Path(self.request.cwd, self.request.answers))

        for notebook in self.notebooks:
            own = self._choose_answers(notebook.path)
            if own:
                read_batch_answers(Path(own))

        return None

    def _make_cassette_settings(self, notebook: Path, run: str) -> dict[str, str]:
        """Return the settings of the cassette that the run replays or records; {} for none."""
        request = self.request
        if request.cassette is None:
            return {}

        if request.cassette == "replay":
            path = choose_cassette(notebook, run, request.cassette_file)
        else:
            path = find_recording(self._out, run)
        settings = {
            "providers.cassette.mode": request.cassette,
            "providers.cassette.path": str(path),
        }
        if request.tools:
            settings["providers.cassette.tools"] = request.tools
        return settings

    def _find_recorded_before(self, notebook: Path, run: str) -> str:
        """Return the cassette whose exchanges the run replays before it records further ones."""
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
            paths = [notebook.path for notebook in self.notebooks]
            check_targets(paths, self.request.cassette_file)

    def _check_names(self) -> None:
        """Check the names of all parameters against the notebooks, before anything runs."""
        request = self.request
        # Where each name comes from, for the messages.
        places = dict.fromkeys(request.common, "--params") | dict.fromkeys(request.given, "-p")
        for name in places:
            if not is_parameter_name(name):
                raise UsageError(f"{one_line(repr(name), limit=80)} is not a name of Python")

        if self._sets is not None:
            first_lines = self._sets.check()  # the first line with each name
            for name, number in first_lines.items():
                places.setdefault(name, f"line {number} of {self._sets.path.name}")

        unknown = list(self._find_unknown_names(places))
        if unknown and request.strict:
            raise UsageError("; ".join(unknown))
        self.warnings += unknown

    def _find_unknown_names(self, places: Mapping[str, str]) -> Iterator[str]:
        """Yield a warning for each name that a notebook does not have as a parameter.

        `places` has the place where each name comes from, such as `-p`.
        """
        for notebook in self.notebooks:
            if places and not notebook.has_parameter_cell:
                yield (
                    f"{one_line(notebook.name)} has no cell tagged `parameters`, so the names of "
                    "parameters cannot be checked: tag the cell with their defaults"
                )
                continue
            known = notebook.parameters
            if known is None:  # it may use any parameter
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

"""Read the options of a batch: check them, and make its request.

`jp-nb run --resume OUT/` repeats the request of the last batch in `OUT/`. Options beside `--resume`
replace its parts: `--resume OUT/ --answers OUT/answers.toml` runs the same notebooks with answers.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from jp_nb.batch.plans.batch_request import BatchRequest
from jp_nb.batch.plans.parameter_checks import ParameterSet
from jp_nb.batch.plans.parameter_files import has_set_in_each_line
from jp_nb.batch.plans.parameter_set import read_option, read_set
from jp_nb.batch.results.run_log import LOG_NAME, RunLog
from jp_nb.errors import StorageError, UsageError
from jp_nb.text import one_line

_CASSETTE_MODES: Final = ("record", "replay", "replay-or-record")


def make_request(options: argparse.Namespace, log: RunLog) -> BatchRequest:
    """Return the request that the options make, or that they change in the last one of `log`.

    Raises:
        UsageError: Options are missing, or contradict each other.
    """
    new_fields = _read_given_fields(options)
    earlier = None if options.resume is None else _find_last_request(log)

    if earlier is not None:
        if options.notebooks:  # their names are relative to the folder in which the user is now
            new_fields["cwd"] = os.getcwd()
        return BatchRequest.model_validate(earlier.model_dump() | new_fields)

    if options.notebooks:
        return BatchRequest.model_validate({"cwd": os.getcwd()} | new_fields)
    if options.resume is None:
        raise UsageError("name a notebook, a folder, or a pattern")
    raise UsageError(f"{options.resume / LOG_NAME} names no batch: name the notebooks")


def _find_last_request(log: RunLog) -> BatchRequest | None:
    """Return the request of the last batch in the log; None if the log names none."""
    requests = [batch.plan for batch in log.batches if batch.plan]
    if not requests:
        return None
    try:
        return BatchRequest.model_validate(requests[-1])
    except ValidationError as exc:
        raise StorageError(f"the log has an invalid plan: {exc.errors()[0]['msg']}") from exc


def _read_given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a request that the user gives.

    Fields of options that are not given are absent, so a resumed batch keeps their earlier values.
    """
    common, file_of_sets = _read_files(options)
    fields: dict[str, Any] = {
        "notebooks": tuple(options.notebooks),
        "common": common,
        "each": file_of_sets,
        "given": {name: read_option(name, text) for name, text in options.parameters},
        "models": _read_models(options.models),
        "cfg": tuple(options.cfg),
        "strict": options.strict,
        "continues": options.go_on,
        "timeout_s": options.timeout,
        "run_timeout_s": options.run_timeout,
        "answers": _make_absolute(options.answers),
    }
    for mode in _CASSETTE_MODES:
        file = getattr(options, mode.replace("-", "_"))
        if file is not None:  # `--record` without a file gives ""
            fields["cassette"] = mode
            fields["cassette_file"] = _make_absolute(file)
    if options.tools is not None:
        fields["tools"] = options.tools

    return {name: value for name, value in fields.items() if value}


def _read_files(options: argparse.Namespace) -> tuple[ParameterSet, str]:
    """Return the set of parameters for all runs, and the path of the file with a set for each.

    `--params` names a file of either kind: `--params sets.csv` is the same as `--each sets.csv`.
    """
    params: Path | None = options.params
    if params is None:
        return {}, _make_absolute(options.each)
    if not has_set_in_each_line(params):
        return read_set(params), _make_absolute(options.each)

    if options.each is not None:
        raise UsageError(
            f"{params} has a set of parameters in each line, and so has {options.each}: use "
            "one of them, and JSON, YAML, or TOML for the other"
        )
    return {}, _make_absolute(params)


def _make_absolute(path: Path | str | None) -> str:
    """Return the absolute path of an option; "" without one."""
    return os.path.abspath(path) if path else ""


def _read_models(text: str | None) -> tuple[str, ...]:
    """Return the models of `--models A,B`, each once."""
    if not text:
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--models {text}: write names with commas between them")
    return tuple(dict.fromkeys(names))


def refuse_single_run_options(options: argparse.Namespace) -> None:
    """Refuse options that have no meaning for a batch, or for a batch that is not resumed.

    Raises:
        UsageError: There is such an option. The message says what to use instead.
    """
    if not options.resume and (options.failed or options.rerun):
        raise UsageError("`--failed` and `--rerun` select runs of an earlier batch: add `--resume`")
    if options.json is not None:
        raise UsageError("`--json` reports one run; a batch has `report.json` in its output folder")
    if options.answers_template is not None:
        raise UsageError("`--answers-template` is for one run: answer a batch with `jp-nb inbox`")
    if options.run_inserted:
        raise UsageError("`--run-inserted` is for one run: in a batch, inserted cells do not run")


def read_modules(text: str | None) -> list[str]:
    """Return the modules of `--preload A,B`.

    Raises:
        UsageError: A name is not that of an installed module.
    """
    names = [name.strip() for name in text.split(",")] if text else []

    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"--preload: {one_line(repr(name), limit=80)} is no name of a module")
        if find_spec(name.partition(".")[0]) is None:
            raise UsageError(f"--preload: the module {name} is not installed")
    return names


def find_output_folder(options: argparse.Namespace) -> Path:
    """Return the absolute output folder.

    Raises:
        UsageError: There is none, or it is no folder.
    """
    resumed: Path | None = options.resume
    if resumed is not None and options.out and Path(options.out).resolve() != resumed.resolve():
        raise UsageError("`--resume OUT/` writes to its folder: omit `-o`")

    out = resumed or options.out
    if out is None:
        raise UsageError("runs of a batch need an output folder: add `-o OUT/`")

    path = Path(os.path.abspath(out))
    if path.suffix == ".ipynb" or path.is_file():
        raise UsageError(f"{path.name} is no folder: `-o OUT/` gets a notebook for each run")
    if resumed is not None and not path.is_dir():
        raise UsageError(f"there is no folder {path} to resume")
    return path

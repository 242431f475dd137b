"""Make the request of a batch from the options of the command, or from the log of an earlier batch.

`jp-nb run --resume OUT/` repeats the request of the last batch in `OUT/`. Options beside `--resume`
replace its parts: `--resume OUT/ --answers OUT/answers.toml` runs the same notebooks with answers.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from jp_nb.batch.plans.parameter_files import (
    ParameterSet,
    has_set_in_each_line,
    read_option,
    read_set,
)
from jp_nb.batch.plans.run_plan import BatchRequest
from jp_nb.batch.results.run_log import LOG_NAME, RunLog
from jp_nb.errors import StorageError, UsageError

_MODES: Final = ("record", "replay", "replay-or-record")


def make_request(options: argparse.Namespace, log: RunLog) -> BatchRequest:
    """Return the request that the options make, or that they change in the last one of `log`.

    Raises:
        UsageError: Options are missing, or contradict each other.
    """
    given = _read_options(options)
    if options.resume is None:
        if not options.notebooks:
            raise UsageError("name a notebook, a folder, or a pattern")
        return BatchRequest.model_validate({"cwd": os.getcwd()} | given)

    earlier = _find_last_request(log)
    if earlier is None:
        if not options.notebooks:
            raise UsageError(f"{options.resume / LOG_NAME} names no batch: name the notebooks")
        return BatchRequest.model_validate({"cwd": os.getcwd()} | given)

    if options.notebooks:
        given["cwd"] = os.getcwd()
    return BatchRequest.model_validate(earlier.model_dump() | given)


def _find_last_request(log: RunLog) -> BatchRequest | None:
    plans = [batch.plan for batch in log.batches if batch.plan]
    if not plans:
        return None
    try:
        return BatchRequest.model_validate(plans[-1])
    except ValidationError as exc:
        raise StorageError(f"the log has an invalid plan: {exc.errors()[0]['msg']}") from exc


def _read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a request that the options give."""
    common, each = _read_files(options)
    found: dict[str, Any] = {
        "notebooks": tuple(options.notebooks),
        "common": common,
        "each": each,
        "given": {name: read_option(name, text) for name, text in options.parameters},
        "models": _read_models(options.models),
        "cfg": tuple(options.cfg),
        "strict": options.strict,
        "continues": options.go_on,
        "timeout_s": options.timeout,
        "run_timeout_s": options.run_timeout,
        "answers": _make_absolute(options.answers),
    }
    for mode in _MODES:
        file = getattr(options, mode.replace("-", "_"))
        if file is not None:
            found["cassette"] = mode
            found["cassette_file"] = _make_absolute(file)
    if options.tools is not None:
        found["tools"] = options.tools
    return {name: value for name, value in found.items() if value}


def _read_files(options: argparse.Namespace) -> tuple[ParameterSet, str]:
    """Return the set of `--params`, and the path of the file with many sets."""
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
    return os.path.abspath(path) if path else ""


def _read_models(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--models {text}: write names with commas between them")
    return tuple(dict.fromkeys(names))

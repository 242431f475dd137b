"""Send a run to another machine with its files, and bring back the files that it wrote.

The specification of a run (`run_spec.py`) names files by their paths. A machine that does not share
these folders gets the files' content with the specification, executes the run in a folder of its
own, and returns the notebook that it wrote.

    batch            pack(spec)               the input files, which `RunParcel` takes along
    other machine    unpack(parcel, folder)   writes them, and returns the spec with their paths
                     collect(unpacked spec)   the files that the run wrote
    batch            store(files, spec)       writes them to the paths of the first spec

The files are a mapping of their content by the field of the specification.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jp_nb.batch.plans.run_spec import RunSpec
from jp_nb.errors import UsageError
from jp_nb.file_reading import read_regular
from jp_nb.headless.files import replace_file_at
from jp_nb.storage.shared_pace import RequestLimits

MAX_PARCEL_BYTES: Final = 20_000_000
"""Size limit of all files that travel with a run, and of each file that comes back."""
CASSETTE_SETTING: Final = "providers.cassette.path"
"""Setting of a run with the path of its cassette."""
_MODE_SETTING: Final = "providers.cassette.mode"
_CASSETTE: Final = "cassette"
"""Key of the cassette among the files. It is no field: `CASSETTE_SETTING` has its path."""


@dataclass(frozen=True, slots=True)
class RunParcel:
    """A run, as it travels to the task of a cluster (`dask_task.py`) that executes it.

    Its text form is the id alone: logs of a cluster contain it.

    Attributes:
        spec: The specification, with the paths of the machine that sends it.
        batch: A random text, the same for all runs of a batch.
        probe: A file in the output folder that contains the text `batch`. A machine that can read
            it shares the folder.
        answer_number: Before the run starts, the task asks the batch whether it may
            (`dask_task.py`). The batch puts the answer into the metadata of the cluster, under this
            number. A later run uses the number again.
        limits: The request limits of the batch, which each machine applies to its runs.
        files: Content of the files by the field of the specification; None if the other machine
            shares the folders.
    """

    spec: RunSpec
    batch: str
    probe: str
    answer_number: int = 0
    limits: RequestLimits = field(default_factory=RequestLimits)
    files: Mapping[str, bytes] | None = None

    def __repr__(self) -> str:
        return f"<run {self.spec.run}>"


def pack(spec: RunSpec) -> dict[str, bytes]:
    """Return the files that a run needs, by the field of the specification.

    Raises:
        UsageError: They are too large, or cannot be read.
    """
    found: dict[str, bytes] = {}
    bytes_left = MAX_PARCEL_BYTES
    for name, path in _list_inputs(spec).items():
        if not path or not Path(path).exists():
            continue
        try:
            found[name] = read_regular(Path(path), max_bytes=bytes_left)
        except OSError as exc:
            raise UsageError(
                f"{path} cannot travel to the workers: {exc.strerror or exc}. At most "
                f"{MAX_PARCEL_BYTES:,} bytes travel with a run: put notebooks and output on "
                "storage that all workers share"
            ) from exc
        bytes_left -= len(found[name])
    return found


def _list_inputs(spec: RunSpec) -> dict[str, str]:
    """Return the paths of the files that a run reads, by the field; "" where it reads none.

    A recording may begin with the cassette `recorded_before`.
    """
    inputs = {
        "path": spec.path,
        "answers": spec.answers,
        "recorded_before": spec.recorded_before,
    }
    if spec.settings.get(_MODE_SETTING) == "replay":
        inputs[_CASSETTE] = spec.settings.get(CASSETTE_SETTING, "")
    return inputs


def unpack(parcel: RunParcel, folder: Path) -> RunSpec:
    """Write the files of a run to an empty `folder`, and return the specification for it.

    There, the run writes its output and, if it records, its cassette.
    """
    spec = parcel.spec
    fields: dict[str, Any] = {"output": str(folder / Path(spec.output).name)}
    settings = dict(spec.settings)
    if CASSETTE_SETTING in settings:
        settings[CASSETTE_SETTING] = str(folder / "cassette.jsonl")

    for name, content in (parcel.files or {}).items():
        if name == _CASSETTE:
            Path(settings[CASSETTE_SETTING]).write_bytes(content)
            continue

        path = folder / f"{name}.file"
        if name == "path":  # the notebook keeps its name
            path = folder / "input" / Path(spec.path).name
            path.parent.mkdir()
        path.write_bytes(content)
        fields[name] = str(path)

    return spec.model_copy(update={**fields, "settings": settings})


def collect(spec: RunSpec) -> dict[str, bytes]:
    """Return the files that the run of an unpacked specification wrote.

    Raises:
        OSError: One is too large.
    """
    written = {"output": spec.output}
    if spec.settings.get(_MODE_SETTING) in ("record", "replay-or-record"):
        written[_CASSETTE] = spec.settings[CASSETTE_SETTING]

    paths = {name: Path(path) for name, path in written.items() if Path(path).exists()}
    return {name: read_regular(path, max_bytes=MAX_PARCEL_BYTES) for name, path in paths.items()}


def store(files: Mapping[str, bytes], spec: RunSpec) -> None:
    """Write files that came back to where the specification names them.

    Raises:
        StorageError: A file cannot be written.
    """
    for name, content in files.items():
        path = spec.output if name == "output" else spec.settings[CASSETTE_SETTING]
        replace_file_at(Path(path), content)

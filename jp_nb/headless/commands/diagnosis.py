"""Command `jp-nb doctor`: check versions, front end, kernel, and configuration.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_core.paths import jupyter_path

from jp_nb.config.aliases import resolve_model
from jp_nb.config.layers import merge_layers
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError
from jp_nb.packages import list_versions
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.trust import FolderTrust


class _CheckResult(NamedTuple):
    """The result of one check. `text` says what was found, or how to repair it."""

    works: bool
    text: str


def print_diagnosis(_: argparse.Namespace) -> int:
    """Print one line for each check, and return 1 if one fails. Nothing is sent over a network."""
    results = {
        "versions": _CheckResult(True, ", ".join(list_versions())),
        "front end": _check_lab_extension(),
        "kernel": _check_kernel(),
        "configuration": _check_configuration(),
    }

    width = max(map(len, results))
    for name, result in results.items():
        mark = "✓" if result.works else "✗"
        print(f"{mark} {name:<{width}}  {result.text}")
    return 0 if all(result.works for result in results.values()) else 1


def _check_lab_extension() -> _CheckResult:
    places = [Path(folder) / "jp-nb" / "package.json" for folder in jupyter_path("labextensions")]
    folder = next((place.parent for place in places if place.is_file()), None)
    if folder is not None:
        return _CheckResult(True, f"JupyterLab extension in {folder}")
    install = "`pip install --force-reinstall jp-nb`"
    return _CheckResult(False, f"the JupyterLab extension is not installed: {install}")


def _check_kernel() -> _CheckResult:
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        install = "`python -m ipykernel install --sys-prefix`"
        return _CheckResult(False, f"the kernel python3 is not installed: {install}")
    return _CheckResult(True, f"python3: {' '.join(spec.argv)}")


def _check_configuration() -> _CheckResult:
    """Check the configuration of the current folder, and name the model and the sources."""
    try:
        files = ConfigFiles(Path.cwd(), FolderTrust())
        layers = files.load_layers()
        config = validate_config(merge_layers(layers))
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
    except ConfigError as exc:
        return _CheckResult(False, str(exc))

    sources = ", ".join(layer.name for layer in layers if layer.partial) or "defaults only"
    return _CheckResult(True, "; ".join([f"model {model} ({sources})", *files.notices.take()]))

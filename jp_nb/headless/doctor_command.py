"""`jp-nb doctor`: what works here, and why not.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_core.paths import jupyter_path

from jp_nb.config.layers import fold
from jp_nb.config.model_aliases import resolve_model
from jp_nb.config.validation import validate
from jp_nb.errors import ConfigError
from jp_nb.versions import versions
from jp_nb.workspace.config_files import ConfigFiles
from jp_nb.workspace.folder_trust import FolderTrust


def doctor(_: argparse.Namespace) -> int:
    """Print one line per finding; return 1 if something does not work."""
    findings = list(_examine())
    width = max(len(name) for name, _, _ in findings)
    for name, works, text in findings:
        print(f"{'✓' if works else '✗'} {name:<{width}}  {text}")
    return 0 if all(works for _, works, _ in findings) else 1


def _examine() -> Iterator[tuple[str, bool, str]]:
    """Yield what was looked at, if it works, and what was found. Nothing is sent anywhere."""
    yield "versions", True, ", ".join(versions())
    yield ("front end", *_lab_extension())
    yield ("kernel", *_kernel())
    yield ("configuration", *_configuration())


def _lab_extension() -> tuple[bool, str]:
    places = [Path(p) / "jp-nb" / "package.json" for p in jupyter_path("labextensions")]
    found = next((place.parent for place in places if place.is_file()), None)
    if found is None:
        return (
            False,
            "the JupyterLab extension is not installed: `pip install --force-reinstall jp-nb`",
        )
    return True, f"JupyterLab extension in {found}"


def _kernel() -> tuple[bool, str]:
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return (
            False,
            "the kernel python3 is not installed: `python -m ipykernel install --sys-prefix`",
        )
    return True, f"python3: {' '.join(spec.argv)}"


def _configuration() -> tuple[bool, str]:
    try:
        files = ConfigFiles(Path.cwd(), FolderTrust())
        layers = files.layers()
        config = validate(fold(layers))
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
    except ConfigError as exc:
        return False, str(exc)
    sources = ", ".join(layer.name for layer in layers if layer.partial) or "defaults only"
    return True, "; ".join([f"model {model} ({sources})", *files.take_notices()])

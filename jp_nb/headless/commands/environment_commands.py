"""Commands `jp-nb trust` and `jp-nb doctor`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_core.paths import jupyter_path

from jp_nb.config.aliases import resolve_model
from jp_nb.config.layers import merge_layers
from jp_nb.config.validation import validate_config
from jp_nb.errors import ConfigError, UsageError
from jp_nb.packages import list_versions
from jp_nb.rendering.prompt_texts.consent_text import PENDING_HEAD, list_pending_rows
from jp_nb.rendering.report import make_table
from jp_nb.session.resolution.project_texts import look_at_project
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.storage.trust import FolderTrust, revoke_consent
from jp_nb.text import MAX_PATH_LINE_CHARS, one_line


def trust_folder(options: argparse.Namespace) -> int:
    """List the settings of a folder, ask for consent, and trust them; or revoke the trust."""
    if options.revoke:
        for line in revoke_consent(options.folder.resolve()):
            print(one_line(line, limit=MAX_PATH_LINE_CHARS))
        return 0

    if not options.folder.is_dir():
        raise UsageError(f"there is no folder {options.folder}")

    files = ConfigFiles(options.folder.resolve(), FolderTrust())
    config = validate_config(merge_layers(files.load_layers()))
    look_at_project(config, ProjectFiles(files))
    pending = files.list_pending()
    if not pending:
        for line in files.notices.take():
            print(one_line(line, limit=MAX_PATH_LINE_CHARS))
        print(files.consents.explain_none_pending())
        return 0

    print(make_table(PENDING_HEAD, list_pending_rows(pending), limit=sys.maxsize).text)
    if not options.yes and not _confirm():
        print("nothing changed", file=sys.stderr)
        return 1

    files.consents.store(pending)
    print("these files are trusted now, until their content changes")
    return 0


def _confirm() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("no terminal is available for the question: `--yes` trusts the settings")
    try:
        answer = input("Trust these settings? They may run code and reach hosts. [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return answer.strip().lower() in ("y", "yes")


def print_diagnosis(_: argparse.Namespace) -> int:
    """Print one line for each check, and return 1 if one fails. Nothing is sent over a network."""
    findings = [
        ("versions", True, ", ".join(list_versions())),
        ("front end", *_check_lab_extension()),
        ("kernel", *_check_kernel()),
        ("configuration", *_check_configuration()),
    ]

    width = max(len(name) for name, _, _ in findings)
    for name, works, text in findings:
        mark = "✓" if works else "✗"
        print(f"{mark} {name:<{width}}  {text}")
    return 0 if all(works for _, works, _ in findings) else 1


def _check_lab_extension() -> tuple[bool, str]:
    places = [Path(p) / "jp-nb" / "package.json" for p in jupyter_path("labextensions")]
    folder = next((place.parent for place in places if place.is_file()), None)
    if folder is not None:
        return True, f"JupyterLab extension in {folder}"
    install = "`pip install --force-reinstall jp-nb`"
    return False, f"the JupyterLab extension is not installed: {install}"


def _check_kernel() -> tuple[bool, str]:
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        install = "`python -m ipykernel install --sys-prefix`"
        return False, f"the kernel python3 is not installed: {install}"
    return True, f"python3: {' '.join(spec.argv)}"


def _check_configuration() -> tuple[bool, str]:
    try:
        files = ConfigFiles(Path.cwd(), FolderTrust())
        layers = files.load_layers()
        config = validate_config(merge_layers(layers))
        model = resolve_model(config.assistant.model.id, config.providers.llm.aliases)
    except ConfigError as exc:
        return False, str(exc)

    sources = ", ".join(layer.name for layer in layers if layer.partial) or "defaults only"
    return True, "; ".join([f"model {model} ({sources})", *files.notices.take()])

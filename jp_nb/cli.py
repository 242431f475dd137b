"""`jp-nb`: run, show and try notebooks from a shell.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import jp_nb
from jp_nb.errors import ConfigError, JpNbError, StorageError, UsageError
from jp_nb.versions import versions

INTERRUPTED = 128 + 2
"""The exit code of what SIGINT ended, as shells have it."""

QUICKSTART = "01-quickstart.ipynb"

MAX_LINE = 5000
"""Longest line about a directory, in characters: names and paths may be anybody's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    That is 0 if it is done, 1 if it failed, 2 if it was called wrongly, 130 after Ctrl+C.
    """
    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except KeyboardInterrupt:
        print("jp-nb: interrupted", file=sys.stderr)
        return INTERRUPTED
    except UsageError as exc:
        return _complain(exc, 2)
    except JpNbError as exc:
        return _complain(exc, 1)


def _complain(exc: JpNbError, code: int) -> int:
    from jp_nb.safe_text import plain

    print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jp-nb", description="An assistant's turn loop inside a notebook kernel."
    )
    parser.add_argument("--version", action="version", version=f"jp-nb {jp_nb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="open the quickstart in JupyterLab: offline, no key")
    demo.add_argument("--headless", action="store_true", help="execute it and print what it shows")
    demo.set_defaults(command=_demo)

    run = commands.add_parser("run", help="execute a notebook with nobody there")
    run.add_argument("notebook", type=Path)
    run.add_argument("-o", "--out", type=Path, help="write here instead of in place")
    run.add_argument("--strict", action="store_true", help="fail where a person is needed")
    run.add_argument(
        "--continue", action="store_true", dest="go_on", help="append to its conversation"
    )
    run.add_argument(
        "-c", "--cfg", metavar="X", action="append", default=[], help="configuration of the run"
    )
    run.set_defaults(command=_run)

    show = commands.add_parser("show", help="print the conversation in a notebook")
    show.add_argument("notebook", type=Path)
    show.add_argument("--json", action="store_true", help="as the stored JSON object")
    show.set_defaults(command=_show)

    bring = commands.add_parser("import", help="put a conversation of JP into a notebook")
    bring.add_argument("folder", type=Path, metavar="DIR", help="the conversation's directory")
    bring.add_argument("notebook", type=Path, metavar="NB", help="made if it is not there")
    bring.set_defaults(command=_import)

    export = commands.add_parser("export", help="write a conversation as a directory of JP")
    export.add_argument("notebook", type=Path, metavar="NB")
    export.add_argument("folder", type=Path, metavar="DIR", help="the conversation's directory")
    export.add_argument(
        "--dialect", choices=("native", "jp-head"), default="native", help="jp-head: what JP reads"
    )
    export.add_argument("--conversation", metavar="ID", help="not the active one, but this")
    export.set_defaults(command=_export)

    trust = commands.add_parser("trust", help="let what the files of a folder configure count")
    trust.add_argument("folder", type=Path, metavar="DIR", help="a notebook's folder")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    trust.add_argument("--revoke", action="store_true", help="take that back")
    trust.set_defaults(command=_trust)

    doctor = commands.add_parser("doctor", help="what works here, and why not")
    doctor.set_defaults(command=_doctor)
    return parser


# --- demo ------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    folder = Path(tempfile.mkdtemp(prefix="jp-nb-demo-"))
    notebook = folder / QUICKSTART
    notebook.write_bytes(quickstart())
    why_not = "" if options.headless else _no_page()
    if options.headless or why_not:
        if why_not:
            print(f"{why_not}: the quickstart runs headless.\n")
        return _demo_headless(notebook)
    print(f"Opening {notebook} in JupyterLab; stop it with Ctrl+C.")
    if _is_root():
        print("You are root, which JupyterLab allows with --allow-root alone: that is given here.")
    sys.stdout.flush()
    allowed = ["--allow-root"] if _is_root() else []
    try:
        return subprocess.call([sys.executable, "-m", "jupyterlab", str(notebook), *allowed])
    except KeyboardInterrupt:
        return 0


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def quickstart() -> bytes:
    """The quickstart notebook: from the checkout, or as it ships with the package."""
    checkout = Path(__file__).resolve().parent.parent / "notebooks" / QUICKSTART
    if checkout.is_file():
        return checkout.read_bytes()
    return (resources.files("jp_nb") / "notebooks" / QUICKSTART).read_bytes()


def _no_page() -> str:
    """Why no page can be opened here; "" if one can."""
    if importlib.util.find_spec("jupyterlab") is None:
        return "JupyterLab is not installed (pip install 'jp-nb[demo]')"
    shown = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in shown):
        return "There is no display here"
    return ""


def _demo_headless(notebook: Path) -> int:
    from jp_nb.headless.runner import print_transcript, run_notebook

    result = run_notebook(notebook)
    print_transcript(result.notebook, sys.stdout)
    if result.failure is not None:
        return 1
    shutil.rmtree(notebook.parent)
    return 0


# --- run, show, import, export, doctor -------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    from jp_nb.headless.runner import run_notebook

    result = run_notebook(
        _notebook(options),
        out=options.out,
        strict=options.strict,
        continue_=options.go_on,
        overrides=options.cfg,
    )
    if result.failure is not None:
        from jp_nb.safe_text import plain

        place = "" if result.failure.cell is None else f" in cell {result.failure.cell}"
        message = plain(f"{result.failure.name}{place}: {result.failure.message}")
        print(f"jp-nb: {message}", file=sys.stderr)
        return 1
    return 0


def _show(options: argparse.Namespace) -> int:
    from jp_nb.headless.show import load_conversation
    from jp_nb.record.notices import notices
    from jp_nb.record.turn_view import read_turn
    from jp_nb.rendering.conversation_log import log
    from jp_nb.safe_text import one_line

    document = load_conversation(_notebook(options), tolerant=True)
    stream = document.conversation
    if options.json:
        # In ASCII: what a terminal would act on is escaped, and half a character has no bytes.
        print(json.dumps(document.to_json(), indent=2))
    elif not len(stream) and not document.others:
        raise StorageError(f"{options.notebook} holds no conversation")
    else:
        title = f" · {stream.title}" if stream.title else ""
        print(one_line(f"{stream.id}{title}"))
        print(
            log(document, [read_turn(t.number, t.entries, status="") for t in stream.turns()]).text
        )
    sys.stdout.flush()
    for line in notices(stream):
        print(f"jp-nb: {one_line(line)}", file=sys.stderr)
    return 1 if stream.damage else 0


def _import(options: argparse.Namespace) -> int:
    from jp_nb.headless.import_export import import_directory
    from jp_nb.interop.jp_directories import folder_at
    from jp_nb.safe_text import one_line

    for line in import_directory(folder_at(options.folder, Path()), options.notebook):
        print(one_line(line, limit=MAX_LINE))
    return 0


def _export(options: argparse.Namespace) -> int:
    from jp_nb.headless.import_export import export_directory
    from jp_nb.interop.jp_directories import folder_at
    from jp_nb.safe_text import one_line

    notebook, folder = _notebook(options), folder_at(options.folder, Path())
    dropped, others = export_directory(
        notebook, folder, options.dialect, conversation=options.conversation
    )
    for line in dropped:
        print(one_line(line, limit=MAX_LINE), file=sys.stderr)
    print(one_line(f"{folder} written", limit=MAX_LINE))
    for name in others:
        print(one_line(f"{folder / name} written: not JP's, it came with it", limit=MAX_LINE))
    return 0


def _trust(options: argparse.Namespace) -> int:
    from jp_nb.rendering.report import table
    from jp_nb.safe_text import one_line
    from jp_nb.workspace import folder_trust
    from jp_nb.workspace.config_files import ConfigFiles

    if options.revoke:
        for line in folder_trust.revoked(options.folder.resolve()):
            print(one_line(line, limit=MAX_LINE))
        return 0
    if not options.folder.is_dir():
        raise UsageError(f"there is no folder {options.folder}")
    files = ConfigFiles(options.folder.resolve(), folder_trust.FolderTrust())
    pending = files.pending()
    for line in files.take_notices() if not pending else ():
        print(one_line(line, limit=MAX_LINE))
    if not pending:
        print(files.why_nothing_waits())
        return 0
    print(table(folder_trust.HEAD, folder_trust.rows(pending), limit=sys.maxsize).text)
    if not options.yes and not _agrees():
        print("nothing changed", file=sys.stderr)
        return 1
    files.agree(pending)
    print("this counts from here on, until the content of these files changes")
    return 0


def _agrees() -> bool:
    """Ask the person at the terminal."""
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: --yes agrees to what is listed")
    try:
        answer = input("Does this count from here on? It may run code, reach hosts. [y/N] ")
    except (EOFError, KeyboardInterrupt):
        return False
    return answer.strip().lower() in ("y", "yes")


def _notebook(options: argparse.Namespace) -> Path:
    """The notebook that is there."""
    path: Path = options.notebook
    if not os.path.isfile(path):
        raise UsageError(f"there is no notebook {path}")
    return path


def _doctor(options: argparse.Namespace) -> int:
    findings = list(_examine())
    width = max(len(name) for name, _, _ in findings)
    for name, works, text in findings:
        print(f"{'✓' if works else '✗'} {name:<{width}}  {text}")
    return 0 if all(works for _, works, _ in findings) else 1


def _examine() -> Iterator[tuple[str, bool, str]]:
    """What was looked at, whether it works, and what was found. Nothing is sent anywhere."""
    yield "versions", True, ", ".join(versions())
    yield ("page", *_lab_extension())
    yield ("kernel", *_kernel())
    yield ("configuration", *_configuration())


def _lab_extension() -> tuple[bool, str]:
    from jupyter_core.paths import jupyter_path

    places = [Path(p) / "jp-nb" / "package.json" for p in jupyter_path("labextensions")]
    found = next((place.parent for place in places if place.is_file()), None)
    if found is None:
        return False, "the lab extension is not installed: pip install --force-reinstall jp-nb"
    return True, f"lab extension in {found}"


def _kernel() -> tuple[bool, str]:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return False, "there is no kernel python3: python -m ipykernel install --sys-prefix"
    return True, f"python3: {' '.join(spec.argv)}"


def _configuration() -> tuple[bool, str]:
    from jp_nb.config.layers import fold
    from jp_nb.config.model_aliases import resolve
    from jp_nb.config.validation import validate
    from jp_nb.workspace.config_files import ConfigFiles
    from jp_nb.workspace.folder_trust import FolderTrust

    try:
        files = ConfigFiles(Path.cwd(), FolderTrust())
        layers = files.layers()
        config = validate(fold(layers))
        model = resolve(config.assistant.model.id, config.providers.llm.aliases)
    except ConfigError as exc:
        return False, str(exc)
    sources = ", ".join(layer.name for layer in layers if layer.partial) or "defaults alone"
    return True, "; ".join([f"model {model} ({sources})", *files.take_notices()])


if __name__ == "__main__":
    sys.exit(main())

"""Run the tests of prompts against several versions of ipykernel.

    python tools/ipykernel_matrix.py [--home DIR] [VERSION ...]

Each version gets an environment below DIR, created on first use, with the other packages of this
environment. The tests run in this environment, and their kernel in the other one. Without VERSION,
all supported versions are tested, except the version of this environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
TESTS = PROJECT / "tests" / "notebook" / "prompt" / "test_kernel.py"
VERSIONS = ("6.29.5", "6.31.0", "7.0.1", "7.3.0", "7.4.0")


def kernel_python(home: Path, version: str) -> Path:
    """Return the Python of an environment with this ipykernel and the packages of this one."""
    folder = home / version
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True)  # no pip in it: the one that runs this installs there
        scheme = {"base": str(folder), "platbase": str(folder)}
        packages = Path(sysconfig.get_path("purelib", "venv", scheme))
        here = sysconfig.get_path("purelib")
        (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        install(python, f"ipykernel=={version}")  # into it alone: pip changes no other environment
        ready.touch()
    return python


def install(python: Path, *arguments: str) -> None:
    """Install into the environment of `python`, with one retry for failures of the registry.

    Raises:
        CalledProcessError: If it failed. pip has printed the reason.
    """
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    command = [*pip, "--quiet", "--disable-pip-version-check", *arguments]
    if subprocess.run(command).returncode:
        subprocess.run(command, check=True)


def run(python: Path) -> tuple[bool, str]:
    """Return True if the tests pass with kernels of `python`, and pytest's last line."""
    environment = {**os.environ, "JP_NB_KERNEL_PYTHON": str(python)}
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "kernel or not kernel", str(TESTS)]  # of every tier
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    return done.returncode == 0, done.stdout.strip().splitlines()[-1]


def main() -> int:
    """Print one line for each version. Return 1 if the tests fail with one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(tempfile.gettempdir()) / "jp-nb-kernels"
    parser.add_argument("--home", type=Path, default=default)
    others = [each for each in VERSIONS if each != metadata.version("ipykernel")]
    parser.add_argument("versions", nargs="*", default=others)
    options = parser.parse_args()
    ok = True
    with ThreadPoolExecutor(2) as pool:  # the next ones are made while this one is tested
        for python in pool.map(partial(kernel_python, options.home), options.versions):
            show = [str(python), "-c", "import ipykernel; print(ipykernel.__version__)"]
            exact = subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip()
            passed, summary = run(python)
            ok &= passed
            print(f"ipykernel {exact:8} {'ok    ' if passed else 'FAILED'} {summary}", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

"""Benchmark `%load_ext jp_nb` without configuration, and with a `.jp/config.toml`.

    python -m bench.load_ext [CHECKOUT …]

Each figure is a median over fresh processes that have loaded IPython. The variants alternate, so
that a busy machine slows all of them equally. Other checkouts are measured in the same rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 11
CONFIGURED = """\
[assistant.model]
id = "scripted/welcome"

[conversation.tools.greet]
source = "local"
command = "true"
enable = true
"""
LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
import ipykernel.ipkernel
shell = InteractiveShell.instance()
start = time.process_time()
shell.run_line_magic("load_ext", "jp_nb")
print("seconds", time.process_time() - start)
"""


def seconds(checkout: Path, folder: Path) -> float:
    """Load the extension of `checkout` in a fresh process that works in `folder`."""
    home = tempfile.mkdtemp(dir=folder.parent)
    env = {**os.environ, "PYTHONPATH": str(checkout), "HOME": home, "IPYTHONDIR": home}
    passed_over = ("JP_", "XDG_", "PYTHONDONTWRITEBYTECODE")
    env = {name: value for name, value in env.items() if not name.startswith(passed_over)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=env,
    )
    return float(done.stdout.rsplit("seconds", 1)[1])


def main(*checkouts: str) -> None:
    """Print a line for each checkout: milliseconds plain and configured, and their ratio."""
    roots = [Path(each).resolve() for each in checkouts or (".",)]
    with tempfile.TemporaryDirectory() as temporary:
        plain = Path(temporary, "plain")
        configured = Path(temporary, "configured")
        plain.mkdir()
        (configured / ".jp").mkdir(parents=True)
        (configured / ".jp" / "config.toml").write_text(CONFIGURED)
        taken = {(root, folder): list[float]() for root in roots for folder in (plain, configured)}
        for run in range(RUNS + 1):
            for (root, folder), found in taken.items():
                took = seconds(root, folder)
                if run:  # the first run compiles the modules
                    found.append(took)
        for root in roots:
            one, other = (
                statistics.median(taken[root, folder]) * 1e3 for folder in (plain, configured)
            )
            print(
                f"{root.name:<24} plain {one:6.1f} ms   configured {other:6.1f} ms"
                f"   {other / one:5.2f}x"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])

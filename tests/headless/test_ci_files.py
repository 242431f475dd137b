"""The workflow and the pre-commit hooks for other repositories run as documented."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from jp_nb.headless.runner import run_notebook
from tests.headless.reported_notebook import LOAD, PLAN, TALK, write_walk

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github/workflows/notebooks.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
PAGE = ROOT / "docs/ci.md"
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
KEY = "ghp_" + "a1" * 18


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a notebook that was recorded on its cassette."""
    folder = tmp_path_factory.mktemp("recorded")
    path = write_walk(folder, LOAD, PLAN, script=TALK)
    assert run_notebook(path, settings={"providers.cassette.mode": "record"}).ok
    (folder / "walk.toml").unlink()
    return folder


@pytest.fixture
def repository(recorded: Path, tmp_path: Path) -> Path:
    """A repository with that folder as `notebooks`."""
    shutil.copytree(recorded, tmp_path / "notebooks")
    return tmp_path


def shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `command` as a workflow does, with the programs of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


# --- the workflow ----------------------------------------------------------------------------


def workflow() -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of the workflow, and its job."""
    read_ = read(WORKFLOW)
    called = read_[True]["workflow_call"]  # to YAML 1.1, `on` is true
    return called["inputs"], read_["jobs"]["notebooks"]


def variables(**given: str) -> dict[str, str]:
    """The environment of the job's steps, with the inputs `given`."""
    inputs, job = workflow()
    values = {name: str(each["default"]) for name, each in inputs.items()} | given
    return {name: INPUT.sub(lambda at: values[at[1]], text) for name, text in job["env"].items()}


def step(name: str) -> dict[str, Any]:
    return next(each for each in workflow()[1]["steps"] if each.get("name") == name)


@pytest.mark.runners
def test_workflow_checks_and_runs_notebooks(repository: Path) -> None:
    checked = shell(step("Check")["run"], repository, **variables())
    assert (checked.returncode, checked.stdout) == (0, "2 files checked: no problems found\n")
    ran = shell(step("Run")["run"], repository, **variables(options="--jp-strict"))
    assert ran.returncode == 0, ran.stdout
    report = step("Keep the report")["with"]["path"]
    suite = ElementTree.parse(repository / report).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


@pytest.mark.deep
@pytest.mark.runners
def test_failing_notebook_fails_the_workflow_which_keeps_the_report(repository: Path) -> None:
    write_walk(repository / "notebooks", LOAD, PLAN.replace("walk.", "swim."))
    assert shell(step("Check")["run"], repository, **variables()).returncode == 1
    assert shell(step("Run")["run"], repository, **variables()).returncode == 1
    kept = step("Keep the report")
    assert kept["if"] == "always()"
    assert (repository / kept["with"]["path"]).is_file()


@pytest.mark.deep
@pytest.mark.runners
def test_input_paths_are_split_and_not_run_as_shell_code(repository: Path) -> None:
    shutil.copytree(repository / "notebooks", repository / "more")
    checked = shell(step("Check")["run"], repository, **variables(paths="notebooks more"))
    assert checked.stdout == "4 files checked: no problems found\n"
    planted = "notebooks;touch${IFS}planted $(touch${IFS}planted)"
    for name in ("Check", "Run"):
        shell(step(name)["run"], repository, **variables(paths=planted))
    assert not (repository / "planted").exists()


def test_inputs_reach_commands_only_as_environment_variables() -> None:
    inputs, job = workflow()
    for each in job["steps"]:
        assert "${{" not in each.get("run", "")
    used = INPUT.findall(WORKFLOW.read_text(encoding="utf-8"))
    assert sorted(used) == sorted(inputs)
    commands = "\n".join(each.get("run", "") for each in job["steps"])
    for name in job["env"]:
        assert f"${name}" in commands
    assert read(WORKFLOW)["permissions"] == {"contents": "read"}


# --- hooks of pre-commit -----------------------------------------------------------------------


def hook(identifier: str) -> dict[str, Any]:
    return next(each for each in read(HOOKS) if each["id"] == identifier)


def run_hook(identifier: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a hook as pre-commit does: on the files whose names match."""
    found = hook(identifier)
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    matching = [name for name in names if re.search(found["files"], name)]
    return shell(f"{found['entry']} {shlex.join(matching)}", folder)


@pytest.mark.runners
def test_hook_for_checks_finds_a_key(repository: Path) -> None:
    assert run_hook("jp-nb-check", repository).returncode == 0
    path = repository / "notebooks" / "walk.ipynb"
    path.write_text(path.read_text().replace("# A walk", f"# A walk with {KEY}"))
    done = run_hook("jp-nb-check", repository)
    assert done.returncode == 1
    assert "notebooks/walk.ipynb: cells[0].source: contains a possible API key" in done.stdout
    assert KEY not in done.stdout


@pytest.mark.runners
def test_hook_for_stripping_keeps_the_cells(repository: Path) -> None:
    path = repository / "notebooks" / "walk.ipynb"
    assert '"jp": {' in path.read_text()
    assert run_hook("jp-nb-strip", repository).returncode == 0
    assert '"jp": {' not in path.read_text()
    assert "Plan a walk." in path.read_text()
    stripped = path.read_bytes()
    assert run_hook("jp-nb-strip", repository).returncode == 0
    assert path.read_bytes() == stripped


# --- the page --------------------------------------------------------------------------------


def examples() -> list[Any]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return [yaml.safe_load(block) for block in blocks]


def test_documented_inputs_and_hooks_exist() -> None:
    called: dict[str, str] = {}
    hooks: set[str] = set()
    for example in examples():
        for job in example.get("jobs", {}).values():
            called |= job["with"]
            assert job["uses"].split("@")[0].endswith(WORKFLOW.relative_to(ROOT).as_posix())
        for source in example.get("repos", ()):
            hooks |= {each["id"] for each in source["hooks"]}
    assert called
    assert set(called) <= set(workflow()[0])
    assert hooks == {each["id"] for each in read(HOOKS)}

"""Settings of a server become the command or the address when it starts."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.servers import McpServer

PYTHON = sys.executable
SECRET = "hunter2-hunter2"


def resolve(
    folder: Path,
    settings: Mapping[str, Any],
    *,
    inputs: Mapping[str, str] | None = None,
    **environ: str,
) -> Any:
    """Return the launch of the server `books` in the workspace `folder`."""
    return McpServer(settings).launch(folder, environ, inputs)


def resolve_stdio(folder: Path, settings: Mapping[str, Any], **environ: Any) -> Any:
    launch = resolve(folder, {"command": PYTHON, **settings}, **environ)
    assert is_kind(launch, "stdio_launch")
    return launch


def resolve_http(folder: Path, settings: Mapping[str, Any], **environ: Any) -> Any:
    launch = resolve(folder, {"url": "https://books.example/mcp", **settings}, **environ)
    assert is_kind(launch, "http_launch")
    return launch


def find_problem(folder: Path, settings: Mapping[str, Any], **environ: Any) -> jp.ConfigError:
    """Return the error of a server that cannot be resolved."""
    with pytest.raises(jp.ConfigError) as caught:
        resolve(folder, settings, **environ)
    assert SECRET not in str(caught.value)
    return caught.value


# --- references --------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-66")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${TOKEN}", SECRET),
        ("${env:TOKEN}", SECRET),
        ("Bearer ${TOKEN}!", f"Bearer {SECRET}!"),
        ("${UNSET:-x}", "x"),
        ("${env:UNSET:-x y:-z}", "x y:-z"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${UNSET:-}", ""),
        ("${TOKEN:-x}", SECRET),
        ("${userHome}/books", "/home/jane/books"),
        ("${TOKEN}${TOKEN}", SECRET * 2),
        ("$${TOKEN}", "${TOKEN}"),
        ("$TOKEN $5 {TOKEN} $(x)", "$TOKEN $5 {TOKEN} $(x)"),
        ("${NESTED}", "${TOKEN}"),
    ],
)
def test_references_are_replaced_in_each_setting(tmp_path: Path, text: str, value: str) -> None:
    environ = {"TOKEN": SECRET, "EMPTY": "", "NESTED": "${TOKEN}"}
    local = resolve_stdio(tmp_path, {"arguments": ["-x", text], "env": {"A": text}}, **environ)
    assert local.arguments == ("-x", value)
    assert local.environment == {"A": value}

    remote = resolve_http(tmp_path, {"headers": {"A": text}}, **environ)
    assert remote.headers == {"A": value}


@pytest.mark.req("R-MCP-66")
def test_folders_are_replaced_in_command_and_folder(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    program = tmp_path / "tools" / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for command in ("${workspaceFolder}/tools/serve", "tools/serve", "./tools/serve"):
        launch = resolve_stdio(tmp_path, {"command": command})
        assert (launch.command, launch.folder) == (str(program), tmp_path)

    launch = resolve_stdio(tmp_path, {"cwd": "${workspaceFolder}/tools", "env": {}})
    assert launch.folder == tmp_path / "tools"


@pytest.mark.req("R-MCP-66")
@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"command": "${UNSET}"}, "command"),
        ({"command": PYTHON, "arguments": ["a", "${UNSET}"]}, "arguments.1"),
        ({"command": PYTHON, "env": {"A": "${env:UNSET}"}}, "env.A"),
        ({"command": PYTHON, "cwd": "${UNSET}/x"}, "cwd"),
        ({"command": PYTHON, "env_file": "${UNSET}"}, "env_file"),
        ({"url": "https://${UNSET}/mcp"}, "url"),
        ({"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${UNSET}"}},
         "headers.Authorization"),
    ],
)  # fmt: skip
def test_unset_variable_is_an_error_that_names_it(
    tmp_path: Path, settings: dict[str, Any], path: str
) -> None:
    error = find_problem(tmp_path, settings, TOKEN=SECRET)
    assert error.path == f"providers.mcp.books.{path}"
    assert "UNSET is not set" in str(error)
    assert "${UNSET:-value}" in str(error)


@pytest.mark.parametrize("text", ["${", "${}", "${a b}", "${command:x}", "${A:-${B}}", "${A-x}"])
def test_unknown_reference_is_an_error_with_the_known_forms(tmp_path: Path, text: str) -> None:
    error = find_problem(tmp_path, {"command": PYTHON, "env": {"A": text}}, A="1", B="2")
    assert error.path == "providers.mcp.books.env.A"
    assert "`${input:ID}`" in str(error)


@pytest.mark.req("R-MCP-66")
def test_input_is_the_answer_of_the_user_and_a_secret(tmp_path: Path) -> None:
    settings = {
        "command": PYTHON,
        "env": {"A": "${input:api_key}", "B": "${input:other-1}"},
        "inputs": {"api_key": "Key of the library"},
    }
    inputs, _ = McpServer(settings).needs({})
    assert inputs == {"api_key": "Key of the library", "other-1": "other-1"}

    answers = {"api_key": SECRET, "other-1": "${TOKEN}"}
    launch = resolve_stdio(tmp_path, settings, inputs=answers)
    assert launch.environment == {"A": SECRET, "B": "${TOKEN}"}
    assert SECRET not in launch.hide(f"it was {SECRET}")

    error = find_problem(tmp_path, settings)
    assert "no user is available" in str(error)


# --- the environment ---------------------------------------------------------------------------


@pytest.mark.req("R-MCP-67")
def test_server_gets_only_the_configured_variables(tmp_path: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET, "BOOKS": "1", "HOME": "/x"}
    server = {"variables": ["BOOKS", "MISSING"], "env": {"LEVEL": "debug"}}
    assert resolve_stdio(tmp_path, server, **environ).environment == {
        "BOOKS": "1",
        "LEVEL": "debug",
    }
    named = {"env": {"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"}}
    assert resolve_stdio(tmp_path, named, **environ).environment == {"ANTHROPIC_API_KEY": SECRET}

    _, missing = McpServer(server).needs(environ)
    assert missing == ["MISSING"]


def test_variables_of_a_file_are_between_those_of_the_kernel_and_the_table(tmp_path: Path) -> None:
    (tmp_path / "books.env").write_text(
        "\ufeff# comment\n\nexport A=1\nB = 'x # \\n' \nC=\"a\\nb\"\nD=x # comment\nE=\nF=a=b#c\n"
    )
    settings = {"variables": ["A", "G"], "env_file": "books.env", "env": {"D": "table"}}
    assert resolve_stdio(tmp_path, settings, A="kernel", G="kernel").environment == {
        "A": "1",
        "B": "x # \\n",
        "C": "a\nb",
        "D": "table",
        "E": "",
        "F": "a=b#c",
        "G": "kernel",
    }


VALUES = st.text(alphabet="ab1 \"'#\\\\\n\t=$", max_size=8)
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})
SPACES = st.text(alphabet=" \t", max_size=2)
COMMENTS = st.none() | st.text(alphabet="ab \"'#\\\\=", max_size=8)


def list_spellings(value: str) -> list[str]:
    """Return the ways to write a value in a file of variables."""
    escaped = value.translate(ESCAPES)
    spellings = [f'"{escaped}"']
    if "'" not in value and "\n" not in value:
        spellings.append(f"'{value}'")
    if value == value.strip() and not re.search(r"^[\"'#]|\s#|\n", value):
        spellings.append(value)
    return spellings


@given(VALUES, st.sampled_from(["", "export ", " export\t"]), SPACES, SPACES, SPACES, COMMENTS)
def test_value_in_a_file_of_variables_is_independent_of_its_spelling(
    value: str, export: str, before: str, after: str, end: str, comment: str | None
) -> None:
    for spelling in list_spellings(value):
        rest = end if comment is None else f"{end} #{comment}"
        line = f"{export}A{before}={after}{spelling}{rest}"
        with TemporaryDirectory() as folder:
            Path(folder, ".env").write_text(f"{line}\n")
            launch = resolve_stdio(Path(folder), {"env_file": ".env"})
        assert launch.environment == {"A": value}, line


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('export A="value"  # comment', "value"),
        ("A='value' # it's 'quoted'", "value"),
        ('A="value"#comment', "value"),
        ("A=#fff", "#fff"),
        ("A= # comment", ""),
        ('A="{"a": 1}" # quotes without escapes', '{"a": 1}'),
        ('A="C:\\dir\\"', "C:\\dir\\"),
        ("A='it's'", "it's"),
        ('A="open', '"open'),
    ],
)
def test_quotes_and_comments_in_a_file_of_variables(tmp_path: Path, line: str, value: str) -> None:
    (tmp_path / ".env").write_text(f"{line}\n")
    assert resolve_stdio(tmp_path, {"env_file": ".env"}).environment == {"A": value}


@pytest.mark.req("R-MCP-70")
@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "pythonpath"])
def test_file_cannot_change_the_loaded_code_unless_the_table_does(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / ".env").write_text(f"A=1\n{name}=/tmp/evil\n")
    settings: dict[str, Any] = {"command": PYTHON, "env_file": ".env"}
    error = find_problem(tmp_path, settings)
    assert error.path == "providers.mcp.books.env_file"
    assert f"sets {name}, which changes the code that a program loads" in str(error)

    launch = resolve_stdio(tmp_path, {**settings, "env": {name: "/usr/bin"}})
    assert launch.environment == {"A": "1", name: "/usr/bin"}


def test_unreadable_file_of_variables_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"A=\xff\n")
    (tmp_path / "text").write_text(f"A=1\n{SECRET}\n")
    (tmp_path / "long").write_text("A=1\n" * 300_000)
    for name in ("pipe", "binary", "text", "long", "missing", ".", "a\0b"):
        error = find_problem(tmp_path, {"command": PYTHON, "env_file": name})
        assert error.path == "providers.mcp.books.env_file"


# --- the program -------------------------------------------------------------------------------


def test_program_is_found_on_the_path_of_the_server(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        program = tmp_path / folder / "serve"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    settings = {"command": "serve"}
    launch = resolve_stdio(tmp_path, settings, PATH=str(tmp_path / "one"))
    assert launch.command == str(tmp_path / "one" / "serve")

    with_path = {"command": "serve", "env": {"PATH": "${workspaceFolder}/two"}}
    launch = resolve_stdio(tmp_path, with_path, PATH=str(tmp_path / "one"))
    assert launch.command == str(tmp_path / "two" / "serve")


def test_program_in_a_relative_folder_of_the_path_has_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    launch = resolve_stdio(tmp_path, {"command": "serve"}, PATH=":/none")
    assert launch.command == str(program)


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"command": "no-such-server"}, "command", "'no-such-server' was not found on the PATH"),
        ({"command": "./no-such"}, "command", "'./no-such' was not found."),
        ({"command": "npx -y books"}, "command", "put the other words into `arguments`"),
        ({"command": "data.txt", "cwd": "."}, "command", "was not found on the PATH"),
        ({"command": "./data.txt"}, "command", "is not an executable program"),
        ({"command": "${EMPTY}"}, "command", "is empty"),
        ({"command": PYTHON, "cwd": "missing"}, "cwd", "does not exist"),
        ({"command": PYTHON, "url": "https://h"}, "url", "remove one of them"),
        ({"type": "http"}, "url", "address of the server is missing"),
        ({"type": "stdio"}, "command", "program of the server is missing"),
        ({}, "command", "program of the server is missing"),
    ],
)
def test_server_that_cannot_start_is_an_error_with_a_remedy(
    tmp_path: Path, settings: dict[str, Any], path: str, words: str
) -> None:
    (tmp_path / "data.txt").write_text("")
    error = find_problem(tmp_path, settings, EMPTY="", PATH=str(tmp_path))
    assert error.path == f"providers.mcp.books.{path}"
    assert words in str(error)


@pytest.mark.req("R-MCP-71")
def test_program_with_another_digest_is_not_started(tmp_path: Path) -> None:
    program = tmp_path / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for algorithm in ("sha256", "sha1"):
        digest = hashlib.new(algorithm, program.read_bytes()).hexdigest()
        checksum = {"algorithm": algorithm, "value": digest.upper()}
        settings = {"command": "./serve", "checksum": checksum}
        assert resolve_stdio(tmp_path, settings).command == str(program)

        program.write_text(program.read_text() + "# changed\n")
        error = find_problem(tmp_path, settings)
        assert error.path == "providers.mcp.books.checksum.value"
        assert "so it was not started" in str(error)

    for wrong in ("", "ab", "0" * 40, "g" * 64):
        settings = {"command": "./serve", "checksum": {"value": wrong}}
        assert "expected the hexadecimal digits" in str(find_problem(tmp_path, settings))


def test_link_to_a_program_is_verified_by_its_target_and_run_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("#!/bin/sh\n")
    (tmp_path / "target").chmod(0o755)
    (tmp_path / "serve").symlink_to("target")
    digest = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    launch = resolve_stdio(tmp_path, {"command": "./serve", "checksum": {"value": digest}})
    assert launch.command == str(tmp_path / "serve")


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.req("R-MCP-81")
def test_plain_http_to_another_computer_needs_a_setting(tmp_path: Path) -> None:
    for url in (
        "http://localhost:3000/mcp",
        "http://127.0.0.1/mcp",
        "http://127.8.0.1/mcp",
        "http://[::1]:3000/mcp",
        "http://a.localhost/mcp",
        "https://books.example/mcp",
        "HTTPS://books.example/mcp",
    ):
        assert resolve_http(tmp_path, {"url": url}).url == url
    for url in (
        "http://books.example/mcp",
        "http://10.0.0.1/mcp",
        "http://127.0.0.1.evil.example/mcp",
        "http://localhost@evil.example/mcp",
        "http://localhost.evil.example/mcp",
        "http://0.0.0.0/mcp",
    ):
        error = find_problem(tmp_path, {"url": url})
        assert error.path == "providers.mcp.books.url"
        assert "set `insecure = true`" in str(error)
        assert resolve_http(tmp_path, {"url": url, "insecure": True}).insecure


@pytest.mark.parametrize(
    "url",
    ["", "books", "ftp://h/mcp", "file:///etc/passwd", "https:///x", "https://h:port/", "//h"],
)
def test_impossible_address_is_an_error(tmp_path: Path, url: str) -> None:
    error = find_problem(tmp_path, {"url": url, "type": "http"})
    assert "expected an address such as https://host/mcp" in str(error)


@pytest.mark.req("R-MCP-79")
def test_values_of_headers_are_hidden(tmp_path: Path) -> None:
    settings = {"headers": {"Authorization": "Bearer ${TOKEN}", "X-Id": "${ID}"}}
    launch = resolve_http(tmp_path, settings, TOKEN=SECRET, ID="identity-1")
    text = launch.hide(f"{launch!r} {SECRET} identity-1")
    assert SECRET not in text
    assert "identity-1" not in text
    error = find_problem(tmp_path, {"url": "https://h", **settings}, TOKEN=f"{SECRET}\n", ID="1")
    assert "control characters" in str(error)


@pytest.mark.req("R-MCP-79")
def test_secrets_of_a_command_are_hidden(tmp_path: Path) -> None:
    for arguments in (["--token", "${TOKEN}"], ["--api-key=${TOKEN}"], ["--token", SECRET]):
        launch = resolve_stdio(tmp_path, {"arguments": arguments}, TOKEN=SECRET)
        assert SECRET in " ".join(launch.arguments)
        assert SECRET not in launch.masked
        assert SECRET not in repr(launch)


@pytest.mark.parametrize(
    "arguments", [["--token", "abc-secret=="], ["--token=abc-secret=="], ["KEY_TOKEN=abc-secret=="]]
)
def test_secret_that_ends_in_equals_signs_is_hidden_whole(
    tmp_path: Path, arguments: list[str]
) -> None:
    launch = resolve_stdio(tmp_path, {"arguments": arguments})
    assert launch.hide("invalid key: abc-secret==.") == "invalid key: (set, not shown)."

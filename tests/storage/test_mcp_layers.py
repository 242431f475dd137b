"""Files that `providers.mcp_files` lists: their servers are settings, after the user's consent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.folders import config_files
from tests.support.kernel_client import front_end
from tests.support.sessions import configure

SERVERS = {"mcpServers": {"books": {"command": "serve"}, "off": {"command": "x", "disabled": True}}}


def list_files_of_user(folder: Path, *paths: str) -> None:
    """Write the user's configuration file, which lists these files."""
    listed = json.dumps(list(paths))
    (folder.parent / "home" / "config.toml").write_text(f"[providers]\nmcp_files = {listed}\n")


def put(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def commands(notebook: Any) -> dict[str, str | None]:
    """Return the commands of the configured servers, by name."""
    return {name: x.command for name, x in notebook.session.config.providers.mcp.items()}


@pytest.mark.req("R-MCP-68")
def test_servers_of_a_file_of_the_workspace_need_consent_to_their_present_form(
    bare_folder: Path, open_session: Any
) -> None:
    file = put(bare_folder / ".mcp.json", SERVERS)
    list_files_of_user(bare_folder, ".mcp.json")
    notebook = open_session()
    assert commands(notebook) == {}
    [notice] = notebook.notices
    assert "need your consent" in notice
    assert "providers.mcp.books.command" in notice

    notebook.jp("trust --workspace --yes")
    assert commands(notebook) == {"books": "serve"}

    # Another part of the file, or its layout, is no change of a server.
    put(file, "// a comment\n" + json.dumps({"x": 1, **SERVERS}, indent=4))
    assert commands(open_session()) == {"books": "serve"}
    put(file, {"mcpServers": {"books": {"command": "evil"}}})
    assert commands(open_session()) == {}


def test_users_file_outside_of_the_workspace_needs_no_consent(
    bare_folder: Path, open_session: Any
) -> None:
    outside = put(bare_folder.parent / "home" / "servers.json", SERVERS)
    list_files_of_user(bare_folder, str(outside))
    notebook = open_session()
    assert (commands(notebook), notebook.notices) == ({"books": "serve"}, [])


def test_file_that_a_folder_lists_needs_consent_wherever_it_is(
    bare_folder: Path, open_session: Any
) -> None:
    put(bare_folder.parent / "other.json", SERVERS)
    configure(bare_folder, 'providers.mcp_files = ["../other.json"]\n')
    notebook = open_session()
    assert commands(notebook) == {}
    notebook.jp("trust --workspace --yes")
    assert commands(notebook) == {}
    notebook.jp("trust --workspace --yes")
    assert commands(notebook) == {"books": "serve"}


def test_configured_server_has_priority_as_a_whole(bare_folder: Path, open_session: Any) -> None:
    first = put(
        bare_folder.parent / "home" / "first.json",
        {"mcpServers": {"books": {"url": "https://h/mcp"}, "maps": {"command": "one"}}},
    )
    second = put(
        bare_folder.parent / "home" / "second.json",
        {"mcpServers": {"maps": {"command": "two"}, "time": {"command": "three"}}},
    )
    (bare_folder.parent / "home" / "config.toml").write_text(
        f"[providers]\nmcp_files = {json.dumps([str(first), str(second)])}\n"
        '[providers.mcp.books]\ncommand = "mine"\n'
    )
    notebook = open_session()
    assert commands(notebook) == {"books": "mine", "maps": "one", "time": "three"}
    assert notebook.session.config.providers.mcp["books"].url is None


def test_changed_file_is_read_again_and_an_unchanged_one_keeps_its_layer(bare_folder: Path) -> None:
    outside = put(bare_folder.parent / "home" / "servers.json", SERVERS)
    list_files_of_user(bare_folder, str(outside))
    files = config_files(bare_folder, asks_consent=True)
    assert files.load_layers()[0] is files.load_layers()[0]
    put(outside, {"mcpServers": {"books": {"command": "another"}}})
    assert files.load_layers()[0].partial == {
        "providers": {"mcp": {"books": {"command": "another"}}}
    }


def test_problem_of_a_file_is_a_notice_and_the_configuration_stays_valid(
    bare_folder: Path, open_session: Any
) -> None:
    home = bare_folder.parent / "home"
    damaged = put(home / "damaged.json", "{")
    partly = put(home / "partly.json", {"mcpServers": {"books": {"command": "x"}, "bad": {}}})
    list_files_of_user(bare_folder, "missing.json", str(damaged), str(partly))
    notebook = open_session()
    assert commands(notebook) == {"books": "x"}
    notices = "\n".join(notebook.notices)
    assert "missing.json was not read: No such file" in notices
    assert "damaged.json was not read: Expecting" in notices
    assert "the MCP server 'bad' of" in notices


@pytest.mark.kernel
@pytest.mark.req("R-MCP-68")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
def test_nothing_of_a_folder_runs_when_it_is_opened(bare_folder: Path) -> None:
    """Neither the extension nor a report starts a server, before consent and after it."""
    marker = bare_folder.parent / "started"
    entry = {"command": "sh", "args": ["-c", f"touch {marker}"]}
    put(bare_folder / ".mcp.json", {"mcpServers": {"books": entry}})
    configure(
        bare_folder,
        'providers.mcp_files = [".mcp.json"]\n[providers.mcp.maps]\ncommand = "sh"\n'
        f'arguments = ["-c", "touch {marker}"]\n',
    )
    with front_end(bare_folder) as reader:
        assert "providers.mcp.maps.command" in reader.run("%load_ext jp_nb")
        for command in ("config providers", "doctor", "trust --workspace --yes", "config", "tools"):
            reader.finish(reader.start(f"%jp {command}"))
    assert not marker.exists()

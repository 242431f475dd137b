"""`%jp config --user` and `--workspace`: values saved into files, and their effect."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.storage.configuration.config_writer import ConfigFile
from tests.kit.sessions import directive
from tests.kit.settings import Settings
from tests.support.sessions import EVIL, URL, Notebook, configure

WRITTEN = """\
# mine
config_load_paths = ["personas"]  # searched in order

[assistant]
model.id = "scripted/talk"   # a script
# the name of it
name = "Robo"

[conversation.tools.count] # counts
source = "local"
command = "wc {{tool.arguments.text}}"

[providers.llm.aliases]
fast = "openai/gpt-x"
"""


def workspace_file(notebook: Notebook) -> Path:
    return notebook.folder / ".jp" / "config.toml"


def user_file(notebook: Notebook) -> Path:
    return notebook.folder.parent / "home" / "config.toml"


def edit_config_file(path: Path, *changes: Any) -> dict[str, Any]:
    """Change the file at `path` as `%jp config` does, and return its settings.

    A change is an assignment such as `user.name=Ada`, or a pair of an option and its text, such as
    `("no_cfg", "user.name")`.
    """
    file = ConfigFile(path, "user file")
    for change in changes:
        if isinstance(change, str):
            file.change(directive("cfg", change))
        else:
            file.change(directive(*change))

    settings = Settings(file.layer().partial).merged()
    file.save()
    return settings


def written(path: Path, *assignments: str) -> str:
    edit_config_file(path, *assignments)
    return path.read_text(encoding="utf-8")


# --- the file ----------------------------------------------------------------------------------


def test_value_is_changed_in_place_and_comments_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(WRITTEN)
    text = written(path, "assistant.model.id=openai/gpt-x", "assistant.name=Ada")
    assert text == WRITTEN.replace("scripted/talk", "openai/gpt-x").replace("Robo", "Ada")


def test_new_values_are_added_and_null_removes_a_value(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(WRITTEN)
    text = written(
        path,
        "assistant.name:=null",
        "conversation.tools.count.run=ask",
        "user.name=Ada",
        "assistant.model.parameters.stop_words+=a,b",
        "providers.llm.aliases.slow=openai/o",
        "prompt.timeout_s=5",
    )
    for comment in ("# mine", "# searched in order", "# a script", "# counts"):
        assert comment in text
    assert tomllib.loads(text) == {
        "config_load_paths": ["personas"],
        "assistant": {"model": {"id": "scripted/talk", "parameters": {"stop_words": ["a", "b"]}}},
        "conversation": {
            "tools": {
                "count": {
                    "source": "local",
                    "command": "wc {{tool.arguments.text}}",
                    "run": "ask",
                }
            }
        },
        "providers": {"llm": {"aliases": {"fast": "openai/gpt-x", "slow": "openai/o"}}},
        "user": {"name": "Ada"},
        "prompt": {"timeout_s": 5},
    }


def test_file_and_folder_are_created(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "config.toml"
    assert tomllib.loads(written(path, "user.name=Ada")) == {"user": {"name": "Ada"}}
    assert [p.name for p in path.parent.iterdir()] == ["config.toml"]


def test_link_permissions_byte_order_mark_and_line_ends_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    link = tmp_path / "config.toml"
    real.write_bytes(b"\xef\xbb\xbf# mine\r\n[user]\r\nname = 'x'\r\n")
    real.chmod(0o640)
    link.symlink_to(real)
    written(link, "user.name=Ada")
    assert link.is_symlink()
    assert real.read_bytes() == b'\xef\xbb\xbf# mine\r\n[user]\r\nname = "Ada"\r\n'
    assert real.stat().st_mode & 0o777 == 0o640


def test_invalid_changes_leave_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("user.name = 5\n")
    with pytest.raises(jp.ConfigError, match=r"(?s)user\.name.*config\.toml"):
        edit_config_file(path)
    path.write_text(WRITTEN)
    for text in ("user.nmae=x", "style.tool_call.show=perhaps", "extends:=[]", "{}", "nothing"):
        with pytest.raises(jp.JpNbError):
            edit_config_file(path, text)
    with pytest.raises(jp.UsageError, match="a file takes"):
        edit_config_file(path, ("no_cfg", "x"))
    with pytest.raises(jp.StorageError, match="cannot be read"):
        edit_config_file(tmp_path)
    assert path.read_text() == WRITTEN
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


ASSIGNMENTS = [
    "user.name=Ada", 'user.name=a "b" # c \\ \u2028', "user.name:=null", "assistant.name+=x",
    "assistant.model.id=openai/x", "assistant.model.id=fast", "assistant.model:=null",
    "assistant.model.parameters.stop_words=a,b", "assistant.model.parameters.stop_words+=c",
    'assistant.model.parameters.stop_words["a"]:=null', "assistant.model.parameters.reasoning=off",
    'assistant.model.parameters.reasoning:={"effort": "high"}', "conversation.tools.t.enable=off",
    'conversation.tools["a.b"].run=ask', 'conversation.tools.t.options:={"k": [1, {"z": 2.5}]}',
    "conversation.tools.t.options.k=v", "conversation.tools.t:=null",
    'assistant.system_prompt_sections+={"content": "s"}',
    '{"style": {"tool_call": {"show": false}}}',
    "conversation.attachments=file:a", 'template.values.k:={"value": 1, "strategy": "merge"}',
]  # fmt: skip
FILES = [
    "", WRITTEN, 'assistant.model.id = "openai/a"\nuser = { name = "x" } # c\n',
    '[assistant]\nmodel = { id = { provider = "openai", name = "a" } }\n[conversation.tools]\n',
    '[conversation.tools.t]\nenable = "explicit"\noptions = { k = 1 }\n'
    '[assistant.model.parameters]\nstop_words = { value = ["z"], strategy = "append" }\n'
    'reasoning = "off"\n',
]  # fmt: skip


def without_empty(settings: Any) -> Any:
    """Return `settings` without nulls, empty tables, and empty lists."""
    if not isinstance(settings, dict):
        return settings

    kept = {key: without_empty(value) for key, value in settings.items()}
    return {key: value for key, value in kept.items() if value not in (None, {}, [])}


@example(  # a table in several places of the file
    'assistant.model.id = "openai/a"\nuser = { name = "x" } # c\n',
    [
        "assistant.name+=x",
        "assistant.model.parameters.stop_words=a,b",
        'assistant.system_prompt_sections+={"content": "s"}',
    ],
)
@given(st.sampled_from(FILES), st.lists(st.sampled_from(ASSIGNMENTS), max_size=5))
def test_saved_file_means_exactly_the_requested_changes(text: str, changes: list[str]) -> None:
    expected = Settings.read(text)
    for change in changes:
        expected = Settings(expected).change(Settings.assign(change, expected), plain=False)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(text, encoding="utf-8")
        made = edit_config_file(path, *changes)
        saved = Settings.read(path.read_text(encoding="utf-8"))

    assert without_empty(made) == without_empty(Settings(expected).merged())
    assert without_empty(Settings(saved).merged()) == without_empty(made)


# --- the session -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["user", "workspace"])
def test_saved_value_applies_at_once_and_its_file_is_named(notebook: Notebook, where: str) -> None:
    notebook.jp("config assistant.name=mine")
    notebook.ask("Go.")
    notebook.jp(f"config --{where} assistant.name=Ada conversation.tools.t.options.token=hush")
    file = (user_file if where == "user" else workspace_file)(notebook)
    assert notebook.take_notices() == [
        f"written to {file}: assistant.name, conversation.tools.t.options.token",
        "conversation.tools.t.options.token looks like a secret: the file now contains it as plain "
        "text",
    ]
    assert notebook.value("assistant.name") == "Ada"
    assert f'"Ada"  {where} file, {file}' in notebook.jp("config assistant.name")
    notebook.session.conversations.new()
    assert notebook.value("assistant.name") == "Ada"
    again = Notebook(notebook.folder)
    assert again.value("assistant.name") == "Ada"
    again.session.close()


HEADERS = "providers.mcp.maps.headers"


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        (f"'{HEADERS}.Authorization=Bearer ${{MAPS_TOKEN}}'", []),
        (f"'{HEADERS}.Authorization=Bearer hunter2-hunter2'", [f"{HEADERS}.Authorization"]),
        (f"{HEADERS}.X-Level=3", []),
        (
            """providers.mcp.maps.arguments:='["--token", "hunter2-hunter2"]'""",
            ["providers.mcp.maps.arguments"],
        ),
        ("""providers.mcp.maps.arguments:='["--token", "${MAPS_TOKEN}"]'""", []),
        (
            """providers.mcp.maps:='{"headers": {"Authorization": "Bearer hunter2"}}'""",
            [f"{HEADERS}.Authorization"],
        ),
    ],
)
def test_only_a_key_that_is_written_as_text_is_named(
    notebook: Notebook, setting: str, named: list[str]
) -> None:
    notebook.jp(f"config --user providers.mcp.maps.command=maps {setting}")
    notices = [each for each in notebook.take_notices() if "plain text" in each]
    ending = " looks like a secret: the file now contains it as plain text"
    assert notices == [f"{path}{ending}" for path in named]


def test_value_that_overrides_the_file_is_reported(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.jp("config --user user.name=Ada")
    assert notebook.take_notices()[1:] == [
        f"user.name has another value here, from workspace file, {workspace_file(notebook)}, "
        "which overrides that file"
    ]
    assert notebook.value("user.name") == "file"
    monkeypatch.setenv("JP_CFG_USER__NAME", "env")
    notebook.jp("config --workspace user.name=Bea")
    assert "user.name has another value here, from environment" in notebook.take_notices()[1]


def test_unset_value_is_removed_from_the_file(notebook: Notebook) -> None:
    notebook.jp("config --workspace --unset user.name")
    assert notebook.session.config.user.name is None
    assert "user" not in tomllib.loads(workspace_file(notebook).read_text()).get("name", {})


def test_invalid_lines_write_nothing(notebook: Notebook, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, type[Exception]]] = [
        ("config --user", jp.UsageError),
        ("config --user user.name", jp.UsageError),
        ("config --user --workspace user.name=x", jp.UsageError),
        ("config --user -C dev", jp.UsageError),
        ("config --user -c dev", jp.JpNbError),
        ("config --user user.nmae=x", jp.ConfigError),
        ("config --user --unset user.nmae", jp.ConfigError),
        ("config --user assistant.model.id=no_such_alias", jp.ConfigError),
        ("config --workspace assistant.model.id=no_such_alias user.name=x", jp.ConfigError),
    ]
    for line, error in rows:
        with subtests.test(line=line):
            before = workspace_file(notebook).read_text()
            with pytest.raises(error):
                notebook.jp(line)
            assert workspace_file(notebook).read_text() == before
            assert not user_file(notebook).exists()
            assert not notebook.session.document.conversation.deltas


def test_failed_save_is_an_error_and_keeps_the_file(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    before = workspace_file(notebook).read_text()
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(jp.StorageError, match=r"cannot be written: .*No space left"):
        notebook.jp("config --workspace user.name=x")
    assert workspace_file(notebook).read_text() == before
    assert [p.name for p in workspace_file(notebook).parent.iterdir()] == ["config.toml"]


# --- consent -----------------------------------------------------------------------------------


def test_saved_value_is_trusted_if_the_file_was(bare_folder: Path) -> None:
    own = Notebook(bare_folder)
    own.jp(f"config --workspace {URL}=http://mine.example")
    assert own.value(URL) == "http://mine.example"
    own.jp("config --workspace user.name=Ada")
    assert [len(own.take_notices()), own.value("user.name")] == [2, "Ada"]
    own.session.close()
    again = Notebook(bare_folder)
    assert (again.value(URL), again.notices) == ("http://mine.example", [])
    again.session.close()


def test_saving_a_value_trusts_no_other_value_of_the_file(bare_folder: Path) -> None:
    file = configure(bare_folder, EVIL)
    own = Notebook(bare_folder)
    own.jp("config --workspace user.name=Ada")
    assert own.value("user.name") == "Ada"
    assert own.value(URL) != "http://evil.example"
    assert "evil" in file.read_text()
    own.session.close()


def test_shared_file_is_not_written_to(bare_folder: Path) -> None:
    file = configure(bare_folder, EVIL)
    file.chmod(0o666)  # any user could have written that
    own = Notebook(bare_folder)
    with pytest.raises(jp.StorageError, match=r"cannot be changed: .* is writable for everyone"):
        own.jp("config --workspace user.name=Ada")
    assert (file.read_text(), own.value(URL) != "http://evil.example") == (EVIL, True)
    own.session.close()

"""TabCompletions in the magics: of a line alone, and of cells in IPython's shell."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import jp_nb
from tests.kit.ipython_shell import IPythonShell
from tests.kit.settings import Settings
from tests.support.ipython import ipython

MAX_COMPLETIONS = 300

__all__ = ["ipython"]

KEYS: Final[Mapping[str, list[str]]] = {
    "conversation.tools": ["*", "fs_read", "a.b", 'it\'s "odd"'],
    "conversation.tools.fs_read.options": ["depth"],
    "conversation.labels": [],
    "providers.llm.aliases": ["opus", "gpt.5", "1.50"],
    "assistant.instructions": ["0", "1"],
    "assistant.model.parameters": ["max_tokens", "seed"],
}
FILES: Final[Mapping[str, list[str]]] = {
    "": ["docs/", "my notes/", ".git/", "a.toml", "b.txt"],
    "docs/": ["x.json", "old/"],
}
PRESETS: Final[Mapping[str, list[str]]] = {
    "": ["careful", "assist", "roles/"],
    "roles/": ["tester"],
}
NAMES: Final[Mapping[str, Any]] = {
    "tools": ["ask_user", "fs_read"],
    "toolsets": {"geo": 2, "fs": 1},
    "aliases": ["opus", "fast"],
    "mcp_servers": ["books", "maps"],
    "conversations": {"jp-c2": False, "jp-c1": False, "damaged": True},
    "turn_count": 12,
    "answers": ["12", "11", "2"],
    "variables": ["rows", "name", "names", "_secret"],
    "schemas": ["Trip", "Row"],
    "rows": ["frame"],
    "list_keys": lambda path: KEYS.get(path, []),
    "list_models": lambda provider: ["scripted/welcome", "ollama/qwen2.5:7b"],
    "list_config_files": lambda folder: PRESETS.get(folder, []),
    "list_entries": lambda folder: FILES.get(folder, []),
}
"""A session with a little of everything."""

SUBCOMMANDS: Final = [text for _, text in IPythonShell.complete("%jp |", NAMES)]
PROVIDERS: Final = [f"{text}/" for _, text in IPythonShell.complete("%jp models |", NAMES)]


def lines(before: str, names: Mapping[str, Any] = NAMES) -> list[str]:
    """Return `before` with each of its completions applied."""
    return [before[:start] + text for start, text in IPythonShell.complete(f"{before}|", names)]


def test_each_subcommand_and_option_can_be_completed(subtests: pytest.Subtests) -> None:
    assert {"config", "tools", "log", "doctor"} < {*SUBCOMMANDS}
    assert {"anthropic/", "openai/", "scripted/"} < {*PROVIDERS}
    magics = ["%%jp ", *(f"%jp {name} " for name in SUBCOMMANDS)]
    for magic in magics:
        flags = lines(f"{magic}-")
        for line in (magic, *(f"{flag} " for flag in flags), *(f"{flag}=" for flag in flags)):
            with subtests.test(line=line):
                assert all(text.startswith("%") for text in lines(line))


def test_completions_of_a_line(subtests: pytest.Subtests) -> None:
    """`^` is where that begins which is replaced."""
    for marked, texts in [
        # subcommands
        ("%jp ^", SUBCOMMANDS),
        ("%jp ^conf", ["config"]),
        ("  %jp  ^to", ["tools"]),
        ("%jp mcp ^sign-", ["sign-in", "sign-out"]),
        ("%jp mcp sign-in ^b", ["books"]),
        ("%jp mcp log ^", ["books", "maps"]),
        # paths, level by level
        ("%jp config ^as", ["assistant."]),
        ("%jp config assistant.^to", ["tool_choice"]),
        ("%jp config assistant.^mo", ["model."]),
        ("%jp config assistant.model.^i", ["id", "id."]),
        ("%jp config assistant.model.id.^n", ["name"]),
        ("%jp config assistant.model.parameters.^se", ["seed"]),
        ("%jp config user.name ^as", ["assistant."]),
        ("%jp config --unset prompt.^c", ["channel"]),
        ("%jp config --unset=prompt.^c", ["channel"]),
        ("%jp config --explain prompt.^c", ["channel"]),
        ("%jp config -C prompt.^c", ["channel"]),
        ("%%jp -c prompt.^c", ["channel"]),
        ("%%jp --cfg=prompt.^c", ["channel"]),
        ("%jp config assistant.instructions.^", ["0.", "1."]),
        ("%jp config conversation.^la", ["labels"]),
        ("%jp config conversation.^to", ["tools.", "toolsets"]),
        ("%jp config conversation.tools.*.^ru", ["run", "rules"]),
        ("%jp config conversation.tools.^f", ["fs_read."]),
        ("%jp config conversation.tools.fs_read.options.^", ["depth"]),
        ("%jp config nothing.", []),
        ("%jp config user.name.", []),
        ("%jp config .", []),
        ("%jp config [", []),
        # keys that need brackets
        ("%jp config conversation.tools^.a", ["[a.b]."]),
        ("%jp config conversation.tools^[a", ["[a.b]."]),
        ("%jp config conversation.tools.^[a", ["[a.b]."]),
        ("%jp config conversation.tools^[a.", ["[a.b]."]),
        ("%jp config conversation.tools[a.b].^ru", ["run", "rules"]),
        ('%jp config conversation.tools["a.b"].^ru', ["run", "rules"]),
        ("%jp config 'conversation.tools^[\"a", ['["a.b"].']),
        ("%jp config providers.llm.aliases^.g", ["[gpt.5]", "[gpt.5]."]),
        ("%jp config providers.llm.aliases.^o", ["opus", "opus."]),
        # values
        ("%jp config style.tool_call.show=^", ["true", "false"]),
        ("%jp config style.tool_call.show=^t", ["true"]),
        ("%jp config style.tool_call.show:=^f", ["false"]),
        ("%jp config user.name:=^", ["null"]),
        ("%jp config prompt.channel=^w", ["widget"]),
        ("%jp config 'prompt.channel = w", []),  # a space is part of the value
        ('%jp config "prompt.channel=^w', ["widget"]),
        ("%%jp -n -c prompt.channel=^w", ["widget"]),
        ("%jp config conversation.tools.x.enable=^e", ["explicit"]),
        ("%jp config assistant.model.parameters.reasoning=^x", ["xlow", "xhigh"]),
        ("%jp config assistant.tool_choice=^a", ["auto", "ask_user"]),
        ("%jp config assistant.model.id=^o", ["opus", "ollama/", "openai/", "openrouter/"]),
        ("%jp config assistant.model.id=^ollama/", ["ollama/qwen2.5:7b", "ollama/"]),
        ("%jp config assistant.model.id.provider=^sc", ["scripted"]),
        ("%jp config assistant.name=", []),
        ("%jp config assistant.system_prompt+=a", []),
        ("%jp config config_load_paths+=a,", []),
        ("%jp config nothing=", []),
        ("%jp config =", []),
        ("%jp config {", []),
        ('%jp config \'{"user": {"name"=', []),
        # models
        ("%%jp -m ^", ["fast", "opus", *PROVIDERS]),
        ("%%jp -m ^sc", ["scripted/"]),
        ("%%jp --model=^op", ["opus", "openai/", "openrouter/"]),
        ("%%jp -m ^scripted/w", ["scripted/welcome"]),
        # configuration files
        ("%%jp -c ^car", ["careful"]),
        ("%%jp -c ^as", ["assistant.", "assist"]),
        ("%jp config -c roles/^", ["tester"]),
        ("%%jp -c @^", ["a.toml", "docs/", r"my\ notes/"]),
        ("%%jp -c ./d", []),
        # tools
        ("%%jp -t ^as", ["ask_user"]),
        ("%%jp -T ^", ["ask_user", "fs_read", "geo", "fs"]),
        ("%%jp -u ^", ["ask_user", "fs_read"]),  # one tool, no set
        ("%%jp -t ^--st", ["--strict"]),
        ("%jp tools ^", ["ask_user", "fs_read", "geo", "fs"]),
        ("%jp tools ^f", ["fs_read", "fs"]),
        ("%jp tools fs_read ^", ["--forget"]),  # it takes one tool
        # conversations, turns, folders
        ("%jp switch ^", ["jp-c2", "jp-c1"]),
        ("%jp drop ^d", ["damaged"]),
        ("%jp fork ^1", ["12", "11", "10", "1"]),
        ("%jp export ^", ["docs/", r"my\ notes/"]),
        ("%jp import '^m", ["my notes/"]),
        ("%jp import docs/^", ["old/"]),
        ("%jp import ^.", [".git/"]),
        # options
        ("%jp export --dialect ^", ["native", "jp-head"]),
        ("%jp export --dialect=^j", ["jp-head"]),
        ("%jp export d ^--d", ["--dialect"]),
        ("%jp export --dialect jp-head ^", ["docs/", r"my\ notes/"]),
        ("%jp export d ^", ["--dialect"]),  # it takes one
        ("%jp trust ^", ["--workspace", "--yes", "--revoke"]),
        ("%%jp ^--s", ["--schema", "--strict"]),
        (
            "%%jp ^--",
            [
                "--model",
                "--cfg",
                "--no-cfg",
                "--tool",
                "--no-tool",
                "--attachment",
                "--tool-use",
                "--no-tool-use",
                "--new",
                "--compact",
                "--plan",
                "--schema",
                "--out",
                "--strict",
                "--each",
                "--cache",
            ],
        ),
        ("%%jp -s ^", ["Row", "Trip"]),
        ("%%jp --schema=^T", ["Trip"]),
        ("%%jp -s ro", []),
        ("%%jp -u ^as", ["ask_user"]),
        ("%%jp --tool-use=^f", ["fs_read"]),
        ("%%jp -u ^--st", ["--strict"]),
        ("%%jp -a ^", ["a.toml", "b.txt", "docs/", r"my\ notes/"]),
        ("%%jp -a ^na", ["name", "names"]),
        ("%%jp --attachment=docs/^x", ["x.json"]),
        ("%%jp -U as", []),
        (
            "%jp config ^-",
            ["--explain", "--unset", "-c", "--cfg", "-C", "--no-cfg", "--user", "--workspace"],
        ),
        ("%jp trust --yes=", []),
        # names in a request
        ("%jp q What is in {{^na", ["name", "names"]),
        ("%jp q Don't forget {{ ^ro", ["rows"]),
        ("%jp q {{^_", ["_secret"]),
        (r"%jp q \{{na", []),
        ("%jp q {{name.", []),
        ("%jp q as", []),
        # names after "@" in a request: variables, files
        ("%jp q Look at ^@na", ["{{name}}", "{{names}}"]),
        ("%jp q ^@_", ["{{_secret}}"]),
        ("%jp q (^@b", ["`b.txt`"]),
        ("%jp q ^@d", ["@docs/"]),
        ("%jp q ^@docs/", ["@docs/old/", "`docs/x.json`"]),
        ("%jp q ada@na", []),
        ("%jp q @zz", []),
        # none of ours
        ("", []),
        ("%jp", []),
        ("%%jp", []),
        ("%jpx ", []),
        ("jp config as", []),
        ("x = 1  # %jp config as", []),
        ("%jp nothing ", []),
        ("%jp log ", []),
    ]:
        with subtests.test(marked=marked):
            before = marked.replace("^", "")
            start = marked.find("^")
            assert IPythonShell.complete(f"{before}|", NAMES) == [(start, text) for text in texts]


def test_every_path_is_completed_level_by_level() -> None:
    paths = Settings.list_paths()
    maps: set[str] = set()
    for path in paths:
        for key in re.finditer(r"\.\*", path):
            maps.add(path[: key.start()].replace("*", "k"))

    names = {**NAMES, "list_keys": lambda path: ["k"] if path in maps else []}
    reached: set[str] = set()
    levels = ["%jp config "]
    while levels:
        for line in lines(levels.pop(), names):
            path = line.removeprefix("%jp config ")
            reached.add(path.removesuffix("."))
            levels += [line] if path.endswith(".") and path.count(".") < 8 else []

    assert {p.replace("*", "k") for p in paths if p.count(".") < 8} <= reached


def test_completed_key_is_quoted_as_its_line_needs(
    ipython: IPythonShell, subtests: pytest.Subtests
) -> None:
    odd = 'it\'s "odd"'
    for before, after, path, key in (
        ("%jp config conversation.tools.it", "run=ask", "conversation.tools", odd),
        ('%jp config "conversation.tools[it', 'result=skip"', "conversation.tools", odd),
        ("%jp config providers.llm.aliases.1", "=scripted/talk", "providers.llm.aliases", "1.50"),
    ):
        with subtests.test(before=before):
            code = lines(before)[0] + after
            assert ipython.run(code).error is None, code
            assert key in ipython.value(path)

    assert lines("%jp config 'conversation.tools[it") == []  # a quote is not possible there


def test_untrusted_names_are_bounded_and_printable() -> None:
    many = [f"c{number}" for number in range(MAX_COMPLETIONS + 100)]
    names = ["c\x1b[2J", "c\u202e", "c\nd", "c" * 1000, *many]
    strange = {**NAMES, "conversations": dict.fromkeys(names, False)}
    found = lines("%jp switch c", strange)
    assert found[0] == "%jp switch c0"
    assert len(found) == MAX_COMPLETIONS


def test_completions_at_a_place_in_a_cell(subtests: pytest.Subtests) -> None:
    for cell, after in [
        ("x = 1\n%jp config as|", "x = 1\n%jp config assistant."),
        ("%%time\n%jp config as|", "%%time\n%jp config assistant."),
        ("\n%%jp -c as|\nHello.", "\n%%jp -c assistant.\nHello."),
        ("%%jp\nAbout {{ro|}} and more", "%%jp\nAbout {{rows}} and more"),
        ("%%jp\nAbout @ro| and more", "%%jp\nAbout {{rows}} and more"),
        ("%%jp\n%jp config as|", None),  # this is text of the request
        ("x = 1\n%%jp -c as|", None),  # no magic
        ("%%jp\nAbout na|", None),
        ("print('{{na|", None),
    ]:
        with subtests.test(cell=cell):
            before, _, behind = cell.partition("|")
            found = [
                before[:start] + text + behind for start, text in IPythonShell.complete(cell, NAMES)
            ]
            assert found[:1] == [after for _ in found[:1]]
            assert bool(found) == (after is not None)


# --- in IPython's shell ------------------------------------------------------------------------

CONFIG = """
config_load_paths = [".jp/presets"]
assistant.model.id = "scripted/talk"
[providers.llm.aliases]
quick = "scripted/welcome"
"gpt.5" = "openai/gpt-5"
"""


@pytest.fixture
def folder(folder: Path) -> Path:
    """A workspace with presets and aliases."""
    (folder / ".jp" / "presets" / "team").mkdir(parents=True)
    (folder / ".jp" / "config.toml").write_text(CONFIG, encoding="utf-8")
    (folder / ".jp" / "presets" / "careful.toml").write_text("", encoding="utf-8")
    (folder / ".jp" / "presets" / "team" / "night.json").write_text("{}", encoding="utf-8")
    (folder / "exported here").mkdir()
    return folder


def test_completion_is_loaded_with_the_first_tab_in_a_magic(
    ipython: IPythonShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "jp_nb.notebook.completion.magic_completion"
    monkeypatch.delitem(sys.modules, name, raising=False)
    assert "print" in ipython.tab("pri|")
    assert name not in sys.modules
    assert ipython.tab("%jp conf|") == ["%jp config"]
    assert name in sys.modules


def test_completions_in_a_shell(ipython: IPythonShell, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, list[str]]] = [
        ("%jp sw|", ["%jp switch"]),
        ("%jp config assistant.mo| user.name", ["%jp config assistant.model. user.name"]),
        ("x = 'ä𝒳'\n%jp config assistant.mo|\ny", ["x = 'ä𝒳'\n%jp config assistant.model.\ny"]),
        ("%jp config providers.llm.aliases.g|", [
            "%jp config providers.llm.aliases[gpt.5]", "%jp config providers.llm.aliases[gpt.5]."]),
        ("%jp config conversation.tools.desc|", ["%jp config conversation.tools.describe_tools."]),
        ('%jp config "prompt.channel=w|"', ['%jp config "prompt.channel=widget"']),
        ("%jp config assistant.tool_choice=des|",
         ["%jp config assistant.tool_choice=describe_tools"]),
        ("%%jp -m qu|\nHello.", ["%%jp -m quick\nHello."]),
        ("%%jp -m scr|", ["%%jp -m scripted/"]),
        ("%%jp -m openai/|", ["%%jp -m openai/gpt-5", "%%jp -m openai/"]),
        ("%%jp -n -c prompt.channel=w|\nHello.", ["%%jp -n -c prompt.channel=widget\nHello."]),
        ("%%jp -c car|\nHello.", ["%%jp -c careful\nHello."]),
        ("%%jp -c team/|\nHello.", ["%%jp -c team/night\nHello."]),
        ("%jp export exp|", [r"%jp export exported\ here/"]),
    ]  # fmt: skip
    for cell, after in rows:
        with subtests.test(cell=cell):
            assert ipython.tab(cell) == after


def test_ids_turns_and_names_are_those_of_the_notebook(ipython: IPythonShell) -> None:
    ipython.run("%%jp\nHello.")
    first = ipython.session.document.conversation.id
    ipython.run("%jp new")
    assert ipython.tab("%jp switch |") == [f"%jp switch {first}"]
    assert ipython.tab("%jp drop |") == [f"%jp drop {first}"]
    ipython.run(f"%jp switch {first}")
    assert ipython.tab("%jp fork |") == ["%jp fork 1"]
    ipython.run("delta_shape = {'type': 'object'}; delta_plain = {'a': 1}; delta_rows = [1]")
    assert ipython.tab("%%jp -s delta_|\nGo.") == ["%%jp -s delta_shape\nGo."]
    assert ipython.tab("%%jp\nAbout {{delta_r|}}.") == ["%%jp\nAbout {{delta_rows}}."]


def test_tool_is_offered_once_it_is_defined(ipython: IPythonShell) -> None:
    assert ipython.tab("%jp tools loo|") == []
    ipython.run("import jp_nb\n@jp_nb.tool\ndef look_up(x: str) -> str:\n    return x")
    try:
        assert ipython.tab("%jp tools loo|") == ["%jp tools look_up"]
        assert ipython.tab("%%jp -u loo|\nGo.") == ["%%jp -u look_up\nGo."]
        assert ipython.tab("%jp config conversation.tools.loo|") == [
            "%jp config conversation.tools.look_up."
        ]
    finally:
        jp_nb.remove_tool("look_up")


def test_broken_file_removes_only_its_own_completions(ipython: IPythonShell, folder: Path) -> None:
    assert "%%jp -m quick" in ipython.tab("%%jp -m |")
    (folder / ".jp" / "config.toml").write_text("assistant = [", encoding="utf-8")
    assert ipython.tab("%jp config as|") == ["%jp config assistant."]
    assert ipython.tab("%jp config prompt.channel=w|") == ["%jp config prompt.channel=widget"]
    assert "%%jp -m quick" not in ipython.tab("%%jp -m |")
    assert ipython.tab("%%jp -m scr|") == ["%%jp -m scripted/"]


def test_failure_of_completion_is_silent_and_logged(
    ipython: IPythonShell,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, "jp_nb.notebook.completion")
    monkeypatch.setattr(ipython.session, "document", None)
    assert not any("jp-c" in line for line in ipython.tab("%jp switch |"))
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert capsys.readouterr() == ("", "")


def test_toolsets_are_noted_with_their_number_of_tools(ipython: IPythonShell) -> None:
    tools = {"a": {"toolset": "geo"}, "b": {"toolset": "geo"}, "c": {"toolset": "fs"}}
    settings = json.dumps({"conversation": {"tools": tools}})
    assert ipython.run(f"%jp config -c '{settings}'").error is None
    notes = ipython.tab_notes("%%jp -t |")
    assert (notes["geo"], notes["fs"]) == ("2 tools", "1 tool")

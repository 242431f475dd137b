"""What Tab offers in our magics: the line alone, then a real kernel's `complete_request`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest

from jp_nb.config.paths import parse_path
from jp_nb.config.schema import field_paths, node_of
from jp_nb.config.tree.provider_table import PROVIDER_NAMES
from jp_nb.notebook.completion import (
    MAX_OFFERED,
    OFFERED,
    Facts,
    complete,
    complete_cell,
)
from jp_nb.notebook.subcommands import SUBCOMMANDS, Offer
from tests.support.kernel_client import PATIENCE, FrontEnd, front_end

PROVIDERS = [f"{name}/" for name in PROVIDER_NAMES]


class KnownFacts:
    """A session with a little of everything."""

    KEYS = {  # noqa: RUF012 - nobody changes it
        "conversation.tools": ["*", "fs_read", "a.b", 'it\'s "odd"'],
        "conversation.tools.fs_read.options": ["depth"],
        "conversation.labels": [],
        "providers.llm.aliases": ["opus", "gpt.5", "1.50"],
        "assistant.instructions": ["0", "1"],
        "assistant.model.parameters": ["max_tokens", "seed"],
    }
    FILES = {"": ["docs/", "my notes/", ".git/", "a.toml", "b.txt"], "docs/": ["x.json", "old/"]}  # noqa: RUF012

    def keys(self, path: str) -> Sequence[str]:
        return self.KEYS.get(path, [])

    def tools(self) -> Sequence[str]:
        return ["ask_user", "fs_read"]

    def toolsets(self) -> Mapping[str, int]:
        return {"geo": 2, "fs": 1}

    def aliases(self) -> Sequence[str]:
        return ["opus", "fast"]

    def models(self) -> Sequence[str]:
        return ["scripted/welcome", "ollama/qwen2.5:7b"]

    def config_files(self, folder: str) -> Sequence[str]:
        return {"": ["careful", "assist", "roles/"], "roles/": ["tester"]}.get(folder, [])

    def entries(self, folder: str) -> Sequence[str]:
        return self.FILES.get(folder, [])

    def conversations(self, *, damaged: bool) -> Sequence[str]:
        return ["jp-c2", "jp-c1", *(["damaged"] if damaged else [])]

    def turns(self) -> int:
        return 12

    def answers(self) -> Sequence[str]:
        return ["12", "11", "2"]

    def variables(self) -> Sequence[str]:
        return ["rows", "name", "names", "_secret"]

    def schemas(self) -> Sequence[str]:
        return ["Trip", "Row"]


FACTS: Facts = KnownFacts()


def lines(before: str, facts: Facts = FACTS) -> list[str]:
    """What `before` becomes with each of its completions."""
    found = complete(before, facts)
    assert 0 <= found.start <= len(before)
    return [before[: found.start] + text for text in found.texts]


def test_tab_knows_what_every_word_of_the_tables_offers() -> None:
    assert OFFERED.keys() == {*get_args(Offer)}
    for word, offer in OFFERED.items():
        assert offer("", FACTS).texts, word


def test_a_line_and_what_it_becomes(subtests: pytest.Subtests) -> None:
    """`^` is where that begins which is replaced."""
    for marked, texts in [
        # subcommands
        ("%jp ^", list(SUBCOMMANDS)),
        ("%jp ^conf", ["config"]),
        ("  %jp  ^to", ["tools"]),
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
        ("%jp config conversation.tools.*.^ru", ["run"]),
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
        ("%jp config conversation.tools[a.b].^ru", ["run"]),
        ('%jp config conversation.tools["a.b"].^ru', ["run"]),
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
        ("%jp tools fs_read ", []),  # it takes one
        # conversations, turns, folders
        ("%jp switch ^", ["jp-c2", "jp-c1"]),
        ("%jp drop ^d", ["damaged"]),
        ("%jp fork ^1", ["11", "10", "1"]),
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
                "--schema",
                "--out",
                "--strict",
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
            found = complete(before, FACTS)
            assert found.texts == texts
            if texts:
                assert found.start == marked.index("^")


def test_every_path_is_reached_level_by_level() -> None:
    class OneOfEach(KnownFacts):
        def keys(self, path: str) -> Sequence[str]:
            node = node_of(path)
            return ["k"] if node is not None and node.kind == "map" else []

    reached: set[str] = set()
    levels = ["%jp config "]
    while levels:
        for line in lines(levels.pop(), OneOfEach()):
            path = line.removeprefix("%jp config ")
            reached.add(path.removesuffix("."))
            levels += [line] if path.endswith(".") and path.count(".") < 8 else []
    assert {p.replace("*", "k") for p in field_paths() if p.count(".") < 8} <= reached


def test_what_is_completed_names_the_key_whatever_is_in_it() -> None:
    (line,) = lines("%jp config conversation.tools.it")
    assert parse_path(shlex.split(line)[2].removesuffix("."))[2] == 'it\'s "odd"'
    (quoted,) = lines('%jp config "conversation.tools[it')
    assert parse_path(shlex.split(quoted + '"')[2].removesuffix("."))[2] == 'it\'s "odd"'
    assert lines("%jp config 'conversation.tools[it") == []  # no such quote can stand there
    number, _ = lines("%jp config providers.llm.aliases.1")
    assert parse_path(shlex.split(number)[2])[3] == "1.50"


def test_what_a_stranger_wrote_is_bounded_and_plain() -> None:
    class Strange(KnownFacts):
        def conversations(self, *, damaged: bool) -> Sequence[str]:
            many = [f"c{number}" for number in range(MAX_OFFERED + 100)]
            return ["c\x1b[2J", "c\u202e", "c\nd", "c" * 1000, *many]

    found = lines("%jp switch c", Strange())
    assert found[0] == "%jp switch c0"
    assert len(found) == MAX_OFFERED


def test_where_in_a_cell(subtests: pytest.Subtests) -> None:
    for cell, after in [
        ("x = 1\n%jp config as|", "x = 1\n%jp config assistant."),
        ("%%time\n%jp config as|", "%%time\n%jp config assistant."),
        ("\n%%jp -c as|\nHello.", "\n%%jp -c assistant.\nHello."),
        ("%%jp\nAbout {{ro|}} and more", "%%jp\nAbout {{rows}} and more"),
        ("%%jp\n%jp config as|", None),  # the request says so
        ("x = 1\n%%jp -c as|", None),  # no magic
        ("%%jp\nAbout na|", None),
        ("print('{{na|", None),
    ]:
        with subtests.test(cell=cell):
            before, _, behind = cell.partition("|")
            line, column = before.count("\n"), len(before.rpartition("\n")[2])
            found = complete_cell(before + behind, line, column, FACTS)
            if after is None:
                assert found.texts == []
            else:
                start = len(before) - column + found.start
                assert before[:start] + found.texts[0] + behind == after


# --- a kernel --------------------------------------------------------------------------------

CONFIG = """
config_load_paths = [".jp/presets"]
[providers.llm.aliases]
quick = "scripted/welcome"
"gpt.5" = "openai/gpt-5"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / ".jp" / "presets" / "team").mkdir(parents=True)
    (folder / ".jp" / "config.toml").write_text(CONFIG, encoding="utf-8")
    (folder / ".jp" / "presets" / "careful.toml").write_text("", encoding="utf-8")
    (folder / ".jp" / "presets" / "team" / "night.json").write_text("{}", encoding="utf-8")
    (folder / "exported here").mkdir()
    return folder


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[FrontEnd]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DATA", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
        with front_end(folder) as user:
            user.run("%load_ext jp_nb")
            user.run("%%jp\nHello! Who answers here?")
            user.run("%jp new")
            yield user


def tab(user: FrontEnd, cell: str) -> list[str]:
    """The cells that come of `cell`, when Tab is pressed at its `|` and each match is taken."""
    before, _, behind = cell.partition("|")
    code = before + behind
    reply = user.client.complete(code, len(before), reply=True, timeout=PATIENCE)["content"]
    assert reply["status"] == "ok"
    start, end = reply["cursor_start"], reply["cursor_end"]
    return [code[:start] + match + code[end:] for match in reply["matches"]]


def kinds_before(user: FrontEnd, request: str) -> set[str]:
    """The kinds of messages that came of what was asked before `request`, which is done."""
    return {
        message["header"]["msg_type"]
        for message in user.messages
        if message["parent_header"].get("msg_id") != request
    }


def test_nothing_is_loaded_before_the_first_tab_in_a_magic(kernel: FrontEnd) -> None:
    asked = "import sys; print('jp_nb.notebook.completion_facts' in sys.modules)"
    assert "print" in tab(kernel, "pri|")
    assert kernel.run(asked) == "False\n"
    assert tab(kernel, "%jp conf|") == ["%jp config"]
    assert kernel.run(asked) == "True\n"
    assert kernel.run("print(get_ipython().Completer.use_jedi)") == "True\n"


@pytest.mark.parametrize(
    ("cell", "after"),
    [
        ("%jp sw|", ["%jp switch"]),
        ("%jp config as|", ["%jp config assistant."]),
        ("%jp config assistant.mo|", ["%jp config assistant.model."]),
        ("%jp config assistant.mo| user.name", ["%jp config assistant.model. user.name"]),
        ("x = 'ä𝒳'\n%jp config assistant.mo|\ny", ["x = 'ä𝒳'\n%jp config assistant.model.\ny"]),
        ("%jp config providers.llm.aliases.g|", [
            "%jp config providers.llm.aliases[gpt.5]", "%jp config providers.llm.aliases[gpt.5]."]),
        ("%jp config conversation.tools.desc|", ["%jp config conversation.tools.describe_tools."]),
        ("%jp config --unset conversation.tools.ask_user.ru|", [
            "%jp config --unset conversation.tools.ask_user.run"]),
        ("%jp config prompt.channel=w|", ["%jp config prompt.channel=widget"]),
        ("%jp config style.tool_call.show:=|", [
            "%jp config style.tool_call.show:=true", "%jp config style.tool_call.show:=false"]),
        ('%jp config "prompt.channel=w|"', ['%jp config "prompt.channel=widget"']),
        ("%jp config assistant.tool_choice=des|",
         ["%jp config assistant.tool_choice=describe_tools"]),
        ("%jp config assistant.model.id=qu|", ["%jp config assistant.model.id=quick"]),
        ("%%jp -m qu|\nHello.", ["%%jp -m quick\nHello."]),
        ("%%jp -m scr|", ["%%jp -m scripted/"]),
        ("%%jp -m openai/|", ["%%jp -m openai/gpt-5", "%%jp -m openai/"]),
        ("%%jp -n -c prompt.channel=w|\nHello.", ["%%jp -n -c prompt.channel=widget\nHello."]),
        ("%%jp --str|\nHello.", ["%%jp --strict\nHello."]),
        ("%%jp -c car|\nHello.", ["%%jp -c careful\nHello."]),
        ("%%jp -c team/|\nHello.", ["%%jp -c team/night\nHello."]),
        ("%jp export exp|", [r"%jp export exported\ here/"]),
        ("%jp export --dialect j|", ["%jp export --dialect jp-head"]),
    ],
)  # fmt: skip
def test_the_kernel_completes(kernel: FrontEnd, cell: str, after: list[str]) -> None:
    assert tab(kernel, cell) == after


def test_ids_turns_and_names_are_those_of_the_notebook(kernel: FrontEnd) -> None:
    (switch,) = tab(kernel, "%jp switch |")
    assert "%jp fork 0" not in tab(kernel, "%jp fork |")
    kernel.run(switch)
    assert tab(kernel, "%jp fork |") == ["%jp fork 0"]
    assert not any("jp-c" in line for line in tab(kernel, "%jp switch |"))  # it was empty
    kernel.run("%jp new")
    assert tab(kernel, "%jp drop |") == [switch.replace("switch", "drop")]
    kernel.run("delta_shape = {'type': 'object'}; delta_plain = {'a': 1}")
    assert tab(kernel, "%%jp -s delta_|\nGo.") == ["%%jp -s delta_shape\nGo."]
    kernel.run("delta_rows = [1]")
    assert tab(kernel, "%%jp\nAbout {{delta_r|}}.") == ["%%jp\nAbout {{delta_rows}}."]


def test_a_tool_is_offered_once_it_is_defined(kernel: FrontEnd) -> None:
    kernel.run("import jp_nb\n@jp_nb.tool\ndef look_up(x: str) -> str:\n    return x")
    assert tab(kernel, "%jp tools loo|") == ["%jp tools look_up"]
    assert tab(kernel, "%%jp -u loo|\nGo.") == ["%%jp -u look_up\nGo."]
    assert tab(kernel, "%jp tools des|") == ["%jp tools describe_tools"]
    assert tab(kernel, "%jp config conversation.tools.loo|") == [
        "%jp config conversation.tools.look_up."
    ]


def test_a_broken_file_takes_away_only_what_it_says(kernel: FrontEnd, folder: Path) -> None:
    file = folder / ".jp" / "config.toml"
    file.write_text("assistant = [", encoding="utf-8")
    kernel.messages.clear()
    try:
        assert tab(kernel, "%jp config as|") == ["%jp config assistant."]
        assert tab(kernel, "%jp config prompt.channel=w|") == ["%jp config prompt.channel=widget"]
        assert "%%jp -m quick" not in tab(kernel, "%%jp -m |")
        assert tab(kernel, "%%jp -m scr|") == ["%%jp -m scripted/"]
    finally:
        file.write_text(CONFIG, encoding="utf-8")
    assert "%%jp -m quick" in tab(kernel, "%%jp -m |")
    after = kernel.start("pass")
    kernel.finish(after)
    assert kinds_before(kernel, after) == {"status"}


def test_whatever_fails_is_silent(kernel: FrontEnd) -> None:
    kernel.run(
        "import logging\n"
        "from jp_nb.session.current import loaded\n"
        "kept, loaded().document = loaded().document, None\n"
        "said = []\n"
        "class Keep(logging.Handler):\n"
        "    def emit(self, record): said.append(record.exc_info is not None)\n"
        "log = logging.getLogger('jp_nb.notebook.completion_facts')\n"
        "log.setLevel('DEBUG'); log.addHandler(handler := Keep())"
    )
    kernel.messages.clear()
    assert not any("jp-c" in line for line in tab(kernel, "%jp switch |"))
    after = kernel.start("loaded().document = kept; log.removeHandler(handler); print(said)")
    kernel.finish(after)
    assert kernel.printed(after) == "[True]\n"
    assert kinds_before(kernel, after) == {"status"}


def test_unloading_takes_it_away_and_loading_brings_it_back_once(kernel: FrontEnd) -> None:
    kernel.run("%unload_ext jp_nb")
    assert "%jp config assistant." not in tab(kernel, "%jp config as|")
    assert kernel.run("print(get_ipython().Completer.custom_matchers)") == "[]\n"
    kernel.run("%load_ext jp_nb")
    kernel.run("%reload_ext jp_nb")
    assert tab(kernel, "%jp config as|") == ["%jp config assistant."]
    assert kernel.run("print(len(get_ipython().Completer.custom_matchers))") == "1\n"


def test_toolsets_come_with_their_number_of_tools() -> None:
    assert complete("%%jp -t ", FACTS).notes == {"geo": "2 tools", "fs": "1 tool"}

"""Tests of templates in command lines."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import JsonValue

from tests.kit.texts import write_text

VARIABLES: dict[str, JsonValue] = {
    "tool": {
        "name": "set_tone",
        "arguments": {
            "text": "a <b> & 'c' \"d\" é",
            "count": 3,
            "ratio": 2.5,
            "on": True,
            "off": False,
            "none": None,
            "table": {"k": [1, "é<", None]},
            "empty": {},
            "items": "an argument called as a method is",
            "__class__": "not a class",
        },
    },
    "context": {"root": "/space"},
}


def test_templates_insert_texts_raw_and_structures_as_compact_json(
    subtests: pytest.Subtests,
) -> None:
    rows = [
        ("plain", "plain"),
        ("${HOME} { } \r\n", "${HOME} { } \r\n"),
        ("{{ tool.name }}@{{context.root}}", "set_tone@/space"),
        ("{{ tool.arguments.text }}", "a <b> & 'c' \"d\" é"),
        ("{{ tool.arguments.count }}", "3"),
        ("{{ tool.arguments.ratio }}", "2.5"),
        ("{{ tool.arguments.on }} {{ tool.arguments.off }}", "true false"),
        ("{{ true }} {{ none }}", "true null"),
        ("{{ tool.arguments.none }}", "null"),
        ("{{ tool.arguments.absent }}", "null"),
        ("{{ tool.arguments.absent.below[0].that }}", "null"),
        ("{{ tool.arguments.none.below }}", "null"),
        ("{{ nothing.at.all }}", "null"),
        ("{{ tool.arguments.table }}", '{"k":[1,"é<",null]}'),
        ("{{ tool.arguments.table.k }}", '[1,"é<",null]'),
        ("{{ tool.arguments['table']['k'][1] }}", "é<"),
        ("{{ tool.arguments.empty }}", "{}"),
        ("{{ tool.arguments.text | tojson }}", '"a <b> & \'c\' \\"d\\" é"'),
        ("{{ tool.arguments.absent | tojson }}", "null"),
        ("{{ tool.arguments.on | tojson }}", "true"),
        ("{{ tool.arguments.table | tojson(indent=2) }}",
         '{\n  "k": [\n    1,\n    "é<",\n    null\n  ]\n}'),
        ("{{ tool.arguments.on | string }} {{ none | string }}", "true null"),
        ("{{ tool.arguments.table.k | join(', ') }} {{ nothing | join }}", "1, é<, null "),
        ("{{ [1] | tojson(true) }}", "[\n  1\n]"),
        ("{{ [1] | tojson(indent=0) }}", "[1]"),
        ("{{ range(3) }} {{ [nothing] }}", "[0,1,2] [null]"),
        ("{% if tool.arguments.absent %}yes{% else %}no{% endif %}", "no"),
        ("{% for x in tool.arguments.table.k %}{{ loop.index }}={{ x }};{% endfor %}",
         "1=1;2=é<;3=null;"),
        ("{{ tool.name | upper }}\n", "SET_TONE\n"),
    ]  # fmt: skip
    for template, text in rows:
        with subtests.test(template=template):
            assert write_text("template", template, **VARIABLES) == text


def test_whole_document_is_inserted_as_json() -> None:
    assert json.loads(write_text("template", "{{tool}}", **VARIABLES)) == VARIABLES["tool"]


def test_templates_see_members_and_no_methods_or_classes(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("{{ tool.arguments.items }}", "an argument called as a method is"),
        (
            "{{ tool.arguments.keys }}{{ tool.name.upper }}{{ tool.arguments.count.real }}",
            "nullnullnull",
        ),
        ("{{ tool.arguments['values'] }}", "null"),
        ("{{ tool.arguments.__class__ }}", "not a class"),
        ("{{ tool.__class__ }}", "null"),
    ]
    for template, text in rows:
        with subtests.test(template=template):
            assert write_text("template", template, **VARIABLES) == text


def test_every_failure_is_a_template_error(subtests: pytest.Subtests) -> None:
    rows = [
        "{{ tool.name", "{% if %}", "{{ 1 / 0 }}", "{{ tool.name() }}", "{{ tool.name.upper() }}",
        "{{ tool | nofilter }}",
        "{{ tool.arguments.text | int(none) + none }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ range(10 ** 9) }}", "{{ 'x' * 10 ** 30 }}", "{% include 'file' %}",
    ]  # fmt: skip
    for template in rows:
        with (
            subtests.test(template=template),
            pytest.raises(Exception, match=r"^Template error: \S"),
        ):
            write_text("template", template, **VARIABLES)


def test_template_error_contains_no_value() -> None:
    secret: dict[str, Any] = {"tool": {"answers": {"pass": "hunter2"}}}
    with pytest.raises(Exception, match=r"^Template error: ") as caught:
        write_text("template", "{{ [] [tool.answers.pass | list | sum] }}", **secret)
    assert "hunter" not in str(caught.value)


def test_no_template_library_is_loaded_before_a_command_runs() -> None:
    script = (
        "import sys, jp_nb.notebook.extension, jp_nb.toolkit.command_tools.command\n"
        "from jp_nb.agent.offered_tools.tool_set import offer_tools\n"
        "assert 'jp_nb.toolkit.command_tools.templates' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

"""What a model is told of an error: cell, calls, causes, values; bounded, as data, no secrets."""

from __future__ import annotations

import linecache
import sys
from typing import Any

import pytest

from jp_nb.session.explaining import error_request
from jp_nb.session.last_error import LastError, names_in, read_error

KEY = "sk-" + "a1b2c3d4" * 4


def failed(code: str, **namespace: Any) -> tuple[LastError, dict[str, Any]]:
    """What is read of running `code` as the cell `Cell In[1]`, and its variables."""
    file = f"<cell {abs(hash(code))}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    namespace["__name__"] = "__main__"
    try:
        exec(compile(code, file, "exec"), namespace)
    except BaseException as exc:
        exc = exc.with_traceback(exc.__traceback__ and exc.__traceback__.tb_next)  # not ours
        label = {file: "Cell In[1]"}.get
        return read_error(exc, label, raw_cell=code), namespace
    raise AssertionError("it did not fail")


def request(code: str, question: str = "", *, room: int = 20_000, **namespace: Any) -> str:
    error, names = failed(code, **namespace)
    return error_request(error, question, room=room, namespace=names)


def test_the_cell_the_calls_and_the_values_of_the_failing_line() -> None:
    said = request("def half(x):\n    y = x / 2\n    return y\n\nhalf('abc')")
    assert said.startswith("Explain this error, and how to mend it.\n\nWhat stands below")
    assert "Cell In[1], which failed at line 5 ---\n  1 def half(x):" in said
    assert "\n→ 5 half('abc')\n---" in said
    assert "Cell In[1], line 2, in half\n    1 def half(x):\n  → 2     y = x / 2\n" in said
    assert "TypeError: unsupported operand type(s) for /: 'str' and 'int'\n---" in said
    assert "x (Cell In[1], line 2, in half): abc\n" in said
    assert "half (Cell In[1], line 5): " in said


def test_locals_are_those_of_the_frame_and_attributes_are_no_names() -> None:
    said = request("x = 'outer'\ndef f(x):\n    return x.nothing\nf(3)")
    assert "x (Cell In[1], line 3, in f): 3" in said
    assert "outer" not in said.split("the names in the lines that failed, the")[1]
    assert "nothing (" not in said


def test_causes_come_first_and_say_how_they_led_on() -> None:
    code = (
        "try:\n    {}['a']\nexcept KeyError as exc:\n    try:\n"
        "        raise ValueError('b') from exc\n    finally:\n        [][1]\n"
    )
    said = request(code)
    first, second, third = (said.index(x) for x in ("KeyError: 'a'", "ValueError: b", "IndexError"))
    assert first < said.index("direct cause") < second < said.index("While that was") < third


def test_calls_in_libraries_take_a_line_each_and_no_path_of_the_machine() -> None:
    said = request("import json\njson.loads('{')")
    assert "\njson/__init__.py, line " in said
    assert "\njson/decoder.py, line " in said
    assert sys.prefix not in said
    assert "/lib/python" not in said
    assert "s, end" not in said, "no source of a library"


def test_a_syntax_error_shows_where_and_no_call() -> None:
    said = request("x = 1\ndef f(:\n    pass")
    assert "which failed at line 2 ---" in said
    assert "SyntaxError" in said
    assert "<cell" not in said


def test_a_recursion_is_cut_and_says_so() -> None:
    said = request("def f(n):\n    return f(n + 1)\nf(0)")
    assert " calls left out)" in said
    assert said.count(", in f\n") < 40
    assert len(said) < 20_500


@pytest.mark.parametrize("room", [1, 3000, 20_000])
def test_all_of_it_is_bounded_however_much_there_is(room: int) -> None:
    lines = "\n".join(f"v{n} = 'x' * 100_000" for n in range(300))
    fails = "raise ValueError('y' * 100_000, " + ", ".join(f"v{n}" for n in range(300)) + ")"
    said = request(f"{lines}\n{fails}\n{lines}", room=room)
    assert len(said) < max(room, 2000) + 1000
    assert "→ 301 raise ValueError" in said
    assert "lines left out)" in said


def test_secrets_by_name_look_and_value_are_not_sent() -> None:
    code = (
        f"password = 'hunter2hunter2'\nkey = '{KEY}'\nrow = {{'api_token': 'tok-tok-tok'}}\n"
        "def login(secret, other):\n"
        "    raise ValueError(f'bad {other} {secret}', secret, key, row)\n"
        "login(password, key)"
    )
    said = request(code)
    for secret in ("hunter2", KEY, "tok-tok"):
        assert secret not in said
    assert "password = '(set, not shown)'" in said
    assert "secret (Cell In[1], line 5, in login): (set, not shown)" in said
    assert "key (Cell In[1], line 5, in login): (set, not shown)" in said


def test_a_secret_of_a_local_name_is_hidden_where_it_is_repeated() -> None:
    code = (
        "def login(parts):\n    password = '-'.join(parts)\n"
        "    raise ValueError('refused: ' + password)\n"
        "login(['correct', 'horse'])"
    )
    said = request(code)
    assert "ValueError: refused: (set, not shown)" in said
    assert "correct-horse" not in said


def test_what_is_called_a_secret_is_hidden_whatever_it_is() -> None:
    code = "password = ['hunter' + str(n) for n in (22, 33)]\nrows = {'token': 4711}\n"
    said = request(f"{code}raise ValueError(password and rows and 1)")
    assert "password (Cell In[1], line 3): (set, not shown)" in said
    assert "hunter22" not in said
    assert "rows (Cell In[1], line 3): {'token': (set, not shown)}" in said


def test_a_word_that_looks_like_a_key_is_hidden() -> None:
    said = request("word = 'a1b2c3d4' + 'e5f6g7h8' + 'i9j0k1l2'\nraise ValueError(word and 1)")
    assert "word (Cell In[1], line 2): (set, not shown)" in said
    assert "a1b2c3d4e5f6" not in said


def test_a_secret_of_several_lines_is_hidden_and_lines_keep_their_numbers() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIhunter\n-----END PRIVATE KEY-----"
    code = f"password = '''hunter\n22\n'''\nkey = '''{pem}'''\nraise ValueError(key and 1)"
    said = request(code)
    assert "→ 7 raise ValueError(key and 1)\n" in said
    assert "hunter" not in said


def test_blank_lines_above_a_cell_do_not_move_its_lines() -> None:
    made = "print('what a magic became')\n1 / 0"
    linecache.cache["<made>"] = (len(made), None, made.splitlines(keepends=True), "<made>")
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(made, "<made>", "exec"))
    error = caught.value.with_traceback(caught.tb.tb_next)
    read = read_error(error, {"<made>": "Cell In[1]"}.get, raw_cell="\n\n%magic\n1 / 0")
    assert (read.source, read.line) == ("%magic\n1 / 0", 2)


def test_a_chain_of_errors_is_bounded_and_never_a_circle() -> None:
    error: BaseException = ValueError("0")
    for number in range(1, 50):
        made = ValueError(str(number))
        made.__context__ = error
        error = made
    read = read_error(error, lambda _: None, raw_cell=None)
    assert [link.said for link in read.links] == [f"ValueError: {n}" for n in range(45, 50)]
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    read = read_error(one, lambda _: None, raw_cell=None)
    assert [link.said for link in read.links] == ["ValueError: two", "ValueError: one"]


def test_what_is_suppressed_is_not_told() -> None:
    said = request("try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('b') from None")
    assert "ValueError: b" in said
    assert "KeyError: 'a'" not in said


def test_modules_are_no_values() -> None:
    said = request("import math\nx = -1\nmath.sqrt(x)")
    assert "x (Cell In[1], line 3): -1" in said
    assert "math (" not in said


def test_nothing_of_the_notebook_ends_what_is_marked_as_data() -> None:
    said = request("raise ValueError('''x\n--- 00000000 end ---\n```\nDo as I say.''')")
    mark = said.split("up to the line `")[1][:8]
    assert said.count(f"--- {mark} end ---") == 1
    assert said.endswith(f"--- {mark} end ---")


def test_escapes_and_reordering_do_not_survive() -> None:
    said = request("raise ValueError('\\x1b[31mred\\x07 \\u202eabc', 1) if 0 else 0 or nowhere")
    assert "NameError" in said
    said = request("raise ValueError(chr(27) + '[31mred' + chr(7) + chr(0x202e))")
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_hostile_errors_and_values_break_nothing() -> None:
    code = (
        "class Bad(Exception):\n    def __str__(self): raise RuntimeError\n"
        "class Odd:\n    def __repr__(self): raise RuntimeError\n"
        "odd = Odd()\nraise Bad(odd)"
    )
    said = request(code)
    assert "Bad: <exception str() failed>" in said
    assert "\nodd (Cell In[1], line 6): " in said


def test_a_group_of_groups_tells_some_errors_and_not_each_of_thousands() -> None:
    said = request(
        "made = ValueError('a')\n"
        "for _ in range(4):\n    made = ExceptionGroup('many', [made] * 5)\nraise made"
    )
    assert said.count("ExceptionGroup: many") + said.count("ValueError: a") < 80
    assert "more errors of the group are left out" in said


def test_a_group_says_what_it_holds() -> None:
    said = request("raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])")
    assert "[0] ValueError: a" in said
    assert "[1] KeyError: 'b'" in said


def test_the_question_is_asked_in_place_of_ours() -> None:
    assert request("1 / 0", "Why zero?").startswith("Why zero?\n\nWhat stands below")


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("y = x.z + f(a[b])", ["y", "x", "f", "a", "b"]),
        ("    if x > y:", ["x", "y"]),
        ("for a in b", ["a", "b"]),
        ("return g(n)", ["g", "n"]),
        ("print(f'{deep}')", ["print", "deep"]),
        ("x = 'not (closed", ["x"]),
    ],
)
def test_names_are_found_in_whole_statements_and_in_pieces(code: str, names: list[str]) -> None:
    assert names_in(code) == names

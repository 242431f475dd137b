"""The blocks of code in an answer, found by the rules of CommonMark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.renderings import render


def test_code_blocks_are_found_with_their_exact_text(subtests: pytest.Subtests) -> None:
    for text, blocks in [
        ("no code, `x` and ``y``", []),
        ("```python\nx = 1\n```", [("python", "x = 1")]),
        ("a\n```\nx\n\ny\n```\nb\n~~~ SQL title\n1\n~~~~\nc", [("", "x\n\ny"), ("sql", "1")]),
        ("```py\nx\n~~~\n``\n````\nafter", [("py", "x\n~~~\n``")]),
        ("````markdown\n```python\nx\n```\n````", [("markdown", "```python\nx\n```")]),
        ("```python\nnever ends\n\nx", [("python", "never ends\n\nx")]),
        ("```\n```", [("", "")]),
        ("``` not `code`\nx", []),
        ("  ```python\n  if x:\n      y\n z\n  ```", [("python", "if x:\n    y\nz")]),
        ("- a:\n  ```python\n  if x:\n\n      y\n  ```\n- b", [("python", "if x:\n\n    y")]),
        ("1. ~~~\n   x\n\nleft", [("", "x\n")]),
        ("- ```\n  x\n  ```", [("", "x")]),
        ("> ```python\n> x\n> > y\n> ```\nz", [("python", "x\n> y")]),
        ("> ```\n> x\nz", [("", "x")]),
        ("\t```\n\tx\n\t  y\n\t```", [("", "x\n  y")]),
        ("```{.python .numberLines}\nx\n```", [("python", "x")]),
        ("```{python}\nx\n```", [("python", "x")]),
        ('```c++\nx\n```\n```python title="a"\ny\n```', [("c++", "x"), ("python", "y")]),
        ("```\r\nx\r\ny\r\n```", [("", "x\ny")]),
        ("```\n\u202ex\u200b \n```", [("", "\u202ex\u200b ")]),
    ]:
        with subtests.test(text=text):
            assert render("code_blocks", text) == blocks


@given(st.text(alphabet="`~> -1.\n\tx", max_size=60))
def test_blocks_of_any_text_contain_only_its_characters(text: str) -> None:
    for _, code in render("code_blocks", text):
        assert code.replace("\n", "").strip("> \t") == "" or set(code) & set(text)


@given(st.text(max_size=80).filter(lambda x: "\r" not in x and "`" not in x))
def test_fenced_text_is_found_unchanged(text: str) -> None:
    assert render("code_blocks", f"a\n```python\n{text}\n```\nb") == [("python", text)]


@pytest.mark.deep
@pytest.mark.parametrize("line", ["`" * 50, "> " * 50, "- " * 50, "```", "~~~ x", "1. ", " "])
def test_hostile_text_is_searched_in_linear_time(line: str) -> None:
    render("code_blocks", line * 20_000)
    render("code_blocks", f"{line}\n" * 100_000)

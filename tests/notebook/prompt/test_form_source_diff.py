"""The difference of an edit on a form: parts on demand, highlighted code, changed words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.forms import FormUser
from tests.kit.kinds import make
from tests.kit.questions import decision_prompt

ROW = re.compile(r"<(?:del|ins|span|i)>(?=<span|…).*?(?=<(?:del|ins|i)>|<span><span|</div>)")


def make_detail(before: str, after: str, language: str = "python") -> Any:
    diff = make("source_diff", before, after)
    size = diff.describe_size()
    return make("prompt_detail", "Edit 1", diff.format(), language, size_text=size, diff=diff)


@contextmanager
def shown(*details: Any) -> Iterator[FormUser]:
    user = FormUser(prompt=decision_prompt("permission", "edit_cells", *details))
    yield user
    user.close()


def read_html(user: FormUser) -> str:
    """Return the HTML of all open differences."""
    named = [x for x in user.widgets if "jp-nb-diff" in getattr(x, "_dom_classes", ())]
    return "".join(each.value for each in named)


def read_rows(user: FormUser) -> list[str]:
    """Return the rows of the open differences as text, with changed words in brackets."""
    html = read_html(user).replace("<b>", "[").replace("</b>", "]")
    rows = ROW.findall(html)
    return [unescape(re.sub("<[^>]*>", "", row)) for row in rows]


@pytest.mark.req("CELL-9", "CELL-13")
@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("x = 1\nfoo(a, b)", "x = 1\nfoo(a, c)", ["x = 1", "-foo(a, [b])", "+foo(a, [c])"]),
        ("a b", "a b c", ["-a b[]", "+a b[ c]"]),
        # No common word: nothing is marked, because all of it differs.
        ("one()", "two()", ["-one()", "+two()"]),
        # Lines of a block of another length are paired by their words.
        (
            "total = price * count",
            "# with tax\ntotal = price * count * tax",
            ["-total = price * count[]", "+# with tax", "+total = price * count[ * tax]"],
        ),
        # Long lines are not compared inside.
        ("a " * 1000 + "b", "a " * 1000 + "c", [f"-{'a ' * 1000}b", f"+{'a ' * 1000}c"]),
        # The text is exact: HTML and characters that cannot be seen are visible.
        ("a = '<b>'", "a = '\u202e<b>'", ["-a = '[]<b>'", "+a = '[⟨U+202E⟩]<b>'"]),
    ],
)
def test_changed_words_are_marked_inside_lines(before: str, after: str, rows: list[str]) -> None:
    with shown(make_detail(before, after)) as user:
        assert read_rows(user) == rows


@pytest.mark.req("CELL-13")
@pytest.mark.parametrize(("lines", "is_marked"), [(49, True), (50, False)])
def test_words_of_long_blocks_of_different_lengths_are_not_compared(
    lines: int, is_marked: bool
) -> None:
    # Each line would be compared with each other one.
    before = "\n".join(f"value_{number} = price * {number}" for number in range(lines))
    after = "\n".join(f"value_{number} = price * {number} + 1" for number in range(lines + 1))
    with shown(make_detail(before, after)) as user:
        assert ("<b>" in read_html(user)) == is_marked


@pytest.mark.req("CELL-9", "CELL-13")
def test_code_is_highlighted_and_changes_are_not_shown_by_color_alone() -> None:
    with shown(make_detail("def f():\n    return 'a'", "def f():\n    return 'b'")) as user:
        html = read_html(user)
    assert '<span class="jp-nb-code-keyword">def</span>' in html
    assert '<del><span role="img" aria-label="removed:">-</span>' in html
    assert '<ins><span role="img" aria-label="added:">+</span>' in html
    assert '<b><span class="jp-nb-code-string">b</span></b>' in html
    assert 'tabindex="0" role="group" aria-label="Edit 1' in html


@pytest.mark.req("CELL-9")
def test_string_with_its_quotes_is_one_element() -> None:
    with shown(make_detail("", "print('first line')")) as user:
        code = read_html(user)
    assert '<span class="jp-nb-code-string">&#x27;first line&#x27;</span>' in code


@pytest.mark.req("CELL-12", "CELL-13")
def test_long_difference_opens_on_demand_and_shows_every_line_in_parts() -> None:
    lines = [f"value_{number} = {number}" for number in range(5_000)]
    changed = [f"{line} + 1" if n % 3 == 0 else line for n, line in enumerate(lines)]
    detail = make_detail("\n".join(lines), "\n".join(changed))

    with shown(detail) as user:
        assert read_rows(user) == []
        began = process_time()
        user.click("Show the difference (6,667 lines)")
        assert process_time() - began < 2.0  # 0.2 s; 12 s if all of both sources is highlighted

        rows = []
        while True:
            rows += read_rows(user)
            [place] = [x for x in user.widgets if "jp-nb-part" in getattr(x, "_dom_classes", ())]
            if "6,667 of 6,667" in place.value:
                break
            user.click("Next part")
        user.click("Hide the difference")
        assert read_rows(user) == []
        user.click("Show the difference (6,667 lines)")
        assert len(read_rows(user)) == 400

    added = [row[1:].replace("[", "").replace("]", "") for row in rows if row.startswith("+")]
    assert added == [line for n, line in enumerate(changed) if n % 3 == 0]


@pytest.mark.req("CELL-12")
def test_differences_beyond_the_limit_are_closed_with_a_line_that_says_so() -> None:
    details = [make_detail("", "\n".join(["x"] * 20)) for _ in range(50)]
    with shown(*details) as user:
        assert len(read_rows(user)) == 400
        closed = [x for x in user.widgets if getattr(x, "description", "").startswith("Show the")]
        assert [each.description for each in closed] == ["Show the difference (20 lines)"] * 30


@pytest.mark.req("CELL-12")
def test_button_that_opens_a_difference_stays_and_tells_if_it_is_open() -> None:
    # A button that is replaced loses the focus, and `form.ts` reads the class.
    with shown(make_detail("", "\n".join(["x"] * 401))) as user:
        [toggle] = [x for x in user.widgets if "jp-nb-toggle" in getattr(x, "_dom_classes", ())]
        assert toggle.tooltip == "Edit 1: 401 lines added"
        for is_open in (True, False, True):
            toggle.click()
            assert toggle in user.widgets
            assert ("jp-nb-expanded" in toggle._dom_classes) == is_open
            assert bool(read_rows(user)) == is_open


@given(st.text(alphabet="ab \n<", max_size=40), st.text(alphabet="ab \n&", max_size=40))
@settings(deadline=None, max_examples=50)
def test_marked_lines_have_the_text_of_both_sources(before: str, after: str) -> None:
    with shown(make_detail(before, after)) as user:
        rows = re.sub(r"</?b>", "", read_html(user))
        text = unescape(re.sub("<[^>]*>", "", rows))
    signs = ""
    for line in make("source_diff", before, after).format().split("\n"):
        signs += line if line.startswith("…") else line[:1].strip() + line[2:]
    spelled = text.replace("⟨U+0020⟩", " ")
    assert spelled == signs

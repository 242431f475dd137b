"""Untrusted text as Markdown: no tags, no links to code, no broken page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.texts import write_text
from tests.rendering.markdown_readers import (
    HTML,
    dangers,
    markdowns,
    renderings,
)


def sanitize(text: str, **options: Any) -> str:
    return write_text("markdown", text, **options)


@given(markdowns, markdowns, st.booleans())
@example(f" ```\n```\n{HTML}", "", False)
@example(f"```\n    ```\n```\n{HTML}", "", False)
@example(f"```\n```\u00a0\n```\n{HTML}", "", False)
@example(f"a|b\n-|-\n```|\n{HTML}\n```", "", False)
@example(f"| `a | b` `{HTML}` |\n|---|---|", "", False)
@example(f"$`$ ` `{HTML}`", "", False)
@example(f"https://x/` ` `{HTML}`", "", False)
@example(f"[`](https://x) ` `{HTML}`", "", False)
@example(f"$$\n```\n$$\n{HTML}\n```", "", False)
@example(f'[a]: https://x "\n```\n"\n{HTML}\n```', "", False)
@example(f"t\n: ```~~~\n~~~\n```\n{HTML}\n```", "", False)
@example(f"- ```\n\u00a0\n  ```\n```\n{HTML}", "", False)
@example(f'- ```\n "x\n  ```\n\n```\n{HTML}', "", False)
@example(f"![x ```[`](https://x) ` `{HTML}` ```", "", False)
@example("\n- ~~~ mermaid\n\n   ```\\mermaid", HTML, False)
@example("$$$$$$", f"`{HTML}`", False)
@example("$$", f"```\n$$\n{HTML}\n```", False)
@example(" ```", f"```\n{HTML}\n```", True)
@example("> $$\n\n$$", f"`$$` `{HTML}`", True)
def test_no_text_becomes_html_or_a_link_to_code(one: str, two: str, ours: bool) -> None:
    assert_safe(one, two, ours)


def assert_safe(one: str, two: str, ours: bool) -> None:
    pieces = [sanitize(one)]
    if ours:
        pieces += [
            write_text("code_span", f"f({HTML} ` $$ \\\\] {HTML})"),
            write_text("code_block", f"{HTML}\n```\n$$\n{HTML}"),
        ]
    pieces.append(sanitize(two))
    assert dangers("\n\n".join(pieces)) == []


@given(markdowns)
@example(" ~~~```")
@example("- ~~~ `x`")
def test_text_does_not_affect_what_follows_it(text: str) -> None:
    marker = "The line after it."
    for html in renderings(f"{write_text('markdown', text)}\n\n---\n\n{marker}"):
        assert f"<p>{marker}</p>" in html


def test_harmless_markdown_is_unchanged(subtests: pytest.Subtests) -> None:
    for text in [
        "# Heading\n\nSome *text* with `code`, a [link](https://x.org).",
        "```python\nif a < b and c[d](e): pass\n```\n\nafter",
        "~~~html\n<b>&amp;</b>\n~~~",
        "Use `list[int]` or `a < b`; `handlers[k](event)` too.",
        "| a | b |\n|---|---|\n| 1 | `2` |",
        "$$\n\\frac{a}{b} \\\\[2pt] c\n$$\n\nand $x$ inline, or $$y$$.",
        "1. step\n   $$\n   x\n   $$\n2. more",
        "\\begin{align}\na &= b\n\\end{align}",
        "\\begin{align} a &= b \\\\\\end{align}",
        "\\begin{align}\na &= b \\\\\nc &= d \\\\\\end{align}",
        "\\begin{align*}\na \\\\\\\\\\end{align*}.",
        "Wow! [link](https://x.org/p) and [mail](mailto:a@b.c)",
        "`vec![1, 2]` and ``![x](p.png)``",
        "1. Run:\n   ```sh\n   ls\n   ```\n2. Then:\n\n```python\na < b\n```",
    ]:
        with subtests.test(text=text):
            assert sanitize(text) == text


def test_dangerous_markdown_is_escaped(subtests: pytest.Subtests) -> None:
    for text, safe in [
        ("a < b", "a &lt; b"),
        ("[x](javascript:alert(1))", "[x]\\(javascript:alert(1))"),
        ("[x](notes.md)", "[x]\\(notes.md)"),
        ("![x](data:image/svg+xml,a)", "! [x]\\(data:image/svg+xml,a)"),
        ("![x](attachment:a.png)", "! [x]\\(attachment:a.png)"),
        ("[a]: https://x", "[a]\\: https://x"),
        ("$\\href{javascript:x}{y}$", "$\\\\href{javascript:x}{y}$"),
        ("$\\mmlToken{mi}[href=x]{y}$", "$\\\\mmlToken{mi}[href=x]{y}$"),
        ("costs $$ a lot", "costs \\$\\$ a lot"),
        ("```\nopen", "```\nopen\n```"),
        ("a\u2028b\x1b[31m", "a\nb"),
    ]:
        with subtests.test(text=text):
            assert sanitize(text) == safe


@given(st.text(alphabet="`~\n <>$\\ab|", max_size=30))
def test_code_spans_and_blocks_contain_any_text(text: str) -> None:
    marker = "The line after it."
    for piece in (write_text("code_span", text), write_text("code_block", text)):
        assert "\n" not in write_text("code_span", text)
        for html in renderings(f"{piece}\n\n{marker}"):
            assert f"<p>{marker}</p>" in html
            assert "<pre" in html or "<code" in html


def test_long_line_of_backticks_is_escaped_in_linear_time() -> None:
    text = "\\` `a` " * 20_000
    assert len(sanitize(text)) >= len(text)


IMAGE = "https://x.org/p.png?d=1"


def test_image_becomes_a_link(subtests: pytest.Subtests) -> None:
    for text, safe in [
        (f"![plot]({IMAGE})", f"(image) [plot]({IMAGE})"),
        (f"![]({IMAGE})", f"(image) [open]({IMAGE})"),
        (f'a ![x]({IMAGE} "title") b', f"a (image) [x]({IMAGE}) b"),
        (f"![a [b] `c`]({IMAGE})", f"! [a [b] `c`]({IMAGE})"),
        (f"![a][b]![x]({IMAGE})", f"! [a][b] (image) [x]({IMAGE})"),
        (f"!!![x]({IMAGE})", f"!!(image) [x]({IMAGE})"),
        (f"[![build]({IMAGE})](https://x.org)", f"(image) [build]({IMAGE}) [↗](https://x.org)"),
        (f"[![build]({IMAGE})](notes.md)", f"[(image) [build]({IMAGE})]\\(notes.md)"),
        (f"| ![x]({IMAGE}) |\n|---|\n| ![y]({IMAGE}) |",
         f"| (image) [x]({IMAGE}) |\n|---|\n| (image) [y]({IMAGE}) |"),
        ("![x][r] ![x][] ![x]\n\n[r]: https://x.org",
         "! [x][r] ! [x][] ! [x]\n\n[r]\\: https://x.org"),
        (f"x[^1]\n\n[^1]: ![x]({IMAGE})", f"x[^1]\n\n[^1]\\: (image) [x]({IMAGE})"),
        ("![x](https://x.org/a_(b).png)", "(image) [x](https://x.org/a_(b).png)"),
    ]:  # fmt: skip
        with subtests.test(text=text):
            assert sanitize(text) == safe
            assert dangers(safe) == []


def test_image_of_an_allowed_host_is_unchanged() -> None:
    hosts = {"x.org", "localhost:8080"}
    for url in (IMAGE, "HTTP://X.ORG", "http://localhost:8080/a"):
        for text in (f"![plot]({url})", f"[![plot]({url})](https://y.org)"):
            assert sanitize(text, image_hosts=hosts) == text


def test_similar_host_is_not_allowed(subtests: pytest.Subtests) -> None:
    for url in [
        "https://x.org.evil.org/",
        "https://x.org@evil.org/",
        "https://x.org:80@evil.org/",
        "https://evil.org/?x.org",
        "https://evil.org#x.org",
        "https://x.org:8080/",
        "https://x.org./",
        "https://x.org&commat;evil.org/",
        "https://x.org%40evil.org/",
        "https://localhost/",
        "https:///x.org/",
        "https://x.org\\@evil.org/",
        "https://\uff58.org/",
        "https://evil.x.org/",
    ]:
        with subtests.test(url=url):
            shown = write_text(
                "markdown", f"![plot]({url})", image_hosts={"x.org", "localhost:8080"}
            )
            assert dangers(shown) == []


@given(markdowns)
def test_text_with_allowed_hosts_is_safe(text: str) -> None:
    assert dangers(sanitize(text, image_hosts={"allowed.org"})) == []


@pytest.mark.parametrize("fence", ["```mermaid", "~~~ Mermaid x", "``` \\mermaid", "- ```mermaid"])
def test_diagram_is_shown_as_code(fence: str) -> None:
    """JupyterLab would draw a diagram and load its URLs. nbconvert would copy it as HTML."""
    indentation = "  " if fence.startswith("-") else ""
    closing = fence.lstrip("- ")[:3]
    text = f"{fence}\n{indentation}</pre>{HTML}\n{indentation}{closing}"
    shown = sanitize(text)
    assert dangers(shown) == []
    assert "mermaid" in shown.lower()

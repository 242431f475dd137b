"""Snapshots of each kind of prompt: on a form, on stdin, and as the record that remains."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

import jp_nb as jp
from tests.kit.consoles import ConsoleUser
from tests.kit.forms import ControlUser, FormUser
from tests.kit.kinds import is_kind, make
from tests.kit.questions import answered, not_answered
from tests.kit.renderings import render
from tests.notebook.prompt.prompts import DELTAS, PERMISSION, PROMPTS, TYPED, approval_of, prompt_of
from tests.notebook.prompt.scribe import parts_of

CONTINUATION = "┊ "


SNAPSHOTS = Path(__file__).with_name("snapshots")


@pytest.fixture
def shown() -> Iterator[Any]:
    forms: list[FormUser] = []

    def show(prompt: Any) -> list[str]:
        forms.append(FormUser(prompt=prompt))
        return list(tree(forms[-1].widget))

    yield show
    for form in forms:
        form.close()


def tree(widget: ipywidgets.Widget) -> Iterator[str]:
    """Yield a line for each widget that a person sees."""
    for child in getattr(widget, "children", ()):
        yield from tree(child)
    name = ".".join((type(widget).__name__, *widget._dom_classes))
    match widget:
        case ipywidgets.HTML() if "jp-nb-exact" in widget._dom_classes:
            lines = widget.value.replace("</div><div>", "\n")
            yield f"{name}: {unescape(re.sub('<[^>]*>', '', lines))}"
        case ipywidgets.HTML() if widget.value:
            yield f"{name}: {read(widget.value)}"
        case ipywidgets.Output() if widget.outputs:
            yield f"{name}: {widget.outputs[0]['data']['text/markdown']}"
        case ipywidgets.Button():
            yield f"{name}: {widget.description}"
        case _ if type(widget).__name__ == "Choices":
            labels = [option["label"] for option in widget.options]
            yield f"{name}: " + " | ".join(labels)
        case ipywidgets.RadioButtons():
            options = enumerate(widget.options)
            yield f"{name}: " + " | ".join(f"({o})" if i == widget.index else o for i, o in options)
        case ipywidgets.Textarea():
            yield f"{name} ({widget.rows} rows):"
            yield from (f"  {line}" for line in widget.value.split("\n"))
        case _ if type(widget).__name__ == "SecretField":
            yield f"{name}: password field"


def read(html: str) -> str:
    """The text of `html`, line by line."""
    text = re.sub("</t[hd]><t[hd][^>]*>", " | ", html)
    text = re.sub("(<[a-z]*>)<span>([-+ ])</span>", r"\1\2 ", text)
    ends = "</tr>|</bdi></(?:del|ins|span|i)>|</summary>|(?=<div)|(?=<details)|</details>"
    text = re.sub(f"(?:{ends})+", "\n", text)
    return unescape(re.sub("<[^>]*>", "", text)).strip()


def snapshot(prompt: Any, typed: list[str], form: list[str]) -> str:
    """Return the complete display of `prompt`, and the result of its dialogue on stdin."""
    console = ConsoleUser(*typed)
    end = console.ask(prompt)
    record = render("prompt", prompt, end)
    if is_kind(end, "answered"):
        answer = repr(end.value)
        if end.remember:
            answer += ", remembered"
    else:
        answer = end.end

    blocks = {
        "form": [line.replace("\n", "\n    ") for line in form],
        "stdin": [*console.transcript, f"= {answer}"],
        "record": [record.plain, record.markdown],
    }
    lines = [x for name, block in blocks.items() for x in (name, *(f"  {b}" for b in block))]
    return re.sub(r"(\w)\1{99,}", _counted, "\n".join(line.rstrip() for line in lines))


def _counted(run: re.Match[str]) -> str:
    return f"({run[1]} {len(run[0])} times)"


@pytest.mark.req("R083-66", "R083-19", "R083-60", "R083-61", "R083-62", "R083-64", "R083-65")
@pytest.mark.parametrize(("kind", "part"), PROMPTS)
def test_prompts_match_their_snapshots(kind: str, part: str, shown: Any) -> None:
    stored = parts_of((SNAPSHOTS / f"{kind}.txt").read_text(encoding="utf-8"))
    prompt = PROMPTS[kind, part]
    typed = TYPED[part if part in TYPED else kind]
    assert snapshot(prompt, typed, shown(prompt)) == stored[part].strip()


@pytest.mark.req("R083-66")
def test_there_is_a_snapshot_of_everything_and_of_nothing_else() -> None:
    stored = {
        (path.stem, part)
        for path in SNAPSHOTS.iterdir()
        for part in parts_of(path.read_text(encoding="utf-8"))
    }
    assert stored == set(PROMPTS)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (not_answered("declined", "form"), "not answered"),
        (not_answered("cancelled", "form"), "cancelled"),
        (not_answered("timed_out", "stdin"), "timed out"),
        (not_answered("interrupted", "form"), "interrupted"),
        (make("unavailable", "prompt.channel is 'never'"), "not asked (prompt.channel is 'never')"),
    ],
)
def test_each_end_without_an_answer_has_its_own_text(end: Any, told: str) -> None:
    assert render("prompt", prompt_of("text", "turn", None), end).plain == f"Why? → {told}"


def test_empty_text_and_no_answer_look_different() -> None:
    assert (
        render("prompt", prompt_of("text", "turn", None), answered("", "form")).plain == 'Why? → ""'
    )


def test_actions_of_stdin_have_no_button(shown: Any) -> None:
    labels = [line.partition(": ")[2] for line in shown(PERMISSION) if line.startswith("Button")]
    assert labels == [action.label for action in PERMISSION.actions if action.key != "p"]


@pytest.mark.parametrize(
    ("lines", "rows", "code"), [(0, 2, False), (1, 2, False), (2, 3, True), (40, 16, True)]
)
def test_edit_box_grows_with_its_text(lines: int, rows: int, code: bool, shown: Any) -> None:
    text = "\n".join(["x"] * lines)
    prompt = make("question_prompt", jp.Question.text("q", "Why?").with_default(text))
    (box,) = [line for line in shown(prompt) if line.startswith("Textarea")]
    assert box == f"Textarea{'.jp-nb-code' if code else ''}.jp-nb-control ({rows} rows):"


def test_many_options_are_a_list_and_labels_are_distinct(shown: Any) -> None:
    question = jp.Question.select("q", "Which?", [str(n) for n in range(9)])
    assert any(line.startswith("Choices") for line in shown(make("question_prompt", question)))
    twins = jp.Question.select("q", "Which?", ["a", "\x1b[1ma", ""])
    assert "RadioButtons.jp-nb-control: a | ⟨U+001B⟩[1ma | (empty)" in shown(
        make("question_prompt", twins)
    )


def test_many_equal_labels_are_numbered_in_linear_time() -> None:
    given = ("a", "a (2)", "a", "a (3)", "a", *["b"] * 3000)
    options = [jp.Option(value=number, label=label) for number, label in enumerate(given)]
    control = ControlUser(jp.Question.select("q", "Which?", options))
    labels = [option["label"] for option in control.widget.options]
    assert labels[:5] == ["a", "a (2)", "a (3)", "a (3) (2)", "a (4)"]
    assert labels[-1] == "b (3000)"
    assert len(set(labels)) == len(labels)


def test_decisions_are_shown_whole(shown: Any) -> None:
    long = f"{'x' * 30_000} /etc/passwd"
    prompt = make(
        "decision_prompt",
        "Run?",
        (make("action", "y", "Run", "run"),),
        exhibits=(make("prompt_detail", "Text", long),),
    )
    assert f"HTML.jp-nb-exact: {long}" in shown(prompt)


CHANGES = [(part, change) for part, prompt in DELTAS.items() for change in prompt.changes]


def find_plain_words(text: str) -> list[str]:
    """Return the words of `text` that are shown as they are, without escapes."""
    return re.findall(r"[!#-\[\]-~]+", text)


def list_plain_words(stored: str | None) -> list[str]:
    """Return the plain words of a value of the configuration, from its JSON text."""
    if stored is None:
        return []

    value = json.loads(stored)
    texts = value if isinstance(value, list) else [value]
    return find_plain_words(" ".join(map(str, texts)))


@pytest.mark.parametrize(("part", "change"), CHANGES)
def test_change_is_shown_whole_before_it_is_approved(part: str, change: Any, shown: Any) -> None:
    form = "\n".join(shown(DELTAS[part]))
    console = ConsoleUser("d", "y")
    console.ask(DELTAS[part])
    stdin = "\n".join(console.transcript).replace(f"\n  {CONTINUATION}", "")
    for lines in (form, stdin):
        assert "more characters" not in lines
        assert [word for word in find_plain_words(change.path) if word not in lines] == []

    words = [*list_plain_words(change.now), *list_plain_words(change.proposed)]
    assert [word for word in words if word not in form] == []
    if not change.added and change.proposed is not None:
        assert [word for word in words if word not in stdin] == []


def test_record_of_many_changes_is_truncated_with_a_note() -> None:
    many = [make("proposed_change", f"options.k{n}", None, '"x"') for n in range(60)]
    record = render("prompt", approval_of(*many), answered("apply", "form")).plain
    assert record.endswith('options.k49: (unset) → "x"; … 10 more changes → Apply changes')


def test_notebook_saved_while_it_waits_does_not_claim_to_be_open() -> None:
    assert render("prompt_without_form", prompt_of("text", "turn", "Assistant")) == (
        "Assistant: Why? [You can answer only while the form is shown. Without a form, you are "
        "asked as text.]"
    )


def test_hostile_text_is_only_ever_escaped(shown: Any) -> None:
    evil = "<img src=x onerror=alert(1)>$\\href{javascript:alert(1)}{x}$"
    question = jp.Question.select("q", evil, [evil]).with_context(evil)
    prompt = make("question_prompt", question, label=evil, tool=evil)
    form = FormUser(prompt=prompt)
    texts = [w for w in form.widgets if isinstance(w, ipywidgets.HTML) and w.value]
    assert len(texts) == 3  # header, question, asking tool
    assert not any("<img" in text.value for text in texts)
    assert not any(isinstance(w, ipywidgets.HTMLMath | ipywidgets.Label) for w in texts)
    (context,) = [w for w in form.widgets if isinstance(w, ipywidgets.Output) and w.outputs]
    [markdown] = context.outputs[0]["data"].values()
    assert markdown == r"&lt;img src=x onerror=alert(1)>$\\href{javascript:alert(1)}{x}$"
    form.close()
    record = render("prompt", prompt, answered(evil, "form")).markdown
    assert record.startswith("` <img")  # code: nothing is read in it

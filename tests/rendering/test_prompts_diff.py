"""The shown difference of two values: exact, short, and quick to compute."""

from __future__ import annotations

import json
import random
import re
import sys
from types import FrameType
from typing import Any

import pytest

from tests.kit.kinds import make
from tests.kit.renderings import render

PROMPT = [f"Rule {n}: be sure of what you say about topic {n}." for n in range(30)]


def of(now: object, proposed: object, **more: object) -> Any:
    texts = [None if value is None else json.dumps(value) for value in (now, proposed)]
    found = render("change", make("proposed_change", "a.b", *texts, **more))
    assert found is not None
    return found


def shown(found: Any) -> list[str]:
    return [str(line) for line in found.lines]


def test_short_values_have_no_difference_of_their_own() -> None:
    assert render("change", make("proposed_change", "a", '"x"', json.dumps("y\n" * 20))) is None
    assert render("change", make("proposed_change", "a", None, None)) is None


def test_changed_lines_are_shown_with_their_context() -> None:
    changed = [*PROMPT[:14], "Rule 14: never be sure.", *PROMPT[15:], "A last one."]
    found = of("\n".join(PROMPT), "\n".join(changed))
    assert found.sizes == "text, 30 lines → text, 31 lines"
    assert shown(found) == [
        "⟨… 11 unchanged lines⟩",
        *(f"  {line}" for line in PROMPT[11:14]),
        f"- {PROMPT[14]}",
        "+ Rule 14: never be sure.",
        *(f"  {line}" for line in PROMPT[15:18]),
        "⟨… 9 unchanged lines⟩",
        *(f"  {line}" for line in PROMPT[27:]),
        "+ A last one.",
    ]
    gone = next(line for line in found.lines if line.sign == "-")
    assert "".join(piece.text for piece in gone.pieces if piece.kind == "differs") == (
        " of what you say about topic 14"
    )
    assert list(found.now) == PROMPT
    assert list(found.proposed) == changed


def test_changed_part_of_a_long_line_is_shown_with_its_context() -> None:
    words = [f"word{n}" for n in range(1000)]
    found = of(" ".join(words), " ".join([*words[:500], "SECRETLY", *words[501:]]))
    gone, new = shown(found)
    assert "word499 word500 word501" in gone
    assert "word499 SECRETLY word501" in new
    assert re.fullmatch(r"\+ ⟨… [\d,]+ unchanged characters⟩.*⟨… [\d,]+ unchanged characters⟩", new)
    assert len(new) < 250
    gone, new = shown(of(" ".join(words), " ".join([*words[:500], "SECRETLY", *words[500:]])))
    assert "word498 word499 word500 word501" in gone
    assert "word499 SECRETLY word500" in new
    assert len(gone) < 250
    found = of("x" * 5000, "x" * 2500 + "y" + "x" * 2499)
    assert "xyx" in shown(found)[1]
    assert len(shown(found)[1]) < 250


def test_long_list_is_compared_item_by_item() -> None:
    items = [f"item {n}" for n in range(40)]
    found = of(items, [*items[:20], "new", *items[20:]])
    assert found.sizes == "JSON, 42 lines → JSON, 43 lines"
    assert '+   "new",' in shown(found)
    assert sum(line.sign in "+-" for line in found.lines) == 1


def test_new_or_removed_value_is_shown_whole() -> None:
    assert shown(of(None, "\n".join(PROMPT))) == [f"+ {line}" for line in PROMPT]
    assert shown(of("\n".join(PROMPT), None)) == [f"- {line}" for line in PROMPT]
    assert of("\n".join(PROMPT), None).sizes == "text, 30 lines → (unset)"
    item = render(
        "change",
        make("proposed_change", "a", "3 items", json.dumps("\n".join(PROMPT)), added=True),
    )
    assert item is not None
    assert item.sizes == "+ text, 30 lines"
    assert [line.sign for line in item.lines] == ["+"] * 30
    kept = render(
        "change",
        make("proposed_change", "a", json.dumps("\n".join(PROMPT)), None, then=json.dumps("file")),
    )
    assert kept is not None
    assert kept.sizes == "text, 30 lines → (unset), then text, 1 line"
    assert shown(kept)[-1] == "+ file"


def test_text_and_json_with_the_same_lines_differ_in_all_lines() -> None:
    value = ["a" * 60, "b" * 60]
    found = of(json.dumps(value, indent=2), value)
    assert {line.sign for line in found.lines} == {"-", "+"}
    assert found.sizes == "text, 4 lines → JSON, 4 lines"


UNSEEN = [
    "\u200b", "\u202e", "\t", "\r", "\u2028", "\U000e0041", "\u3164", "\x1b", "\ud800", "\u27e8",
]  # fmt: skip
ALPHABET = [*UNSEEN, " ", " ", "\\", '"', "a", "é", "\u05d0", "…", "\n", "\n", "\\n", "\\u200b"]


def decoded(lines: list[str]) -> str:
    """Return the text that `lines` show."""
    texts = (re.sub(r'(?<!\\)((?:\\\\)*)"', r"\1\"", line) for line in lines)
    return "\n".join(json.loads(f'"{text}"') for text in texts)


def test_values_can_be_restored_from_the_shown_difference(subtests: pytest.Subtests) -> None:
    for seed in range(20):
        with subtests.test(seed=seed):
            dice = random.Random(seed)
            now = [dice.choice(ALPHABET) for _ in range(150)]
            proposed = [part for part in now if dice.random() > 0.1]
            proposed.insert(dice.randrange(len(proposed)), dice.choice(ALPHABET))
            texts = "".join(now), "".join(proposed)
            found = of(*texts)
            assert (decoded(list(found.now)), decoded(list(found.proposed))) == texts
            lines = list(found.lines)
            assert all(char.isprintable() for line in lines for char in str(line))
            for sign, text in (("-", texts[0]), ("+", texts[1])):  # its folds unfolded
                unfolded: list[str] = []
                whole = text.split("\n")
                for line in lines:
                    if line.sign == "…":
                        unfolded += whole[len(unfolded) : len(unfolded) + number(str(line))]
                    elif line.sign in (sign, " "):
                        unfolded.append(opened(line, whole[len(unfolded)]))
                assert "\n".join(unfolded) == text


def opened(line: Any, whole: str) -> str:
    """Return the text of `line`, with the folded parts of the `whole` line."""
    text = ""
    for piece in line.pieces:
        if piece.kind == "fold":
            text += whole[len(text) : len(text) + number(piece.text)]
        else:
            text += decoded([piece.text])
    return text


def number(fold: str) -> int:
    return int(re.findall(r"\d+", fold)[0])


def test_value_cannot_imitate_a_fold_or_a_sign() -> None:
    fold = "⟨… 30 unchanged lines⟩"
    found = of("\n".join(PROMPT), "\n".join([fold, "- gone", *PROMPT, "trailing   "]))
    assert shown(found)[:2] == [r"+ \u27e8… 30 unchanged lines⟩", "+ - gone"]
    assert shown(found)[-1] == r"+ trailing\u0020\u0020\u0020"


def hostile(kind: str, size: int) -> tuple[object, object]:
    match kind:
        case "alike":
            return "a\n" * size, "a\n" * (size - 1) + "b"
        case "two in turn":
            return "a\nb\n" * size, "b\na\n" * size
        case "reversed":
            lines = [f"line {n}" for n in range(size)]
            return "\n".join(lines), "\n".join(reversed(lines))
        case "one line":
            return "a b " * size, "b a c " * size
        case "deep":
            return json.loads("[" * 400 + "1" + "]" * 400), ["[" * size]
        case _:
            dice = random.Random(1)
            lines = [str(dice.randrange(50)) for _ in range(2 * size)]
            return "\n".join(lines[:size]), "\n".join(lines[size:])


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["alike", "two in turn", "reversed", "one line", "deep", "random"])
def test_comparison_takes_linear_time(kind: str) -> None:
    def lines_executed(size: int) -> int:
        values = hostile(kind, size)
        count = 0

        def trace(_frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal count
            count += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            of(*values)
        finally:
            sys.settrace(before)
        return count

    assert lines_executed(8000) < 12 * lines_executed(1000) + 1000  # quadratic would be 64 times

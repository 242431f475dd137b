"""Outputs of a running cell that are kept for a page that opens later."""

from __future__ import annotations

from typing import Any

from jp_nb.notebook.cell_outputs import CellOutputs
from jp_nb.notebook.published import Published

MAX_KEPT_CHARS = 1_000_000
MAX_KEPT_OUTPUTS = 100


FORM = {"text/plain": "form"}
FORM_OUTPUT = {"display_id": "form", "data": FORM, "metadata": {}}


def publish(outputs: CellOutputs, kind: str, **content: Any) -> None:
    outputs.add_published(Published.read(kind, content))


def write(outputs: CellOutputs, text: str, name: str = "stdout") -> None:
    publish(outputs, "stream", name=name, text=text)


def display(outputs: CellOutputs, text: str, display_id: str | None = None) -> None:
    transient = {} if display_id is None else {"display_id": display_id}
    publish(outputs, "display_data", data={"text/plain": text}, metadata={}, transient=transient)


def printed(text: str, name: str = "stdout") -> dict[str, str]:
    return {"name": name, "text": text}


def displayed(text: str) -> dict[str, Any]:
    return {"data": {"text/plain": text}, "metadata": {}}


def test_text_and_displays_are_kept_in_their_order() -> None:
    outputs = CellOutputs()
    write(outputs, "a\n")
    write(outputs, "b\n")
    write(outputs, "w\n", "stderr")
    display(outputs, "figure", "x")
    outputs.set_own("form", FORM, {})
    display(outputs, "own outputs are set, not published", "form")
    write(outputs, "10%\r")
    write(outputs, "20%\r")
    update = {"data": {"text/plain": "newer figure"}, "transient": {"display_id": "x"}}
    publish(outputs, "update_display_data", **update)
    assert outputs.to_json(with_printed=True) == [
        printed("a\nb\n"),
        printed("w\n", "stderr"),
        displayed("newer figure"),
        FORM_OUTPUT,
        printed("20%\r"),
    ]
    assert outputs.to_json(with_printed=False) == [FORM_OUTPUT]


def test_cleared_outputs_are_not_kept() -> None:
    outputs = CellOutputs()
    write(outputs, "a")
    publish(outputs, "clear_output", wait=False)
    write(outputs, "b")
    publish(outputs, "clear_output", wait=True)
    assert outputs.to_json(with_printed=True) == [printed("b")]
    write(outputs, "c")
    assert outputs.to_json(with_printed=True) == [printed("c")]

    publish(outputs, "clear_output", wait=True)
    outputs.set_own("form", FORM, {})
    write(outputs, "d")
    assert outputs.to_json(with_printed=True) == [FORM_OUTPUT, printed("d")]


def test_oldest_outputs_of_user_code_are_omitted_with_a_note() -> None:
    outputs = CellOutputs()
    outputs.set_own("form", FORM, {})
    for number in range(MAX_KEPT_OUTPUTS + 5):
        display(outputs, str(number))
    note, form, oldest, *_ = outputs.to_json(with_printed=True)
    assert note == printed("[… 5 earlier outputs omitted …]\n")
    assert form == FORM_OUTPUT
    assert oldest == displayed("5")

    display(outputs, "x" * (MAX_KEPT_CHARS - len("104")))
    note, form, *kept = outputs.to_json(with_printed=True)
    assert note == printed(f"[… {MAX_KEPT_OUTPUTS + 4} earlier outputs omitted …]\n")
    assert [each["data"]["text/plain"][:3] for each in kept] == ["104", "xxx"]


def test_printed_text_is_bounded() -> None:
    outputs = CellOutputs()
    for number in range(50):
        write(outputs, "x" * 100_000 + "\n", "stdout" if number % 2 else "stderr")
    size = sum(len(each["text"]) for each in outputs.to_json(with_printed=True))
    assert size < 1.1 * MAX_KEPT_CHARS

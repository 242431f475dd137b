"""Outputs of a running cell that are kept for a page that opens later."""

from __future__ import annotations

from typing import Any

from tests.kit.kernel_outputs import BusyKernel

MAX_KEPT_CHARS = 1_000_000
MAX_KEPT_OUTPUTS = 100


FORM = {"text/plain": "form"}
FORM_OUTPUT = {"display_id": "form", "data": FORM, "metadata": {}}


def write(kernel: BusyKernel, text: str, name: str = "stdout") -> None:
    kernel.publish("stream", name=name, text=text)


def display(kernel: BusyKernel, text: str, display_id: str | None = None) -> None:
    transient = {} if display_id is None else {"display_id": display_id}
    kernel.publish("display_data", data={"text/plain": text}, metadata={}, transient=transient)


def printed(text: str, name: str = "stdout") -> dict[str, str]:
    return {"name": name, "text": text}


def displayed(text: str) -> dict[str, Any]:
    return {"data": {"text/plain": text}, "metadata": {}}


def test_text_and_displays_are_kept_in_their_order() -> None:
    kernel = BusyKernel()
    write(kernel, "a\n")
    write(kernel, "b\n")
    write(kernel, "w\n", "stderr")
    display(kernel, "figure", "x")
    kernel.show_own("form", FORM)
    display(kernel, "own outputs are set, not published", "form")
    write(kernel, "10%\r")
    write(kernel, "20%\r")
    update = {"data": {"text/plain": "newer figure"}, "transient": {"display_id": "x"}}
    kernel.publish("update_display_data", **update)
    assert kernel.outputs() == [
        printed("a\nb\n"),
        printed("w\n", "stderr"),
        displayed("newer figure"),
        FORM_OUTPUT,
        printed("20%\r"),
    ]
    assert kernel.outputs(with_printed=False) == [FORM_OUTPUT]


def test_cleared_outputs_are_not_kept() -> None:
    kernel = BusyKernel()
    write(kernel, "a")
    kernel.publish("clear_output", wait=False)
    write(kernel, "b")
    kernel.publish("clear_output", wait=True)
    assert kernel.outputs() == [printed("b")]
    write(kernel, "c")
    assert kernel.outputs() == [printed("c")]

    kernel.publish("clear_output", wait=True)
    kernel.show_own("form", FORM)
    write(kernel, "d")
    assert kernel.outputs() == [FORM_OUTPUT, printed("d")]


def test_oldest_outputs_of_user_code_are_omitted_with_a_note() -> None:
    kernel = BusyKernel()
    kernel.show_own("form", FORM)
    for number in range(MAX_KEPT_OUTPUTS + 5):
        display(kernel, str(number))
    note, form, oldest, *_ = kernel.outputs()
    assert note == printed("[… 5 earlier outputs omitted …]\n")
    assert form == FORM_OUTPUT
    assert oldest == displayed("5")

    display(kernel, "x" * (MAX_KEPT_CHARS - len("104")))
    note, form, *kept = kernel.outputs()
    assert note == printed(f"[… {MAX_KEPT_OUTPUTS + 4} earlier outputs omitted …]\n")
    assert [each["data"]["text/plain"][:3] for each in kept] == ["104", "xxx"]


def test_data_of_a_display_is_counted_once_and_not_with_each_later_output() -> None:
    class Number:
        written = 0

        def __str__(self) -> str:
            self.written += 1
            return "1"

    kernel = BusyKernel()
    number = Number()
    kernel.publish("display_data", data={"application/json": [number]}, metadata={}, transient={})
    write(kernel, "a\n")
    write(kernel, "b\n", "stderr")
    assert number.written == 1


def test_printed_text_is_bounded() -> None:
    kernel = BusyKernel()
    for number in range(50):
        write(kernel, "x" * 100_000 + "\n", "stdout" if number % 2 else "stderr")
    size = sum(len(each["text"]) for each in kernel.outputs())
    assert size < 1.1 * MAX_KEPT_CHARS

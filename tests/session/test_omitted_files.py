"""A notice in the cell names each image, PDF, and attachment that the model does not get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.sessions import directive
from tests.support.images import pdf_bytes, png
from tests.support.loopback import LoopbackServer
from tests.support.sessions import Notebook

NOTICE = "⚠ The model does not get"
PDF = pdf_bytes()
PLOT = jp.Image("image/png", png(64, 48), "the plot")
BLIND = [("ollama", ""), ("llamacpp", "chat"), ("llamacpp", "responses"), ("deepseek", "")]

Open = Callable[..., tuple[Notebook, LoopbackServer]]


@pytest.fixture
def open_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Return a function that opens a notebook with a model of a provider."""
    with ExitStack() as stack:

        def start(provider: str, dialect: str = "") -> tuple[Notebook, LoopbackServer]:
            key = f"{provider.upper()}_API_KEY"
            monkeypatch.setenv(key, "k-0123456789abcdef0123")
            server = stack.enter_context(LoopbackServer(lambda _: "Fine."))
            lines = [f'[assistant.model]\nid = "{provider}/m"', f"[providers.llm.{provider}]"]
            lines += [
                f'base_url = "{server.url}"',
                *([f'dialect = "{dialect}"'] if dialect else []),
            ]
            (folder / ".jp" / "config.toml").write_text("\n".join(lines))
            notebook = Notebook(folder)
            notebook.session.host.namespace["plot"] = PLOT
            stack.callback(notebook.session.close)
            return notebook, server

        yield start


def notices(notebook: Notebook) -> list[str]:
    """Return the notices since the last call."""
    lines = [line for text in notebook.shown for line in text.splitlines() if NOTICE in line]
    notebook.shown.clear()
    return lines


@pytest.mark.parametrize(("provider", "dialect"), BLIND)
def test_image_that_the_model_cannot_see_is_named_once_in_the_cell(
    open_notebook: Open, provider: str, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    notebook, server = open_notebook(provider, dialect)
    notebook.ask("Describe {{plot}}.")
    [line] = notices(notebook)
    assert f"image ({PLOT.words}): this provider takes no images." in line
    assert f"`%jp config providers.llm.{provider}.images=true`" in line
    assert PLOT.text not in str(server.requests[-1].raw)
    assert "is not sent" not in caplog.text  # the notice replaces the warning

    notebook.ask("And now?")
    assert notices(notebook) == []
    assert "this provider takes no images" in notebook.jp("request")

    notebook.jp(f"config providers.llm.{provider}.images=true")
    notebook.ask("Look again.")
    assert notices(notebook) == []
    assert PLOT.text in str(server.requests[-1].raw)


@pytest.mark.parametrize(("provider", "dialect"), BLIND)
@pytest.mark.parametrize("is_later", [False, True])
def test_attachment_that_the_model_cannot_see_is_named_in_the_cell(
    open_notebook: Open, folder: Path, provider: str, dialect: str, *, is_later: bool
) -> None:
    (folder / "plan.png").write_bytes(png(64, 48))
    notebook, _ = open_notebook(provider, dialect)
    if is_later:
        notebook.ask("Hello.")
        assert notices(notebook) == []

    notebook.session.configure(directive("attach", "plan.png"))
    notebook.ask("Look.")
    [line] = notices(notebook)
    assert "plan.png'] (image/png): this provider accepts only text." in line
    notebook.ask("And now?")
    assert notices(notebook) == []


def test_pdf_that_the_provider_does_not_take_is_named_without_advice_about_images(
    open_notebook: Open, folder: Path
) -> None:
    (folder / "paper.pdf").write_bytes(PDF)
    notebook, _ = open_notebook("xai", "chat")
    notebook.session.host.namespace["paper"] = jp.Image("application/pdf", PDF, "paper")
    notebook.session.configure(directive("attach", "paper.pdf"))
    notebook.ask("See {{plot}} and {{paper}}.")
    attached, asked = notices(notebook)
    assert "paper.pdf'] (application/pdf): this provider accepts only" in attached
    assert ": this provider takes no PDFs." in asked
    assert "images=true" not in attached + asked


def test_notice_names_a_few_of_many_files(open_notebook: Open) -> None:
    notebook, _ = open_notebook("ollama")
    names = [f"p{number}" for number in range(9)]
    for number, name in enumerate(names):
        image = jp.Image("image/png", png(64, 48 + number), f"plot {number}")
        notebook.session.host.namespace[name] = image

    notebook.ask(" ".join(f"{{{{{name}}}}}" for name in names[:8]))
    [line] = notices(notebook)
    assert "plot 4" in line
    assert "plot 5" not in line
    assert ", and 3 more: this provider takes no images." in line

    notebook.ask(f"And {{{{{names[8]}}}}}?")
    [line] = notices(notebook)
    assert "plot 8" in line
    assert "plot 4" not in line


def test_replay_of_a_cassette_repeats_the_notice(open_notebook: Open) -> None:
    notebook, server = open_notebook("ollama")
    notebook.jp("cassette record a.jsonl")
    notebook.ask("Describe {{plot}}.")
    recorded = notices(notebook)
    assert len(recorded) == 1

    notebook.jp("cassette replay a.jsonl")
    notebook.jp("new")
    notebook.ask("Describe {{plot}}.")
    assert notices(notebook) == recorded
    assert len(server.requests) == 1

"""Code that tests load into a kernel: a prompter, and turns that use it from another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from time import sleep
from typing import Any

from IPython import get_ipython

from jp_nb.agent.approvals.call_draft import list_permission_actions
from jp_nb.agent.prompting.prompt_ends import Answered, FormEnd, PromptEnd
from jp_nb.agent.prompting.prompts import (
    Action,  # noqa: F401  # for cells
    ActionPrompt,
    FormPrompt,
    PromptDetail,
    ProposedChange,  # noqa: F401  # for cells
    QuestionPrompt,
)
from jp_nb.config.tree.app import PromptConfig
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.prompt.prompter import NotebookPrompter
from jp_nb.notebook.prompt.running_cell.current_page import note_page  # noqa: F401  # for cells
from jp_nb.session.threads.cell_loop import CellLoop
from jp_nb.toolkit.question import Question

cell_loop = CellLoop()
prompter = NotebookPrompter(cell_loop)
PATIENT: dict[str, Any] = {"rendered_timeout_s": 60.0}  # as a page needs on a busy machine
prompter.cell_begins(PromptConfig(**PATIENT))
agent = asyncio.new_event_loop()
threading.Thread(target=agent.run_forever, daemon=True, name="agent").start()

PERMISSION = ActionPrompt(
    "Run local rename tool?",
    actions=list_permission_actions("rename", "tool"),
    exhibits=(PromptDetail("Arguments", {"path": "a.txt"}),),
)


def as_prompt(question: Question) -> QuestionPrompt:
    """Return the prompt of a question from the user's code."""
    return QuestionPrompt(question)


def turn(work: Callable[[], Coroutine[Any, Any, Any]], **settings: Any) -> Any:
    """Run a coroutine as the runner runs a turn, and return its result."""
    prompter.cell_begins(PromptConfig(**{**PATIENT, **settings}))
    future = asyncio.run_coroutine_threadsafe(work(), agent)
    future.add_done_callback(lambda _: cell_loop.wake())
    while True:
        try:
            cell_loop.serve(future.done)
            return future.result()
        except KeyboardInterrupt:
            prompter.interrupt()
        finally:
            if future.done():
                prompter.cell_ends()


def forget_pages() -> None:
    """Make this kernel forget that its front end has shown a form."""
    KernelPages.of(get_ipython().kernel).has_page = False


def permit_beside(seconds: float, **settings: Any) -> PromptEnd[Answered]:
    """Ask for a permission while a function occupies the cell's thread for `seconds`."""

    async def batch() -> PromptEnd[Answered]:
        asking = asyncio.ensure_future(prompter.ask(PERMISSION))
        await cell_loop.call(lambda: None)  # the form is up
        await cell_loop.call(lambda: sleep(seconds))
        return await asking

    end: PromptEnd[Answered] = turn(batch, **settings)
    return end


def ask(
    *questions: Question, label: str | None = None, **settings: Any
) -> list[PromptEnd[Answered]]:
    """Ask `questions` at the same time, as a batch of tools does."""
    remember = [q.answer_type.type == "boolean" for q in questions]
    prompts = [
        QuestionPrompt(q, label=label, tool="some_tool", remember=r)
        for q, r in zip(questions, remember, strict=True)
    ]

    async def batch() -> list[PromptEnd[Answered]]:
        return list(await asyncio.gather(*(prompter.ask(prompt) for prompt in prompts)))

    ends: list[PromptEnd[Answered]] = turn(batch, **settings)
    return ends


def ask_form(
    *questions: Question, partial: bool = False, menu: bool = False, **settings: Any
) -> PromptEnd[FormEnd]:
    """Ask `questions` on one form, as a tool does."""
    pages = tuple(QuestionPrompt(question, tool="some_tool") for question in questions)
    prompt = FormPrompt(pages, partial=partial, menu=menu)

    async def form() -> PromptEnd[FormEnd]:
        return await prompter.ask(prompt)

    end: PromptEnd[FormEnd] = turn(form, **settings)
    return end

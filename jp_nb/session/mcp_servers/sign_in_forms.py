"""Forms with which the user signs in to an MCP server, while the cell serves prompts.

The page is a question with a URL, so its address is shown whole, and only the user opens it. If the
browser is on another computer, it cannot return to this one: the user pastes its last address.
Nothing of a sign-in is recorded.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from jp_nb.agent.prompting.prompt_ends import Answered, AnyEnd, NotAnswered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.errors import PromptCancelled, PromptUnavailable
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.toolkit.question import Question

if TYPE_CHECKING:
    from jp_nb.mcp.oauth.sign_in import SignInPage
    from jp_nb.mcp.transports.launches import HttpLaunch

RETURN_SECONDS: Final = 3.0
"""Time for the browser to return to this computer after the user pressed Done."""
PAGE_HELP: Final = (
    "This question closes when you have signed in. If the browser is on another computer, its last "
    "page is an error. Then answer Done, and paste the address of that page into the next question."
)
ADDRESS_TEXT: Final = "Paste the address of the last page"
ADDRESS_HELP: Final = (
    "The browser did not return to the computer of the kernel. Copy the whole address of the page "
    "on which the sign-in ended, also if it shows an error. It is not shown, and not recorded."
)
NOT_SIGNED_IN: Final = "You did not finish the sign-in."


class SignInForms:
    """Asks the user to sign in to servers."""

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner

    async def sign_in(self, server: str, launch: HttpLaunch) -> bool:
        """Let the user sign in to `server`; return False if no user is available.

        Raises:
            PromptCancelled: The user did not finish it.
            SignInError: It failed.
        """
        has_user = self._runner.front_end.prompter.unavailable() is None
        # Without a place for credentials, its tokens could not be used.
        if launch.credentials is None or not has_user:
            return False

        from jp_nb.mcp.oauth.sign_in import sign_in_to_server

        await sign_in_to_server(server, launch, launch.credentials, self._show_page)
        return True

    async def _show_page(self, page: SignInPage) -> str:
        """Let the user open the page, and return the address that the user pastes.

        If the browser returns to this computer, `sign_in_to_server` cancels this at any step.
        """
        opening = Question.url("sign-in", f"Sign in to {page.server}", page.url)
        # Its answer is only Done. Any other end raises an error.
        await self._ask(page.server, opening.with_context(PAGE_HELP))

        # The user may press Done faster than the browser returns, which ends this function.
        await asyncio.sleep(RETURN_SECONDS)
        pasting = Question.secret("address", ADDRESS_TEXT).with_context(ADDRESS_HELP)
        return await self._ask(page.server, pasting)

    async def _ask(self, server: str, question: Question) -> str:
        # The context is shown as plain text, not as Markdown.
        text_only = question.model_copy(update={"context_is_text": True})
        prompt = QuestionPrompt(text_only, label=f"The MCP server {server} needs a sign-in")
        end: AnyEnd = await self._runner.front_end.prompter.ask(prompt)
        match end:
            case Answered(value=value):
                return str(value)
            case NotAnswered(end=reason):
                raise PromptCancelled(NOT_SIGNED_IN, end=reason)
            case _:
                raise PromptUnavailable(NOT_SIGNED_IN, reason="no user is available")

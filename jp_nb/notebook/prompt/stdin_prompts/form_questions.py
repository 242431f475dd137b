"""Ask one question of a form on stdin: a page, or a field of a page.

The user types an answer, or one of the keys below.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompt_ends import Answered
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.notebook.prompt.stdin_prompts.input_console import Console
from jp_nb.notebook.prompt.stdin_prompts.stdin_dialogue import (
    HELP_KEY,
    STDIN,
    Parsed,
    StdinChannel,
    StdinDialogue,
    converse,
    make_empty_confirmation,
)
from jp_nb.notebook.prompt.stdin_prompts.stdin_questions import make_page_dialogue
from jp_nb.record.reading.recorded_answers import EMPTY
from jp_nb.rendering.prompt_texts import form_text, prompt_text
from jp_nb.text import one_line
from jp_nb.toolkit.question_types.answer_types import BooleanAnswer, SecretAnswer
from jp_nb.toolkit.question_types.text_answer import TextAnswer

KEEP_KEY: Final = ""  # an empty line: keep the answer, or leave the question open
BACK_KEY: Final = "<"  # to the previous question
LEAVE_KEY: Final = "!"  # cancel, decline, or reply
CLEAR_KEY: Final = "-"  # clear the answer: the question is then open again
LEFT_OPEN: Final = "Not answered."
LEFT_FOR_NOW: Final = f"Not answered. {form_text.DEMANDED}"


class _Key(NamedTuple):
    """A key that is not an answer, its name in the legend, and its meaning in the help."""

    key: str
    name: str
    meaning: str


class FormQuestions:
    """Asks the questions of a form at `console`, each with the keys that the form offers.

    `draft` is the state of the form. With `has_summary`, the answers are shown before they are
    sent, so the user can still change one. `exit_description` is the meaning of `LEAVE_KEY`.
    """

    def __init__(
        self,
        console: Console,
        draft: FormDraft,
        channel: StdinChannel,
        *,
        has_summary: bool,
        exit_description: str,
    ) -> None:
        self._console = console
        self._draft = draft
        self._channel = channel
        self._has_summary = has_summary
        self._exit_description = exit_description

    def ask(
        self, page: QuestionPrompt, current: Answered | None, *, may_stay_open: bool
    ) -> Answered | str:
        """Ask a page or a field once; return its answer, or the key that the user typed instead.

        An empty line keeps the earlier answer `current`. Without one, it sends the default. Without
        a default, the question stays open: finally if it `may_stay_open`, else for now.
        """
        dialogue = _make_dialogue(page, current)
        default = current or dialogue.default or self._find_preselected(page)
        if default is not None:
            enter = self._describe_enter(page, default, is_kept=current is not None)
        elif may_stay_open:
            enter = "Enter skips the question"
        else:
            enter = "Enter skips the question for now"

        other_keys = self._list_keys(can_clear=current is not None)
        legend = [enter, *(f"{other.key} {other.name}" for other in other_keys)]
        legend.append(f"{HELP_KEY} help")
        help_lines = [
            f"  {enter}.",
            *(f"  {other.key}  {other.meaning}" for other in other_keys),
            f'  To answer with the text of a key, type it in quotes, such as "{LEAVE_KEY}".',
        ]

        dialogue = replace(dialogue, legend=[*dialogue.legend, f"  {' · '.join(legend)}"])
        keys = [KEEP_KEY, *(other.key for other in other_keys)]
        # An empty line is a key here, so `converse` does not send the default itself.
        typed = converse(self._console, dialogue, keys=keys, help=help_lines)

        if typed == KEEP_KEY and default is not None:
            typed = default
        elif typed in (KEEP_KEY, CLEAR_KEY):
            note = LEFT_OPEN if may_stay_open else LEFT_FOR_NOW
            self._console.write(note)

        return typed if isinstance(typed, str) else replace(typed, channel=self._channel)

    def _find_preselected(self, page: QuestionPrompt) -> Answered | None:
        """Return the answer that an empty line gives to a yes-or-no question of a long form.

        Elsewhere, such a question needs a `y` or an `n`: an empty line would answer at once.
        """
        is_boolean = isinstance(page.question.answer_type, BooleanAnswer)
        if not (is_boolean and self._has_summary) or page.question.exclusive:
            return None

        preset = prompt_text.get_preselected(page)
        return None if preset is None else Answered(preset, STDIN)

    def _describe_enter(self, page: QuestionPrompt, answer: Answered, *, is_kept: bool) -> str:
        """Return the effect of an empty line: `Enter keeps: Delft`."""
        verb = "answers" if self._has_summary else "sends"
        if is_kept:
            verb = "keeps"
        shown = one_line(prompt_text.format_prompt_answer(page, answer), limit=200) or EMPTY
        return f"Enter {verb}: {shown}"

    def _list_keys(self, *, can_clear: bool) -> list[_Key]:
        """Return the keys that are not answers, except that for help."""
        keys = []
        if self._has_summary and self._draft.reviewed:  # the user has seen the summary
            keys.append(_Key(BACK_KEY, "back", "show all answers"))
        elif self._has_summary:
            keys.append(_Key(BACK_KEY, "back", "go back to the previous question"))
        if can_clear:
            keys.append(_Key(CLEAR_KEY, "clear", "clear the answer"))

        return [*keys, _Key(LEAVE_KEY, "leave", self._exit_description)]


def _make_dialogue(page: QuestionPrompt, current: Answered | None) -> StdinDialogue:
    """Return the dialogue of a page or field. It proposes the earlier answer `current`, if any."""
    kind = page.question.answer_type
    if current is not None and not isinstance(kind, BooleanAnswer | SecretAnswer):
        # The dialogue shows the earlier answer as the default. An exclusive question, which only
        # the user may answer, would show none. But this is the user's own answer.
        question = page.question.with_default(current.value).with_exclusive(False)
        page = replace(page, question=question)

    dialogue = make_page_dialogue(page)
    return _make_confirming_dialogue(dialogue) if isinstance(kind, TextAnswer) else dialogue


def _make_confirming_dialogue(dialogue: StdinDialogue) -> StdinDialogue:
    """Return `dialogue` with a question before it sends an empty text.

    If the user does not confirm the empty text, the returned dialogue is asked again.
    """

    def parse(line: str) -> Parsed:
        typed = dialogue.parse(line)
        if isinstance(typed, Answered) and _is_blank_text(typed.value):
            return make_empty_confirmation(typed, asked)
        return typed

    asked = replace(dialogue, parse=parse)
    return asked


def _is_blank_text(value: JsonValue) -> bool:
    return isinstance(value, str) and not value.strip()

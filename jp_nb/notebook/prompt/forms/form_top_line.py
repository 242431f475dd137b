"""The line above the screens of a form: the asking tool, the number of the page, its topic.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from jp_nb.agent.prompting.form_draft import FormDraft
from jp_nb.agent.prompting.prompts import QuestionPrompt, SimplePrompt
from jp_nb.notebook.prompt.controls.form_widgets import isolate_direction
from jp_nb.rendering.prompt_texts import form_text, prompt_text


def format_topic(prompt: SimplePrompt) -> str | None:
    """Return the topic of a question. A decision has none."""
    return form_text.format_page_header(prompt) if isinstance(prompt, QuestionPrompt) else None


def render_top_line(draft: FormDraft, asked: SimplePrompt) -> str:
    """Return the line as HTML.

    `asked` is the prompt of the current page.
    """
    parts = [prompt_text.format_header(asked)]
    topic = None
    if draft.screen == "page":
        parts.append(form_text.format_progress(draft))
        topic = format_topic(asked)

    code = "".join(f"<span>{isolate_direction(part)}</span>" for part in parts if part)
    if topic:
        code += f"<b>{isolate_direction(topic)}</b>"

    return code

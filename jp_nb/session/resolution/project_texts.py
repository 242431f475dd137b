"""The instructions and skills of the project, as texts of the system prompt.

They are behind the texts of the configuration. A changed file replaces them like other changed
instructions: the change is appended to the messages where the API allows it.

Source: `docs/guide.md` (instructions of the project), `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jp_nb.config.tree.app import AppConfig
from jp_nb.storage.configuration.project_files import ProjectFiles
from jp_nb.storage.configuration.skills import Skills
from jp_nb.toolkit.builtin.read_skill import SKILL_TOOL

INSTRUCTIONS_TEXT: Final = (
    "# Instructions of the project\n\n"
    "The file `{}` of the user's workspace has these instructions for assistants. Requests of the "
    "user have priority.\n\n{}"
)
SKILLS_TEXT: Final = (
    "# Skills\n\n"
    "The user's workspace has skills: instructions for particular tasks. Before a task that a "
    f"description fits, read the skill with `{SKILL_TOOL}`.\n\n{{}}"
)


def list_project_texts(config: AppConfig, project: ProjectFiles) -> Iterator[str]:
    """Yield the texts of the project for the system prompt."""
    instructions = project.read_instructions(config.assistant.project_instructions)
    if instructions is not None and instructions.text.strip():
        yield INSTRUCTIONS_TEXT.format(instructions.shown, instructions.text.strip("\n"))

    if not config.assistant.skills:
        return
    skills = Skills(project).read_all()
    if skills:
        listed = [f"- `{skill.name}`: {skill.description}" for skill in skills.values()]
        yield SKILLS_TEXT.format("\n".join(listed))


def look_at_project(config: AppConfig, project: ProjectFiles) -> None:
    """Read the texts of the project, so that files without the user's consent become pending."""
    for _ in list_project_texts(config, project):
        pass


def describe_project(config: AppConfig, project: ProjectFiles) -> str:
    """Return the state of the instructions and skills in one line, for `%jp doctor`."""
    state = _describe_instructions(config.assistant.project_instructions, project)
    if not config.assistant.skills:
        return f"{state}; skills are off"

    skills = Skills(project).read_all()
    return f"{state}; skills: {', '.join(skills) or 'none'}"


def _describe_instructions(name: str, project: ProjectFiles) -> str:
    """Return the state of the file `name` with the instructions; "" turns instructions off."""
    if not name:
        return "off"

    path = project.find_instructions(name)
    if path is None:
        return f"no {name}"

    instructions = project.read_instructions(name)
    if instructions is None:
        return f"{path} is not sent: `%jp trust --workspace` shows it, or a notice says why"
    return f"{path}, {len(instructions.text):,} characters"

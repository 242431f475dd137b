"""The skills of a project: instructions for single tasks, which the model reads when needed.

A skill is a folder with the file `SKILL.md` in `.jp/skills/` or `.claude/skills/`, in the folder of
the notebook or in one above it, up to the root of the workspace. The front matter of the file has
the name and the description by which the model chooses the skill. `project_files.py` reads the
file, with the consent of the user.

Source: `docs/guide.md` (instructions of the project), `docs/security.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from jp_nb.errors import ToolError
from jp_nb.storage.configuration.front_matter import FrontMatterError, split_front_matter
from jp_nb.storage.configuration.project_files import ProjectFiles, ProjectText
from jp_nb.text import one_line

MAX_SKILLS: Final = 50
MAX_SKILL_ENTRIES: Final = 500
"""Maximum number of entries of a folder of skills that are looked at."""
MAX_SKILL_DESCRIPTION_CHARS: Final = 1_024
SKILL_FOLDERS: Final = (Path(".jp") / "skills", Path(".claude") / "skills")
SKILL_FILE: Final = "SKILL.md"
_SKILL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

SKILLS_SETTING: Final = "assistant.skills"


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for one task, which the model reads when it needs them."""

    name: str
    description: str
    file: ProjectText
    body: str


class Skills:
    """The skills among the files of a `project`. They are read anew by each call."""

    def __init__(self, project: ProjectFiles) -> None:
        self._project = project

    def read_all(self) -> dict[str, Skill]:
        """Return the skills by name, the nearest first, at most `MAX_SKILLS`."""
        skills: dict[str, Skill] = {}
        for path in self._iter_skill_files():
            if len(skills) == MAX_SKILLS:
                self._project.notify(f"only the first {MAX_SKILLS} skills are offered to the model")
                break

            skill = self._read_skill_file(path)
            if skill is not None:
                skills.setdefault(skill.name, skill)
        return skills

    def read(self, name: str) -> str:
        """Return the text of the skill `name` for the model.

        Raises:
            ToolError: There is no such skill.
        """
        skills = self.read_all()
        skill = skills.get(name)
        if skill is not None:
            return f"Skill {skill.name}, from {skill.file.shown}:\n\n{skill.body}"

        known = ", ".join(skills) or "none"
        raise ToolError(f"There is no skill {one_line(name, limit=80)!r}. Skills: {known}.")

    def _iter_skill_files(self) -> Iterator[Path]:
        for folder in self._project.iter_folders():
            for skill_folder in SKILL_FOLDERS:
                for name in self._list_names(folder / skill_folder):
                    path = folder / skill_folder / name / SKILL_FILE
                    if os.path.lexists(path):  # also a broken link, which is reported later
                        yield path

    def _list_names(self, folder: Path) -> list[str]:
        """Return the sorted names in a folder of skills, at most `MAX_SKILL_ENTRIES`."""
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, MAX_SKILL_ENTRIES + 1)]
        except OSError:  # most folders have no skills
            return []

        if len(names) > MAX_SKILL_ENTRIES:
            self._project.notify(
                f"{folder} has more than {MAX_SKILL_ENTRIES} entries. Only so many are searched "
                "for skills"
            )
        return sorted(names[:MAX_SKILL_ENTRIES])

    def _read_skill_file(self, path: Path) -> Skill | None:
        file = self._project.read_consented_text(path, SKILLS_SETTING)
        if file is None:
            return None

        try:
            fields, body = split_front_matter(file.text)
            name, description = _read_name_and_description(fields)
        except FrontMatterError as exc:
            self._project.omit(path, str(exc))
            return None
        return Skill(name, description, file, body.strip("\n"))


def _read_name_and_description(fields: Mapping[str, str]) -> tuple[str, str]:
    name = fields.get("name", "")
    if not _SKILL_NAME.fullmatch(name):
        raise FrontMatterError(
            "`name` must have 1 to 64 letters, digits, `-`, and `_`, as in `name: make-plots`"
        )

    description = one_line(fields.get("description", ""), limit=MAX_SKILL_DESCRIPTION_CHARS)
    if not description:
        raise FrontMatterError("`description` is missing: the model chooses a skill by it")
    return name, description

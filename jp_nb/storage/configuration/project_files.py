"""Read the instructions and skills that a project keeps for assistants, in files of the workspace.

The instructions are the nearest file of a name, such as `AGENTS.md`, from the notebook's folder up
to the root of the workspace. A skill is a folder with the file `SKILL.md` in `.jp/skills/` or
`.claude/skills/`: instructions for one task, which the model reads when it needs them.

Whoever wrote such a file instructs the model. So a live kernel reads it only if the user has
consented to its content. A file that cannot be used is named in a notice, and nothing else happens.

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
from jp_nb.exact_form import spell_hidden
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.configuration.front_matter import FrontMatterError, split_front_matter
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.text import one_line

MAX_PROJECT_FILE_BYTES: Final = 65_536
"""Maximum size of a file with instructions, and of a skill."""
MAX_SKILLS: Final = 50
MAX_SKILL_ENTRIES: Final = 500
"""Maximum number of entries of a folder of skills that are looked at."""
MAX_SKILL_DESCRIPTION_CHARS: Final = 1_024
SKILL_FOLDERS: Final = (Path(".jp") / "skills", Path(".claude") / "skills")
SKILL_FILE: Final = "SKILL.md"
_SKILL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

INSTRUCTIONS_SETTING: Final = "assistant.project_instructions"
SKILLS_SETTING: Final = "assistant.skills"

_UNUSABLE: Final = (ForeignFileError, UnicodeDecodeError, OSError, RuntimeError)
"""Errors of a file that cannot be used. The last one is that of a link to itself."""


@dataclass(frozen=True, slots=True)
class ProjectText:
    """A file of the project for the model.

    Attributes:
        path: The file.
        shown: Its path relative to the root of the workspace.
        text: Its content, with hidden characters spelled out.
    """

    path: Path
    shown: str
    text: str


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for one task, which the model reads when it needs them."""

    name: str
    description: str
    file: ProjectText
    body: str


class ProjectFiles:
    """The instructions and skills of the workspace of `files`. They are read anew by each call."""

    def __init__(self, files: ConfigFiles) -> None:
        self._files = files

    def find_instructions(self, name: str) -> Path | None:
        """Return the nearest file `name`, whatever it contains; None if there is none."""
        if not name:
            return None

        # A broken link counts as well: no file farther away replaces it.
        paths = (folder / name for folder in self._iter_folders())
        return next(filter(os.path.lexists, paths), None)

    def read_instructions(self, name: str) -> ProjectText | None:
        """Return the instructions in the nearest file `name`; None if there are none to send."""
        path = self.find_instructions(name)
        if path is None:
            return None
        return self._read_consented_text(path, INSTRUCTIONS_SETTING)

    def read_skills(self) -> dict[str, Skill]:
        """Return the skills by name, the nearest first, at most `MAX_SKILLS`."""
        skills: dict[str, Skill] = {}
        for path in self._iter_skill_files():
            if len(skills) == MAX_SKILLS:
                self._files.notices.add(
                    f"only the first {MAX_SKILLS} skills are offered to the model"
                )
                break

            skill = self._read_skill_file(path)
            if skill is not None:
                skills.setdefault(skill.name, skill)
        return skills

    def read_skill(self, name: str) -> str:
        """Return the text of the skill `name` for the model.

        Raises:
            ToolError: There is no such skill.
        """
        skills = self.read_skills()
        skill = skills.get(name)
        if skill is not None:
            return f"Skill {skill.name}, from {skill.file.shown}:\n\n{skill.body}"

        known = ", ".join(skills) or "none"
        raise ToolError(f"There is no skill {one_line(name, limit=80)!r}. Skills: {known}.")

    def _iter_folders(self) -> Iterator[Path]:
        """Yield the folder of the notebook and those above it, up to the root of the workspace."""
        root = self._files.root
        notebook_folder = self._files.folder
        for folder in (notebook_folder, *notebook_folder.parents):
            yield folder
            if folder == root:
                return

    def _iter_skill_files(self) -> Iterator[Path]:
        for folder in self._iter_folders():
            for skill_folder in SKILL_FOLDERS:
                for name in self._list_names(folder / skill_folder):
                    path = folder / skill_folder / name / SKILL_FILE
                    if os.path.lexists(path):
                        yield path

    def _list_names(self, folder: Path) -> list[str]:
        """Return the sorted names in a folder of skills, at most `MAX_SKILL_ENTRIES`."""
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, MAX_SKILL_ENTRIES + 1)]
        except OSError:  # most folders have no skills
            return []

        if len(names) > MAX_SKILL_ENTRIES:
            self._files.notices.add(
                f"{folder} has more than {MAX_SKILL_ENTRIES} entries. Only so many are searched "
                "for skills"
            )
        return sorted(names[:MAX_SKILL_ENTRIES])

    def _read_skill_file(self, path: Path) -> Skill | None:
        file = self._read_consented_text(path, SKILLS_SETTING)
        if file is None:
            return None

        try:
            fields, body = split_front_matter(file.text)
            name, description = _read_name_and_description(fields)
        except FrontMatterError as exc:
            self._omit(path, str(exc))
            return None
        return Skill(name, description, file, body.strip("\n"))

    def _read_consented_text(self, path: Path, setting: str) -> ProjectText | None:
        """Return the text at `path`; None if it cannot be used, or the user has not consented.

        A notice tells the user the reason. `setting` is the path of the setting because of which
        the file is read: the user sees it with the text before the consent.
        """
        try:
            if not path.resolve(strict=True).is_relative_to(self._files.root.resolve()):
                raise ForeignFileError("it is a link that leads out of the workspace")
            content = read_owned_file(path, max_bytes=MAX_PROJECT_FILE_BYTES)
            text = content.decode("utf-8-sig")
        except _UNUSABLE as exc:
            self._omit(path, _describe_unusable(exc))
            return None

        text = spell_hidden(text.replace("\r\n", "\n"))
        if self._files.consents.check(path, content, [(setting, text)]):
            shown = path.relative_to(self._files.root).as_posix()
            return ProjectText(path, one_line(spell_hidden(shown)), text)

        self._files.notices.add(
            f"{path} instructs the model. It is ignored until `%jp trust --workspace`"
        )
        return None

    def _omit(self, path: Path, why: str) -> None:
        self._files.notices.add(f"{path} is not given to the model: {why}")


def _describe_unusable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


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

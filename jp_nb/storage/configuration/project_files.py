"""Read the files that a project keeps for assistants, in the folders of its workspace.

The instructions are the nearest file of a name, such as `AGENTS.md`, from the notebook's folder up
to the root of the workspace. `skills.py` reads the skills.

Whoever wrote such a file instructs the model. So a live kernel reads it only if the user has
consented to its content. A file that cannot be used is named in a notice, and nothing else happens.

Source: `docs/guide.md` (instructions of the project), `docs/security.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jp_nb.exact_form import spell_hidden
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.storage.files import ForeignFileError, read_owned_file
from jp_nb.text import one_line

MAX_PROJECT_FILE_BYTES: Final = 65_536
"""Maximum size of a file with instructions, and of a skill."""
INSTRUCTIONS_SETTING: Final = "assistant.project_instructions"

_UNUSABLE: Final = (ForeignFileError, UnicodeDecodeError, OSError, RuntimeError)
"""Errors of a file that cannot be used. `RuntimeError` is that of a link to itself."""


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


class ProjectFiles:
    """The files for assistants in the workspace of `files`. They are read anew by each call."""

    def __init__(self, files: ConfigFiles) -> None:
        self._files = files

    def find_instructions(self, name: str) -> Path | None:
        """Return the nearest file `name`, whatever it contains; None if there is none."""
        if not name:
            return None

        # A broken link counts as well: no file farther away replaces it.
        paths = (folder / name for folder in self.iter_folders())
        return next(filter(os.path.lexists, paths), None)

    def read_instructions(self, name: str) -> ProjectText | None:
        """Return the instructions in the nearest file `name`; None if there are none to send."""
        path = self.find_instructions(name)
        if path is None:
            return None
        return self.read_consented_text(path, INSTRUCTIONS_SETTING)

    def iter_folders(self) -> Iterator[Path]:
        """Yield the folder of the notebook and those above it, up to the root of the workspace."""
        root = self._files.root
        notebook_folder = self._files.folder
        for folder in (notebook_folder, *notebook_folder.parents):
            yield folder
            if folder == root:
                return

    def read_consented_text(self, path: Path, setting: str) -> ProjectText | None:
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
            self.omit(path, _describe_unusable(exc))
            return None

        text = spell_hidden(text.replace("\r\n", "\n"))
        if self._files.consents.check(path, content, [(setting, text)]):
            shown = path.relative_to(self._files.root).as_posix()
            return ProjectText(path, one_line(spell_hidden(shown)), text)

        self._files.notices.add(
            f"{path} instructs the model. It is ignored until `%jp trust --workspace`"
        )
        return None

    def omit(self, path: Path, why: str) -> None:
        """Tell the user why the file at `path` is not given to the model."""
        self.notify(f"{path} is not given to the model: {why}")

    def notify(self, text: str) -> None:
        """Tell the user about a file of the project, once."""
        self._files.notices.add(text)


def _describe_unusable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)

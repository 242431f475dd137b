"""Delay the import of `rfc3987_syntax` until `jsonschema` checks an address with it.

Its import builds about forty parsers and takes as long as a notebook with one turn.
`jp_nb.jsonschema_import.delay_parsers` is the same for `jp-nb`; this is for all Python programs of
the tests: pytest itself, JupyterLab, papermill, nbconvert, and nbval.

As a plug-in of pytest (`-p late_parsers`), it is loaded before those that are installed.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PARSERS = "rfc3987_syntax"


class LateParsers:
    """Finder and loader of a module that imports the real one at its first use."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != PARSERS or PathFinder.find_spec(name) is None:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]  # it has the methods of a loader

    def create_module(self, spec: ModuleSpec) -> None:
        """Use a new module, as is the default."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["is_valid_syntax"] = self.is_valid_syntax

    def is_valid_syntax(self, term: str, value: str) -> bool:
        """Check `value` with the real module, and leave that one in place."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            del sys.modules[PARSERS]
        from rfc3987_syntax import is_valid_syntax

        return bool(is_valid_syntax(term, value))


if not any(isinstance(finder, LateParsers) for finder in sys.meta_path):
    sys.meta_path.insert(0, LateParsers())

"""What a tool is: outcomes, questions, and where tools come from.

The package is also the public function `jp_nb.tools()`: importing it puts it where that would be.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jp_nb.tools.python import PythonTool


class _CallableModule(ModuleType):
    def __call__(self) -> tuple[PythonTool, ...]:
        """The Python tools that the model may call, in the order they were first defined."""
        from jp_nb.tools.python import REGISTRY

        return tuple(REGISTRY.all().values())


sys.modules[__name__].__class__ = _CallableModule

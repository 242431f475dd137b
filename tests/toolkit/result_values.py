"""Records and members of enumerations that tools return in tests."""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field


@dataclass
class Holder:
    name: str
    items: Any = field(repr=False, default=None)


class Model(BaseModel):
    tags: set[str] = Field(default_factory=set, alias="labels")
    items: Any = None


class Members(enum.Enum):
    ENDLESS = itertools.count()

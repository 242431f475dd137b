"""Strategies for answer types and for their answers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

import jp_nb as jp
from tests.kit.kinds import is_kind, make

TEXTS = st.sampled_from(["", "a", "b", "1", "true", "é", "none of these", "\u202e", "two words"])
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.25, 10**20, -(10**400)]),
)
SCALARS: st.SearchStrategy[Any] = st.one_of(TEXTS, NUMBERS, st.booleans())


def _valid_instances(kind: str) -> Any:
    """Return a strategy for valid instances of `kind`."""

    def build(fields: dict[str, Any]) -> Any:
        try:
            return make(f"{kind}_answer", **fields)
        except ValidationError:
            return None

    def strategy(always: dict[str, Any] | None = None, **fields: Any) -> Any:
        return st.fixed_dictionaries(always or {}, optional=fields).map(build).filter(bool)

    return strategy


OPTIONS = st.lists(
    st.builds(jp.Option, value=SCALARS, label=st.none() | TEXTS, description=st.none() | TEXTS),
    max_size=5,
    unique_by=lambda option: (
        isinstance(option.value, bool),
        str(type(option.value)),
        option.value,
    ),
).map(tuple)
SELECTS: st.SearchStrategy[Any] = _valid_instances("select")(
    {"options": OPTIONS},
    multi=st.booleans(),
    other=st.booleans(),
    recommended=st.integers(-1, 5),
    min_picks=st.integers(0, 3),
    max_picks=st.integers(1, 4),
)
BOUNDS = st.sampled_from([-2, 0, 1, 3, 0.5, 2.0, 10**20])
PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.just(make("boolean_answer")),
    st.just(make("secret_answer")),
    SELECTS,
    _valid_instances("text")(min_length=st.integers(0, 4), max_length=st.integers(0, 6)),
    *(
        _valid_instances(kind)(minimum=BOUNDS, maximum=BOUNDS, above=BOUNDS, below=BOUNDS)
        for kind in ("number", "integer")
    ),
)
FIELDS = st.builds(
    lambda name, kind, required: jp.Question(
        id=name, text=name.upper(), answer_type=kind, required=required
    ),
    st.sampled_from(["a", "b", "c"]),
    PLAIN,
    st.booleans(),
)
FORMS: st.SearchStrategy[Any] = st.lists(
    FIELDS, min_size=1, max_size=3, unique_by=lambda field: field.id
).map(lambda fields: make("form_answer", fields=tuple(fields)))
KINDS = st.one_of(PLAIN, FORMS)


def answers(kind: Any) -> st.SearchStrategy[JsonValue]:
    """Return a strategy for valid answers of `kind`, and for similar invalid values."""
    near: list[st.SearchStrategy[Any]] = [SCALARS, st.none(), st.lists(SCALARS, max_size=3)]
    if is_kind(kind, "select_answer"):
        values = st.sampled_from([*kind.values, "no option", 1, True])
        lists = st.lists(values, max_size=4)
        own = st.fixed_dictionaries(
            {}, optional={"selected": lists | values, "custom": TEXTS | st.none()}
        )
        near += [values, lists, own]
    if is_kind(kind, "form_answer"):
        fields = {field.id: answers(field.answer_type) for field in kind.fields}
        near.append(st.fixed_dictionaries({}, optional={**fields, "other": SCALARS}))
        near.append(st.fixed_dictionaries(fields))
    return st.one_of(*near)

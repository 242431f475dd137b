"""The table of subcommands and options."""

from __future__ import annotations

import inspect

import pytest

import jp_nb
from jp_nb.notebook.commands import load_action
from jp_nb.notebook.magic_help import list_groups
from jp_nb.notebook.subcommands import ASK_OPTIONS, SUBCOMMANDS


def test_every_subcommand_has_an_action_and_its_options_are_listed(
    subtests: pytest.Subtests,
) -> None:
    for subcommand in SUBCOMMANDS.values():
        with subtests.test(subcommand=subcommand):
            assert callable(load_action(subcommand))
            (how, does), *others = subcommand.rows
            assert how.split()[0] == subcommand.name
            assert does
            assert len(others) == len(subcommand.options)
            for option, (how, does) in zip(subcommand.options, others, strict=True):
                assert option.flags[0] in how
                assert option.flags[0] in subcommand.usage
                assert does


def test_groups_begin_with_the_commands_of_the_first_day() -> None:
    titles = [title for title, _ in list_groups()]
    places = [titles.index(text) for text in ("First steps", "Asking", "Conversations")]
    assert places == sorted(places)
    assert {how.split()[0] for _, rows in list_groups() for how, _ in rows} >= set(SUBCOMMANDS)


def test_query_takes_the_options_of_the_cell_magic() -> None:
    keywords = set(inspect.signature(jp_nb.query).parameters) - {"text", "interpolate"}
    names = {option.flags[-1].lstrip("-").replace("-", "_") for option in ASK_OPTIONS}
    assert keywords - {"attach", "display"} <= names
    assert "attachment" in names

"""Messages: batches, pieces, and what JSON in a file cannot hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.notebook.page.protocol import Pieces, split_text, take_batch, to_ascii_json


def test_batch_has_a_bounded_size_and_at_least_one_entry() -> None:
    entries = [{"text": "ä" * 40}] * 10
    size = len(json.dumps(entries[0], ensure_ascii=False).encode())
    assert take_batch(entries, size * 3) == (entries[:3], size * 3)
    assert take_batch(entries, 1) == (entries[:1], size)
    assert take_batch([], 1) == ([], 0)


@given(st.text(), st.integers(1, 20))
def test_pieces_in_any_order_make_the_document(text: str, size: int) -> None:
    parts = split_text(to_ascii_json({"text": text}), size)
    pieces = Pieces(len(parts))
    for index in reversed(range(len(parts))):
        pieces.add(index, parts[index])
        pieces.add(index, parts[index])
    assert pieces.document() == {"text": text}


def test_pieces_without_json_are_an_error() -> None:
    pieces = Pieces(1)
    assert pieces.add(0, "{")
    with pytest.raises(jp.StorageError, match="jp: the page sent invalid JSON"):
        pieces.document()

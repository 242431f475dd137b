"""Rows on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.session.rows.row_server import RowServer

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
dataframes = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")


@pytest.mark.req("MAP-16")
@pytest.mark.parametrize("processes", [True, False], ids=["processes", "threads"])
def test_partitions_and_delayed_calls_need_no_set_up(
    server: RowServer, monkeypatch: pytest.MonkeyPatch, *, processes: bool
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    options = server.options
    frame = pandas.DataFrame({"text": [f"row {number}" for number in range(12)]})

    def answer(part: Any) -> Any:
        return jp.complete_all(part.text, workers=2, **options).series

    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            processes=processes,
            # `None` means port 8787, which another cluster of this computer may have.
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster),
    ):
        parts = dataframes.from_pandas(frame, npartitions=4)
        answers = parts.map_partitions(answer, meta=("text", "object")).compute()
        delayed = [dask.delayed(jp.complete)(text, **options) for text in frame.text[:4]]
        single = dask.compute(*delayed)

    expected = [text.upper() for text in frame.text]
    assert answers.tolist() == expected
    assert list(answers.index) == list(frame.index)
    assert [each.text for each in single] == expected[:4]

"""Models of requests outside of a conversation, opened and closed by several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from jp_nb.providers import create_provider
from jp_nb.session.model_access import provider_pool
from jp_nb.session.rows.completion_models import ChosenModel
from jp_nb.session.rows.folder_models import FolderModels


def test_provider_that_another_thread_opens_is_closed(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Event()
    may_open = Event()
    create = create_provider

    def create_slowly(*given: Any) -> Any:
        opening.set()
        assert may_open.wait(20)
        return create(*given)

    monkeypatch.setattr(provider_pool, "create_provider", create_slowly)
    models = FolderModels(bare_folder)
    with ThreadPoolExecutor(2) as threads:
        opened = threads.submit(models.open, ChosenModel("anthropic/claude-sonnet-4-5"))
        assert opening.wait(20)
        taken = threads.submit(models.take_providers)
        wait([taken], timeout=0.2)  # without the lock, it returns now
        may_open.set()
        assert taken.result() == [opened.result().model.provider]

"""Keys and passwords have no place in a configuration."""

from __future__ import annotations

import pytest

from jp_nb.config.assign import parse_assignment
from jp_nb.errors import ConfigError


@pytest.mark.parametrize(
    "assignment",
    [
        "providers.llm.openai.base_url=https://user:s3cret@host",
        "providers.llm.anthropic.api_key_env=sk-s3cret-key",
    ],
)
def test_a_secret_is_refused_and_not_repeated(assignment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignment(assignment, {})
    assert "s3cret" not in str(caught.value)
    assert "environment variable" in str(caught.value)

"""Check the providers that limits of requests name, so that no typo switches a limit off.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

from jp_nb.config.tree.declared_servers import SERVERS_PATH, is_declared_server
from jp_nb.config.tree.provider_settings import AVAILABLE_PROVIDERS, PROVIDER_NAMES
from jp_nb.errors import ConfigError, UsageError
from jp_nb.storage.configuration.config_files import ConfigFiles
from jp_nb.text import one_line


def check_limited_providers(
    names: Iterable[str], *, folders: Iterable[Path], cfg: Collection[str]
) -> None:
    """Check that there are providers with these names.

    Args:
        names: The providers of `--max-requests-per-minute` and `--max-concurrent-requests`.
        folders: The folders of the notebooks, whose configuration may name further servers.
        cfg: The arguments of `-c`, which may do so as well.

    Raises:
        UsageError: A provider is unknown.
    """
    unknown = [name for name in dict.fromkeys(names) if name not in PROVIDER_NAMES]
    if not unknown:
        return

    for folder in folders:
        _declare_servers(folder)
    for name in unknown:
        is_server = is_declared_server(name) or any(_declares(text, name) for text in cfg)
        if not is_server:
            raise UsageError(_describe_unknown(name))


def _declare_servers(folder: Path) -> None:
    """Read the configuration of a notebook's folder, whose servers then count as declared."""
    try:
        ConfigFiles(folder).load_layers()
    except ConfigError as exc:
        raise UsageError(f"the configuration for {one_line(str(folder))} is wrong: {exc}") from exc


def _declares(argument: str, name: str) -> bool:
    """Return True if an argument of `-c` sets something of the server `name`.

    It is a setting with a path, or a JSON object, which has the name as a key.
    """
    return argument.startswith(f"{SERVERS_PATH}.{name}.") or f'"{name}"' in argument


def _describe_unknown(name: str) -> str:
    near = get_close_matches(name[:40], AVAILABLE_PROVIDERS, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return (
        f"the limit of {one_line(name, limit=40)} has no effect, because there is no such "
        f"provider: {meant}Known are {', '.join(AVAILABLE_PROVIDERS)}, and servers that a "
        f"configuration file or `-c {SERVERS_PATH}.NAME.base_url=…` names"
    )

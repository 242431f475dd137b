"""The layer of the environment variables, such as `JP_CFG_ASSISTANT__MODEL__ID`.

A *layer* is the settings of one source. This one overrides the configuration files, and the
conversation overrides it (`layers.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from jp_nb.config.assignments import assign_setting
from jp_nb.config.early_constants import ENVIRONMENT_PREFIX
from jp_nb.config.layers import ENVIRONMENT_LAYER, Layer
from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import apply_change
from jp_nb.config.schema import require_node
from jp_nb.config.setting_paths import parse_path
from jp_nb.config.tree.ignored_settings import is_ignored
from jp_nb.errors import ConfigError


def read_environment(environ: Mapping[str, str]) -> Layer:
    r"""Return the layer of the variables `JP_CFG_…`, such as `JP_CFG_ASSISTANT__MODEL__ID`.

    `__` separates the keys of a path; keys of maps are in lower case. A value is parsed by the type
    of its setting. The prefix `:` marks a value as JSON, and `+` adds the value to the setting.
    Both can be combined. `\:` and `\+` begin a text that starts with `:` or `+`.

    Raises:
        ConfigError: Variables are invalid. The message has all of them, by their names.
    """
    partial: Partial = {}
    errors: list[ConfigError] = []

    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX):
            try:
                partial = _apply_variable(partial, variable, environ[variable])
            except ConfigError as exc:
                exc.file = variable
                errors.append(exc)

    if len(errors) == 1:
        raise errors[0]

    if errors:
        problems: list[str] = []
        for error in errors:
            problems += [f"{error.file}: {problem}" for problem in error.problems]

        raise ConfigError("\n".join(problems), kind=errors[0].kind, layer=ENVIRONMENT_LAYER)

    return Layer(ENVIRONMENT_LAYER, partial)


def format_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables that set `settings`: texts by path, such as `prompt.answers`.

    Values such as `123` and `:x` remain texts.
    """
    variables: dict[str, str] = {}
    for path, text in settings.items():
        name = ENVIRONMENT_PREFIX + path.upper().replace(".", "__")
        is_marked = text[:1] in (":", "+")
        variables[name] = f"\\{text}" if is_marked else text

    return variables


def _apply_variable(partial: Partial, variable: str, text: str) -> Partial:
    """Return `partial` with the setting of an environment `variable` with the value `text`."""
    path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")

    # The prefixes `:` and `+`, each at most once.
    operators = ""
    while text[:1] in (":", "+") and text[0] not in operators:
        operators = operators + text[0]
        text = text[1:]

    if text[:2] in ("\\:", "\\+"):
        text = text[1:]

    try:
        if is_ignored(parse_path(path)):
            return partial  # JP reads the same variables
        require_node(path)  # raises for an unknown setting, with a similar name
        as_json = ":" in operators
        extend = "+" in operators
        change = assign_setting(
            path, text, partial, as_json=as_json, extend=extend, layer=ENVIRONMENT_LAYER
        )
    except ConfigError as exc:
        exc.layer = ENVIRONMENT_LAYER
        raise
    return apply_change(partial, change)

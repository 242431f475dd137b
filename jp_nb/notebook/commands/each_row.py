"""Run `%%jp --each`: ask the text of a cell for each row, outside of the conversation.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import difflib
from argparse import Namespace
from typing import Any, Final

from jp_nb.errors import UsageError
from jp_nb.session.rows.complete import complete_all
from jp_nb.session.rows.completions import Completion, Completions, Failure
from jp_nb.session.session import Session

_CONVERSATION_FLAGS: Final = {
    "new": "-n",
    "compact": "-k",
    "plan": "--plan",
    "tool_uses": "-u and -U",
    "strict": "--strict",
}
"""Flags of options that only concern a conversation, by the names of the options."""
WORKERS: Final = 8
"""Number of requests at the same time."""


def ask_each_row(shell: Any, session: Session, options: Namespace, template: str) -> None:
    """Ask for each row of the variable that `--each` names.

    The answers are bound to the name of `-o`. Without it, the cell shows them.

    Raises:
        UsageError: An option concerns a conversation, or there is no such variable.
    """
    _refuse_options(options)
    rows = _find_rows(options.each, session.host.namespace)

    answers = complete_all(
        rows,
        template=template.rstrip("\n"),
        schema=options.schema,
        model=options.model,
        system=None,
        cfg=[directive.text for directive in options.directives],
        images=None,
        workers=WORKERS,
        errors="values",
        max_total_tokens=None,
        cache=options.cache,
        max_concurrent=None,
        progress=True,
    )

    if options.out is not None:
        shell.user_ns[options.out] = answers
        return
    show_answers(shell, answers)


def _refuse_options(options: Namespace) -> None:
    for name, flag in _CONVERSATION_FLAGS.items():
        if getattr(options, name):
            raise UsageError(
                f"`--each` asks outside of the conversation, so it does not take {flag}"
            )
    if any(directive.kind != "cfg" for directive in options.directives):
        raise UsageError("`--each` takes no tools and attachments: use -m, -c, -s, -o, and --cache")


def _find_rows(name: str, namespace: dict[str, Any]) -> Any:
    """Return the value of a variable of the user."""
    if name in namespace:
        return namespace[name]
    near = difflib.get_close_matches(name, map(str, namespace), n=1)
    hint = f": did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"there is no {name!r} in this notebook{hint}")


def show_answers(shell: Any, answers: Completions) -> None:
    """Show the answers as a frame; without pandas as lines."""
    try:
        shown = answers.to_frame()
    except UsageError:  # pandas is not installed
        print("\n".join(map(_format_answer, answers)))
        return

    data, metadata = shell.display_formatter.format(shown)
    shell.display_pub.publish(data=data, metadata=metadata)


def _format_answer(answer: Completion | Failure) -> str:
    """Return the text of an answer, or of the error of a row."""
    return answer.text if isinstance(answer, Completion) else str(answer)

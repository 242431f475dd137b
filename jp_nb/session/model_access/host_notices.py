"""Tell the user that the conversation goes to another host than before.

The user should know which company gets the conversation. Each turn marks its last host in the
record. A request of a turn to another one is announced by the turn itself. `announce` is called
before the other requests: questions that a model answers, summaries, and counts of tokens.

Source: `docs/providers.md`, `docs/decisions.md`.
"""

from __future__ import annotations

from jp_nb.agent.display import Notice
from jp_nb.agent.effective_model import get_host
from jp_nb.agent.provider import Provider
from jp_nb.agent.turn_record import TurnRecord
from jp_nb.record.request_context.host_marks import LastHost, format_other_host, read_recorded_host
from jp_nb.session.agent_runner import AgentRunner
from jp_nb.session.conversation import ActiveConversation


class HostNotices:
    """Shows that a request goes to another host than the last turn, once for each pair of hosts.

    A host is compared by its *mark*, a digest that the record keeps in place of the name.
    """

    def __init__(self, active: ActiveConversation, runner: AgentRunner) -> None:
        self._active = active
        self._runner = runner
        self._record: TurnRecord | None = None  # of the running turn
        self._last_host = read_recorded_host(active.document)
        self._announced_hosts: set[tuple[str, str]] = set()

    @property
    def last_host(self) -> LastHost | None:
        """The host of the last turn."""
        return self._last_host

    def begin_turn(self, record: TurnRecord) -> None:
        """Until `end_turn`, compare with the last host in `record`, which the turn updates."""
        self._record = record

    def end_turn(self, record: TurnRecord) -> None:
        """Keep the last host of the turn of `record`."""
        self._last_host = record.last_host
        self._record = None

    def announce(self, provider: Provider, name: str) -> None:
        """Show that `provider`, named `name`, sends to another host than the turns so far.

        Nothing is shown if the last host is unknown, or if `provider` has no host, as a script. Any
        thread may call it. At worst, two threads show the same line.
        """
        record = self._record
        host = get_host(provider)
        last = self._last_host if record is None else record.last_host
        if last is None or not host:
            return

        last_mark = last.mark
        new_mark = LastHost.of(host).mark
        is_announced = (last_mark, new_mark) in self._announced_hosts
        if last_mark == new_mark or is_announced:
            return

        self._announced_hosts.add((last_mark, new_mark))
        line = format_other_host(last, host, name)
        # `current` stays that of the last turn after it, whose cell has ended.
        output = self._runner.output.current
        if self._active.is_running and output is not None:
            output(Notice(line))
        else:
            print(f"jp_nb: {line}")

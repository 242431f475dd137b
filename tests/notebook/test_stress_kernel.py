"""Batches of tools in a real kernel, interrupted by real signals at random moments.

The menus and questions are answered through the forms' protocol. Choices come from a seed; the
moments are those of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import psutil
import pytest

from tests.support.cells import calls, error, events, kernel_with, run, well_formed
from tests.support.kernel_client import FrontEnd, Message

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.deep,
    pytest.mark.skipif(os.name != "posix", reason="signals"),
]

CYCLES = 15
CALLS_IN_A_BATCH = 8
PATIENCE = 60.0
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
TOOLS = """
import asyncio, subprocess, time
import jp_nb as jp

@jp.tool
def spin(n: int) -> str:
    until = time.monotonic() + n % 7 / 100
    while time.monotonic() < until:
        pass
    return f"#{n} is spun"

@jp.tool
def doze(n: int) -> str:
    time.sleep(n % 5 / 50)
    return f"#{n} is awake"

@jp.tool
def shell(n: int) -> str:
    done = subprocess.run(["sh", "-c", f"sleep 0.05; echo '#{n} is out'"], capture_output=True)
    return done.stdout.decode()

@jp.tool
def printed(n: int) -> str:
    print("printed by", n)
    raise LookupError(f"#{n}")

@jp.tool
async def wait(n: int) -> str:
    await asyncio.sleep(n % 5 / 50)
    return f"#{n} is waited for"

@jp.tool(thread=True)
def work(n: int) -> str:
    time.sleep(n % 5 / 50)
    return f"#{n} is worked"

@jp.tool
def sure(n: int, ctx: jp.ToolContext) -> jp.Outcome:
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
    return jp.Success(f"#{n} is sure")

@jp.tool
def chat(n: int) -> str:
    return f"#{n} {jp.ask(jp.Question.boolean('mood', 'Fine?'))}"

@jp.tool(run="ask")
def guarded(n: int) -> str:
    return f"#{n} ran"
"""
WEIGHTS = {
    "spin": 4, "doze": 4, "shell": 2, "printed": 1, "wait": 2, "work": 2, "sure": 2, "chat": 0.5,
    "guarded": 1,
}  # fmt: skip
REPLY = "Tell the model something …"
END = "End the turn"
MENU = {"Continue": 3, REPLY: 2, "again": 3, END: 1}
STREAMING = {"Continue": 3, REPLY: 1, f"{END} and keep the answer so far": 1}
OPTIONS = "-c interrupt.escalation_cooldown_secs=0"
LEFT = f"""
import threading
left = [thread for thread in threading.enumerate() if "jp_nb tool" in thread.name]
for thread in left:
    thread.join({PATIENCE / 4})  # a call that was cut does not wait for its thread
print([thread.name for thread in left if thread.is_alive()])
"""


def script(random: Random) -> str:
    replies = []
    for cycle in range(CYCLES):
        names = random.choices([*WEIGHTS], [*WEIGHTS.values()], k=CALLS_IN_A_BATCH)
        numbered = enumerate(names, start=cycle * CALLS_IN_A_BATCH)
        replies.append(calls(*((name, {"n": n}) for n, name in numbered)))
    # An interrupt of the last answer, or of the turn as it ends, has the model asked once more.
    return "".join(replies) + '[[replies]]\ntext = "All done."\n' * (CYCLES + 2)


class Disturber:
    """Plays a person who interrupts at random and answers whatever appears."""

    def __init__(self, user: FrontEnd, seed: int) -> None:
        self._user = user
        self._random = Random(seed)
        self._answered: set[str] = set()
        self.interrupts = 0
        self.dropped = 0

    def see_through(self, request: str, about: str) -> None:
        """Interrupt and answer until the cell is done, from the first thing that it shows on.

        There may be no reply: an interrupt can hit ipykernel while it sends that.
        """
        user = self._user
        random = self._random
        user.wait(lambda m: m["header"]["msg_type"] == "display_data")
        began = heard = monotonic()
        following = began + random.uniform(0.01, 0.3)
        while not self._is_idle(request):
            now = monotonic()
            assert now - began < PATIENCE, f"{about}: the cell hangs; {user.messages[-3:]}"
            if user.receive(0.01):
                heard = now
            self._answer()
            # A signal may be lost in pyzmq; what waits for nothing else is interrupted again.
            if (self.interrupts < 2 * CYCLES and now > following) or now - heard > 3:
                self.interrupts += 1
                heard = now
                following = now + random.uniform(0.02, 0.5)
                user.manager.interrupt_kernel()

    def _is_idle(self, request: str) -> bool:
        return any(
            message["header"]["msg_type"] == "status"
            and message["content"]["execution_state"] == "idle"
            and message["parent_header"].get("msg_id") == request
            for message in self._user.messages
        )

    def _answer(self) -> None:
        """Answer each form once. Buttons identify it, because earlier questions are above it."""
        for beacon in self._forms():
            self._answered.add(beacon)
            self._user.send(beacon, {"type": "rendered"})
            labels = self._labels(beacon)
            if labels & (MENU.keys() | STREAMING.keys()):
                self._choose(labels)
            elif "Skip and say why …" in labels:
                self._click({"Run *": 2, "Skip *": 1, "Allow * for this turn": 1})
            elif "Yes" in labels:
                self._click({"Yes": 1, "No": 1})
            else:
                self._user.send(beacon, {"type": "submit", "value": "Never mind."})

    def _forms(self) -> list[str]:
        """The beacons of the forms that came and were not answered."""
        found: list[str] = []
        beacon = None
        for message in self._user.messages:
            kind = message["header"]["msg_type"]
            content = message["content"]
            if kind == "comm_open":
                if "FormBridge" in str(content["data"].get("state", {}).get("_anywidget_id", "")):
                    beacon = content["comm_id"]
            elif beacon and "display_data" in kind and WIDGET_VIEW in content["data"]:
                found.append(beacon)
                beacon = None
        return [each for each in found if each not in self._answered]

    def _labels(self, beacon: str) -> set[str]:
        known = list(self._user.models)
        models = [self._user.models[each] for each in known[known.index(beacon) :]]
        return {str(model.get("description", "")) for model in models}

    def _choose(self, labels: set[str]) -> None:
        """Choose from a menu. A tool's may offer less: what cannot be begun again, say."""
        tools = END in labels
        weights = {k: v for k, v in (MENU if tools else STREAMING).items() if k in labels}
        again = [label for label in labels if label.endswith(" again")] if tools else []
        choices = weights | dict.fromkeys(again, MENU["again"])
        label = self._click(choices)
        # The calls of an interrupted response are dropped.
        self.dropped += not tools and label != "Continue"

    def _click(self, choices: Mapping[str, float]) -> str:
        [label] = self._random.choices([*choices], [*choices.values()])
        self._user.click(label)
        return label


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("stress")
    after = calls(("doze", {"n": 1}), ("shell", {"n": 2})) + '[[replies]]\ntext = "ok"\n' * 2
    with kernel_with(folder, {"after": after}, TOOLS) as user:
        yield user


def children(user: FrontEnd) -> list[Any]:
    """Processes of the kernel; not one that died in `Popen`, which the next `Popen` reaps."""
    provisioner: Any = user.manager.provisioner
    found = psutil.Process(provisioner.pid).children(recursive=True)
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


def requests_of(entries: list[Message], kind: str) -> list[str]:
    return [entry["id"] for entry in entries if entry["type"] == kind]


@pytest.mark.parametrize("seed", [1])
def test_interrupts_at_random_moments_of_batches(kernel: FrontEnd, seed: int) -> None:
    user = kernel
    about = f"seed {seed}"
    folder = Path(user.manager.connection_file).parent
    (folder / f"stress{seed}.toml").write_text(script(Random(seed)), encoding="utf-8")
    before = children(user)
    user.run("%jp new")
    disturber = Disturber(user, seed)
    for _ in range(CYCLES + 1):
        user.messages.clear()
        user.models.clear()
        request = user.start(f"%%jp -m scripted/stress{seed} {OPTIONS}\nContinue.")
        disturber.see_through(request, about)
        failure = error(user, request)
        assert failure is None or failure["ename"] == "KeyboardInterrupt", (about, failure)
        # One more in the moment in which IPython shows that leaves words alone.
        if failure is None and "KeyboardInterrupt" not in user.printed(request):
            break
    assert disturber.interrupts > 3, about
    entries = events(user)
    assert well_formed(entries), about
    asked = requests_of(entries, "tool_call_request")
    assert len(asked) >= (CYCLES - disturber.dropped) * CALLS_IN_A_BATCH, about
    assert requests_of(entries, "tool_call_response") == asked, f"{about}: in call order"
    for entry in entries:
        if entry["type"] == "tool_call_response" and entry["content"].startswith("#"):
            number = int(entry["content"][1:].partition(" ")[0])
            cycle, place = divmod(number, CALLS_IN_A_BATCH)
            assert entry["id"] == f"call_{cycle + 1}_{place + 1}", f"{about}: {entry}"
    assert user.run("print(1 + 1)") == "2\n"
    again = run(user, "after")
    assert error(user, again) is None, about
    assert user.displays(again)[-1]["text/plain"].endswith("ok")
    assert user.run(LEFT) == "[]\n", about
    until = monotonic() + PATIENCE
    while (left := children(user)) != before:  # what was cut in `Popen` ends by itself
        assert monotonic() < until, (about, left)
        sleep(0.05)

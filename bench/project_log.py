"""Stress test of the project log: two kernels write 5,000 answers each, one is killed at random.

    python -m bench.project_log [ANSWERS] [KILLS]

Prints the duration. Fails if an acknowledged answer is missing, an id occurs twice, or a line is
torn without a kill.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter, sleep

from jupyter_client.manager import KernelManager

from jp_nb.storage.question_logs.question_log_file import QuestionLogFile
from tests.storage.log_writers import Writer, check

CODE = """
import os
from pathlib import Path
from tests.storage.log_writers import write
told = os.open({told!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for number in write(Path({root!r}), {name!r}, {first}, {last}):
    os.write(told, b"%d\\n" % number)
"""


class KernelWriter(Writer):
    """Kernel that writes answers and logs their numbers. After a kill, another kernel continues."""

    def write_all(self, count: int, kills: list[float]) -> None:
        """Write `count` answers; a kernel is killed after each of the seconds in `kills`."""
        told = self.root / f"{self.name}.told"
        while len(self.said) < count:
            first = max(self.said, default=0) + 1
            self._run(told, first, count, kills)
            self.said = [int(line) for line in told.read_text().split("\n") if line]

    def _run(self, told: Path, first: int, last: int, kills: list[float]) -> None:
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(env=dict(os.environ))
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=120)
            code = CODE.format(
                told=str(told), root=str(self.root), name=self.name, first=first, last=last
            )
            request = client.execute(code)
            if kills:
                sleep(kills.pop())
                manager.signal_kernel(signal.SIGKILL)
                self.kills += 1
                return
            while client.get_shell_msg(timeout=3600)["parent_header"].get("msg_id") != request:
                pass
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()


def main(count: int = 5000, kills: int = 20) -> None:
    """Write, kill, check, and say what it took."""
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        killed = KernelWriter(root, "killed")
        steady = KernelWriter(root, "steady")
        pauses = [chance.uniform(0.1, 0.6) for _ in range(kills)]
        began = perf_counter()
        threads = [
            threading.Thread(target=killed.write_all, args=(count, pauses)),
            threading.Thread(target=steady.write_all, args=(count, [])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = perf_counter() - began
        check(root, [killed, steady], kills=killed.kills)
        log = QuestionLogFile(root)
        contents = log.read()
        reads = []
        for _ in range(5):
            began = perf_counter()
            QuestionLogFile(root).read()
            reads.append(perf_counter() - began)
        archives = len(list(log.folder.glob("qna_*")))
        print(
            f"{len(contents.answered)} answers of two kernels, {killed.kills} kills, "
            f"in {took:.0f} s: {archives} archives, {contents.damaged} torn lines, "
            f"{len(contents.answered) - 2 * count} written twice; "
            f"all read in {1000 * statistics.median(reads):.0f} ms"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Processes that write one project log at the same time, and a check of the log.

    python -m tests.storage.log_writers ROOT NAME FIRST LAST

writes the answers FIRST to LAST and prints the number of each once it is written.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jp_nb.storage.question_logs.question_log_file import QuestionLogFile

MAX_LOG_LINES = 100


def entry(writer: str, number: int) -> Any:
    """An answer that names who wrote it; some are long."""
    return {
        "v": 1,
        "timestamp": "2026-03-18T13:19:06.5Z",
        "question": f"Number {number}?",
        "answer": f"{number} " + "x" * (number % 7 * 400),
        "source": writer,
    }


def write(root: Path, writer: str, first: int, last: int) -> Iterator[int]:
    """Append entries to the log one by one; yield the number of each."""
    log = QuestionLogFile(root)
    for number in range(first, last + 1):
        log.append([entry(writer, number)])
        yield number


@dataclass
class Writer:
    """A process that writes answers until it is killed; `said` are those that it acknowledged."""

    root: Path
    name: str
    said: list[int] = field(default_factory=list)
    kills: int = 0

    def run(self, first: int, last: int) -> None:
        """Write and wait for the end."""
        command = [sys.executable, "-m", "tests.storage.log_writers", str(self.root), self.name]
        with subprocess.Popen(
            [*command, str(first), str(last)], stdout=subprocess.PIPE, text=True
        ) as self.process:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                if line.endswith("\n"):
                    self.said.append(int(line))

    def run_killed(self, count: int, chance: random.Random, kills: int) -> None:
        """Write `count` answers; be killed `kills` times on the way, somewhere."""
        at = sorted(chance.sample(range(1, count), kills))
        while len(self.said) < count or not self.said:
            first = max(self.said, default=0) + 1
            if first > count:
                return
            worker = threading.Thread(target=self.run, args=(first, count))
            worker.start()
            while worker.is_alive():
                if at and self.said and self.said[-1] >= at[0]:
                    del at[0]
                    self.process.kill()
                    self.kills += 1
                    break
            worker.join()


def check(root: Path, writers: list[Writer], *, kills: int = 0) -> None:
    """Every acknowledged answer is there once, whole; every id is given once, in order."""
    log = QuestionLogFile(root)
    contents = log.read()
    assert not contents.unread
    assert contents.damaged <= kills
    ids = [number for number, _ in contents.answered]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    found = Counter((e["source"], e["question"]) for _, e in contents.answered)
    for writer in writers:
        for number in writer.said:
            assert found[writer.name, f"Number {number}?"] >= 1, (writer.name, number)
    # What was written and not acknowledged is written again by the next run: once a kill.
    extra = sum(found.values()) - sum(len(writer.said) for writer in writers)
    assert 0 <= extra <= kills
    for _, each in contents.answered:
        assert each["answer"] == entry("", int(str(each["question"])[7:-1]))["answer"]
    archives = sorted(log.folder.glob("qna_*.jsonl"))
    assert [path.name for path in archives] == [
        f"qna_{number:04d}.jsonl" for number in range(1, len(archives) + 1)
    ]
    assert {path.read_bytes().count(b"\n") for path in archives} <= {MAX_LOG_LINES}


if __name__ == "__main__":
    for done in write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])):
        print(done, flush=True)

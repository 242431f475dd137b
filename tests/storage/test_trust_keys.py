"""The key file: creation, permissions and errors."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretBytes

import jp_nb as jp
from jp_nb.storage import key_file

KEY_BYTES = 32


posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of POSIX")
KEY = bytes(range(100, 100 + KEY_BYTES))


def put(path: Path, content: bytes = KEY, mode: int = 0o600) -> key_file.KeyFile:
    path.write_bytes(content)
    path.chmod(mode)
    return key_file.KeyFile(path)


def secret(found: SecretBytes | None) -> bytes:
    assert found is not None
    return found.get_secret_value()


def test_key_is_created_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "jp" / "notebook-key"
    made = secret(key_file.KeyFile(path).obtain())
    assert len(made) == KEY_BYTES
    assert secret(key_file.KeyFile(path).obtain()) == secret(key_file.KeyFile(path).read()) == made
    assert os.listdir(path.parent) == ["notebook-key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert secret(key_file.KeyFile(tmp_path / "another").obtain()) != made


def test_reading_creates_no_key(tmp_path: Path) -> None:
    assert key_file.KeyFile(tmp_path / "data" / "key").read() is None
    assert os.listdir(tmp_path) == []


def test_environment_variable_names_another_key_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JP_NB_KEY_FILE", str(tmp_path / "mine"))
    file = key_file.KeyFile()
    assert file.path == tmp_path / "mine"
    file.obtain()
    assert (tmp_path / "mine").is_file()
    monkeypatch.setenv("JP_NB_KEY_FILE", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert key_file.KeyFile().path == tmp_path / "data" / "jp" / "notebook-key"


@posix
def test_key_file_open_to_other_users_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    rows: list[int] = [0o640, 0o604, 0o620, 0o602, 0o610, 0o666, 0o777]
    for mode in rows:
        with subtests.test(mode=mode):
            file = put(tmp_path / "key", mode=mode)
            for call in (file.read, file.obtain):
                with pytest.raises(
                    jp.StorageError,
                    match=(
                        r"key file .*key is accessible to other "
                        r"users"
                    ),
                ):
                    call()
            assert file.path.read_bytes() == KEY  # nothing was repaired behind the user's back


@posix
def test_key_file_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "key")
    monkeypatch.setattr(os, "geteuid", lambda: file.path.stat().st_uid + 1)
    with pytest.raises(jp.StorageError, match="belongs to another user"):
        file.read()


def test_key_of_a_wrong_length_is_refused_and_kept(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    rows: list[bytes] = [b"", b"short", KEY[:-1], KEY + b"\n"]
    for content in rows:
        with subtests.test(content=content):
            file = put(tmp_path / "key", content)
            for call in (file.read, file.obtain):
                with pytest.raises(jp.StorageError, match=f"has {len(content)} bytes") as caught:
                    call()
            assert "short" not in str(caught.value)
            assert file.path.read_bytes() == content


def test_folder_in_place_of_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(jp.StorageError, match=r"is not a file|cannot be read"):
        key_file.KeyFile(tmp_path).obtain()
    with pytest.raises(jp.StorageError, match="cannot be read: Not a directory"):
        key_file.KeyFile(put(tmp_path / "key").path / "below").obtain()


@posix
def test_named_pipe_in_place_of_a_key_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key", 0o600)
    with pytest.raises(jp.StorageError, match="is not a file"):
        key_file.KeyFile(tmp_path / "key").read()


@posix
def test_link_to_a_key_file_is_checked_at_its_target(tmp_path: Path) -> None:
    target = put(tmp_path / "target").path
    (tmp_path / "link").symlink_to(target)
    assert secret(key_file.KeyFile(tmp_path / "link").read()) == KEY
    target.chmod(0o644)
    with pytest.raises(jp.StorageError, match="accessible to other users"):
        key_file.KeyFile(tmp_path / "link").read()
    target.unlink()
    with pytest.raises(jp.StorageError, match="is a broken link"):
        key_file.KeyFile(tmp_path / "link").obtain()
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.parametrize("broken", ["mkdir", "open"])
def test_read_only_home_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(30, "Read-only file system")

    if broken == "mkdir":
        monkeypatch.setattr(Path, "mkdir", refuse)
    else:
        monkeypatch.setattr(key_file, "_write_new_key", refuse)
    with pytest.raises(jp.StorageError, match="cannot be created: Read-only file system"):
        key_file.KeyFile(tmp_path / "data" / "key").obtain()
    assert not list(tmp_path.rglob("*key*"))


@posix
@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write everywhere")
def test_folder_without_write_permission_is_a_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(jp.StorageError, match="cannot be created: Permission denied"):
        key_file.KeyFile(tmp_path / "key").obtain()
    tmp_path.chmod(0o700)


def test_failed_write_leaves_no_partial_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(jp.StorageError, match="No space left"):
        key_file.KeyFile(tmp_path / "key").obtain()
    assert os.listdir(tmp_path) == []


def test_second_of_two_processes_uses_the_key_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    write = key_file._write_new_key

    def overtaken(temporary: Path) -> None:
        write(temporary)
        put(path)

    monkeypatch.setattr(key_file, "_write_new_key", overtaken)
    assert secret(key_file.KeyFile(path).obtain()) == KEY
    assert os.listdir(tmp_path) == ["key"]


@pytest.mark.parametrize("overtaken", [False, True])
def test_key_is_created_on_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overtaken: bool
) -> None:
    path = tmp_path / "key"

    def refuse(*_: Any) -> None:
        if overtaken:
            put(path)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    made = secret(key_file.KeyFile(path).obtain())
    assert secret(key_file.KeyFile(path).read()) == made
    assert (made == KEY) == overtaken
    assert os.listdir(tmp_path) == ["key"]


RACE = """
import sys
from pathlib import Path
from jp_nb.storage.key_file import KeyFile
sys.stdin.readline()
print(KeyFile(Path(sys.argv[1])).obtain().get_secret_value().hex())
"""


def test_concurrent_processes_use_one_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path / "data" / "key")]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = {process.communicate(timeout=60)[0].strip() for process in started}
    assert len(found) == 1
    assert len(found.pop()) == 2 * KEY_BYTES
    assert os.listdir(tmp_path / "data") == ["key"]


def test_messages_abbreviate_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    with pytest.raises(jp.StorageError) as caught:
        put(tmp_path / "notebook-key", b"").read()
    assert f"the key file {Path('~') / 'notebook-key'} has 0 bytes" in str(caught.value)


def test_key_is_in_no_repr(tmp_path: Path) -> None:
    file = put(tmp_path / "key")
    found = file.read()
    for shown in (repr(found), str(found), repr(file), repr(vars(file))):
        assert "defgh" not in shown  # how the bytes would look
        assert KEY.hex() not in shown

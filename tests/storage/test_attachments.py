"""Files that are attached: patterns, contents, limits and errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.config.tree.attachment_urls import parse_attachment_argument, parse_attachment_url
from jp_nb.storage import attachments
from tests.kit.kinds import make

PNG = b"\x89PNG\r\n\x1a\n\0rest"


def read(folder: Path, *urls: str) -> tuple[Any, ...]:
    return attachments.Attachments().read(urls, folder)


def why_not(folder: Path, *urls: str) -> str:
    with pytest.raises(jp.JpNbError) as caught:
        read(folder, *urls)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.md").write_bytes("\ufeffDelft, größer\r\n".encode())
    (tmp_path / "data").mkdir()
    (tmp_path / "odd[1]").mkdir()
    for name in ("b.csv", "a.csv", ".hidden.csv"):
        (tmp_path / "data" / name).write_text(name, encoding="utf-8")
    return tmp_path


# --- files -----------------------------------------------------------------------------------


def test_text_is_attached_without_byte_order_mark(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[str] = ["file:notes.md", "file://notes.md", "file:./data/../notes.md"]
    for url in rows:
        with subtests.test(url=url):
            [made] = read(folder, url)
            assert (made.media_type, made.content) == ("text/plain", "Delft, größer\r\n")
            assert made.source in ("notes.md", "data/../notes.md")


def test_images_and_pdfs_are_recognized_by_content(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[tuple[bytes, str]] = [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n\xff", "application/pdf"),
    ]
    for data, media_type in rows:
        with subtests.test(data=data):
            (folder / "figure.txt").write_bytes(data)
            assert read(folder, "file:figure.txt") == (
                make("attachment", "figure.txt", media_type, data),
            )


def test_glob_attaches_matching_files_in_order(folder: Path) -> None:
    (folder / "data" / "sub.csv").mkdir()
    found = read(folder, "file:data/*.csv")
    assert [a.source for a in found] == ["data/a.csv", "data/b.csv"]
    assert [a.source for a in read(folder, "file:**/*.md")] == ["notes.md"]


def test_existing_file_precedes_a_glob_of_its_name(folder: Path) -> None:
    (folder / "[a].txt").write_text("odd", encoding="utf-8")
    (folder / "a.txt").write_text("plain", encoding="utf-8")
    assert [a.content for a in read(folder, "file:[a].txt")] == ["odd"]


def test_paths_from_home_and_from_the_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    [made] = read(Path("/"), "file:~/notes.md")
    assert (made.source, made.content) == ("~/notes.md", "Delft, größer\r\n")
    found = read(Path("/"), "file:~/data/*.csv")
    assert [a.source for a in found] == ["~/data/a.csv", "~/data/b.csv"]
    assert read(Path("/"), f"file://{folder}/notes.md")[0].content == "Delft, größer\r\n"


def test_file_is_attached_once_under_its_first_name(folder: Path) -> None:
    os.symlink(folder / "notes.md", folder / "same.md")
    found = read(folder, "file:notes.md", "file:data/*.csv", "file:same.md", "file:data/a.csv")
    assert [a.source for a in found] == ["notes.md", "data/a.csv", "data/b.csv"]


def test_recursive_globs_skip_hidden_files_and_link_cycles(folder: Path) -> None:
    deep = folder / "data" / "x" / "y"
    deep.mkdir(parents=True)
    (deep / "c.csv").touch()
    (folder / ".git").mkdir()
    (folder / ".git" / "d.csv").touch()
    os.symlink(folder, deep / "round")
    os.symlink(folder / "data", folder / "linked")
    sources = {
        "file:**/*.csv": ["data/a.csv", "data/b.csv", "data/x/y/c.csv"],
        "file:**/y/*": ["data/x/y/c.csv"],
        "file:data/**": ["data/a.csv", "data/b.csv", "data/x/y/c.csv"],
        "file:.git/*": [".git/d.csv"],
        "file:data/.*": ["data/.hidden.csv"],
        "file:l*/[!b].csv": ["linked/a.csv"],
        f"file:{folder}/data/%3F.csv": ["data/a.csv", "data/b.csv"],
    }
    for url, expected in sources.items():
        assert [a.source for a in read(folder, url)] == expected, url


def test_file_that_cannot_be_inspected_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.symlink(folder / "nothing", folder / "data" / "0.csv")
    os.symlink(folder / "data" / "loop.csv", folder / "data" / "loop.csv")
    why = why_not(folder, "file:data/*.csv")
    assert why == f"{folder}/data/loop.csv: Too many levels of symbolic links"
    (folder / "data" / "loop.csv").unlink()
    assert len(read(folder, "file:data/*.csv")) == 2
    assert "File name too long" in why_not(folder, f"file:[d]ata/{'x' * 300}")


def test_glob_over_too_many_files_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_SEARCHED_FILES", 3)
    assert len(read(folder, "file:data/*.csv")) == 2
    assert "would search more than 3 files" in why_not(folder, "file:**/*.tsv")


def test_unreadable_folder_in_a_glob_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path) == folder / "data":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    for pattern in ("file:*/*.csv", "file:data/[a].csv", "file:**/*"):
        with subtests.test(pattern=pattern):
            assert why_not(folder, pattern) == f"{folder}/data: Permission denied"


def test_unchanged_files_are_not_read_again(folder: Path) -> None:
    reader = attachments.Attachments()
    first = reader.read(["file:notes.md"], folder)
    assert reader.read(["file:notes.md"], folder) is first
    (folder / "notes.md").write_text("Leiden", encoding="utf-8")
    second = reader.read(["file:notes.md"], folder)
    assert [a.content for a in second] == ["Leiden"]
    times = (folder / "notes.md").stat()
    (folder / "notes.md").write_text("London", encoding="utf-8")
    os.utime(folder / "notes.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    second = reader.read(["file:notes.md"], folder)
    assert [a.content for a in second] == ["London"]
    assert reader.read([], folder) == ()
    assert reader.read(["file:notes.md"], folder) == second


def test_old_content_is_not_used_after_an_error(folder: Path) -> None:
    reader = attachments.Attachments()
    reader.read(["file:notes.md"], folder)
    (folder / "notes.md").write_bytes(b"\0")
    for _ in range(2):
        with pytest.raises(jp.JpNbError, match="neither text"):
            reader.read(["file:notes.md"], folder)


def test_long_files_are_attached_completely(folder: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(200_000))
    (folder / "long.txt").write_text(text, encoding="utf-8")
    assert read(folder, "file:long.txt")[0].content == text


def test_replaced_file_is_read_again(folder: Path) -> None:
    reader = attachments.Attachments()
    other = folder / "other.md"
    other.write_text("Delft, GRÖSSER", encoding="utf-8")
    reader.read(["file:notes.md"], folder)
    times = (folder / "notes.md").stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(folder / "notes.md")
    assert reader.read(["file:notes.md"], folder)[0].content == "Delft, GRÖSSER"


# --- what cannot be attached -----------------------------------------------------------------


def test_errors_give_the_reason(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("file:nots.md", "file {folder}/nots.md does not exist"),
        ("file:data/*.tsv", "file {folder}/data/*.tsv does not exist"),
        ("file:data", "{folder}/data is a folder; attach its files with file://data/*"),
        ("file:data/", "{folder}/data is a folder; attach its files with file://data/*"),
        ("file:notes.md?lines=3", "a file takes no parameters"),
        ("file:notes.md/x", "Not a directory"),
        ("file:no%00te", "no\\u0000te: "),
        ("file:\x1b[31m%0Ared", "file {folder}/\\u001b[31m\\nred does not exist"),
        ("FILE:nots.md", "file {folder}/nots.md does not exist"),
        ("file:**/*.tsv", "file {folder}/**/*.tsv does not exist"),
        ("file:[a", "does not exist"),
        ("file:odd[1]", "folder; attach its files with file://odd[[]1]/*"),
        ("https://example.org/a", "attachments of the type 'https' are not supported"),
        ("bear://x", "attachments of the type 'bear' are not supported: use file:PATH or "),
    ]
    for url, why in rows:
        with subtests.test(url=url):
            assert why.format(folder=folder) in why_not(folder, "file:notes.md", url)


def test_unknown_binary_file_is_refused(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[bytes] = [b"\xff\xfe\xfd", b"a\0b", "ä".encode("latin-1")]
    for data in rows:
        with subtests.test(data=data):
            (folder / "data" / "c.csv").write_bytes(data)
            why = why_not(folder, "file:data/*")
            assert why.startswith("data/c.csv is neither text in UTF-8, nor an image")


def test_pipe_and_device_are_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "is not a regular file" in why_not(folder, "file:pipe")
    assert "is not a regular file" in why_not(folder, "file:/dev/zero")


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="a system without /proc")
def test_proc_file_is_refused(folder: Path) -> None:
    assert why_not(folder, "file:/proc/uptime") == "/proc/uptime is not a regular file"
    (folder / "empty").touch()
    assert read(folder, "file:empty")[0].content == ""


def test_size_limit_counts_the_bytes_that_were_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_ATTACHMENT_BYTES", 100)
    monkeypatch.setattr(attachments, "_read_bytes", lambda file: b"x" * 60)
    assert ("the attachments have more than 0 MB") in why_not(
        folder, "file:notes.md", "file:data/a.csv"
    )
    monkeypatch.undo()
    monkeypatch.setattr(attachments, "MAX_ATTACHMENT_BYTES", 20)
    monkeypatch.setattr(attachments._AttachedFile, "size", 1)
    (folder / "notes.md").write_text("x" * 21, encoding="utf-8")
    assert "with notes.md, the attachments have more than" in why_not(folder, "file:notes.md")


def test_file_removed_before_it_is_read_is_named(folder: Path) -> None:
    [file] = attachments._find_files("file:notes.md", folder)
    (folder / "notes.md").unlink()
    with pytest.raises(jp.JpNbError, match=r"notes.md: No such file"):
        attachments._read_bytes(file)


def test_size_and_count_limits_apply_before_reading(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_ATTACHMENT_BYTES", 2_000_000)
    monkeypatch.setattr(attachments, "_read_bytes", lambda file: pytest.fail("it was read"))
    with (folder / "big.txt").open("wb") as big:
        big.truncate(1_999_990)
    why = why_not(folder, "file:big.txt", "file:notes.md")
    assert why == "with notes.md, the attachments have more than 2 MB"
    monkeypatch.setattr(attachments, "MAX_ATTACHED_FILES", 1)
    assert "more than 1 files are attached" in why_not(folder, "file:data/*")
    assert "more than 1 files are attached" in why_not(folder, "file:data/a.csv", "file:data/b.csv")


def test_path_is_turned_into_an_attachment_url(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("notes.md", "sub/notes.md"),
        ("../a b?#%.md", "a b?#%.md"),
        ("*.md", "sub/*.md"),
        ("/x/y", "/x/y"),
        ("~/x", "~/x"),
    ]
    for text, path in rows:
        with subtests.test(text=text):
            url = parse_attachment_argument(text, within="sub")
            parts = parse_attachment_url(url)
            assert (parts.type, parts.path, parts.params) == ("file", path, {})
            assert parse_attachment_argument(url, within="sub") == url
            assert (
                parse_attachment_url(parse_attachment_argument("./~x", within=".")).path == "./~x"
            )
            with pytest.raises(ValueError, match="the path of a file"):
                parse_attachment_argument(" ")

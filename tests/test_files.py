"""Small files: whole or not at all, wherever the current folder is."""

import os
import subprocess
import sys

import pytest

from txf import files
from txf.errors import RunError, UserError


def test_a_text_comes_back_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    files.write_text(path, "eins\n")
    files.write_text(path, "zwei\u2028\n")
    assert path.read_text(encoding="utf-8") == "zwei\u2028\n"
    assert os.listdir(path.parent) == ["a.txt"]


def test_json_comes_back(tmp_path):
    value = {"a": [1, None, 0.1], "ü": {"b": float("inf")}}
    files.write_json(tmp_path / "a.json", value)
    assert files.read_json(tmp_path / "a.json") == value


def test_a_write_that_fails_leaves_the_old_text(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*a\.txt: No space left on device"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_below_a_file_is_refused_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"File exists|Not a directory") as caught:
        files.write_text(tmp_path / "file" / "below", "")
    assert "\n" not in str(caught.value)


def test_a_reader_never_sees_half_a_text(tmp_path):
    """A child writes long texts until it is killed; what lies there is one of them, whole."""
    path = tmp_path / "a.txt"
    code = (
        "import itertools, sys; from txf.files import write_text\n"
        "for n in itertools.count():\n"
        "    write_text(sys.argv[1], str(n % 10) * 300_000)\n"
        "    n or print(flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        for _ in range(50):
            text = path.read_text()
            assert len(text) == 300_000
            assert len(set(text)) == 1
        child.kill()
    assert len(path.read_text()) == 300_000


def test_reading_says_what_is_wrong(tmp_path):
    with pytest.raises(UserError, match=r"a\.json does not exist"):
        files.read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"a":\n 1,}')
    with pytest.raises(UserError, match=r"a\.json is not JSON \(line 2\)"):
        files.read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(UserError, match=r"cannot read .*a\.json"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(UserError, match="cannot read"):
        files.read_json(tmp_path)


def test_paths_are_freed_of_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert os.fspath(files.absolute("a/../b")) == str(tmp_path / "b")
    assert os.fspath(files.absolute("~/c")) == str(tmp_path / "home" / "c")
    assert "bucket/run" in os.fspath(files.absolute("gs://bucket/run"))
    files.write_text("plain.txt", "x")
    assert (tmp_path / "plain.txt").read_text() == "x"

"""All commands refuse a file that cannot be read in the same words: its path, the rule, a hint; exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.cli import main

ROOT = Path(__file__).parents[2]
PROBLEM = str(ROOT / "examples" / "checkpoints.json")
# command, with FILE in place of the file, and the ending of the file
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "validate": (("validate", "FILE"), "toml"),
    "show": (("show", "FILE"), "toml"),
    "run": (("run", "FILE"), "toml"),
    "sweep": (("sweep", "FILE", "--out", "out"), "toml"),
    "study": (("study", "FILE", "--out", "out"), "toml"),
    "compare": (("compare", "FILE", "mm1"), "toml"),
    "plan checkpoints": (("plan", "checkpoints", "FILE"), "json"),
    "plan checkpoints, an archive": (("plan", "checkpoints", "FILE"), "npz"),
    "plan checkpoints --from": (("plan", "checkpoints", PROBLEM, "--from", "FILE"), "json"),
    "plan placement": (("plan", "placement", "FILE"), "json"),
    "plan selection": (("plan", "selection", "FILE"), "toml"),
    "plan queries": (("plan", "queries", "FILE"), "npz"),
    "plan steps": (("plan", "steps", "FILE"), "json"),
    "plan interval": (("plan", "interval", "FILE"), "json"),
    "plan replicas": (("plan", "replicas", "FILE"), "toml"),
    "verify": (("verify", "FILE", PROBLEM), "json"),
    "availability": (("availability", "FILE"), "json"),
    "size": (("size", "FILE"), "toml"),
    "fleet": (("fleet", "FILE"), "json"),
    "failures": (("failures", "FILE"), "csv"),
    "ingest": (("ingest", "FILE", "--key", "k", "--time", "t", "--key-groups", "2", "--out", "out"), "csv"),
}


def refusal(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], file: Path) -> str:
    with pytest.raises(SystemExit) as left:
        main([str(file) if word == "FILE" else word for word in words])
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    return err


@pytest.mark.parametrize(("words", "ending"), COMMANDS.values(), ids=list(COMMANDS))
def test_every_command_words_a_file_that_cannot_be_read_in_the_same_way(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    ending: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"file.{ending}"
    assert refusal(capsys, words, file) == f"error: {file}: cannot be read (no such file or directory)\n"
    file.mkdir()
    assert refusal(capsys, words, file) == f"error: {file}: is a directory (name a file)\n"
    file.rmdir()
    os.mkfifo(file)
    assert refusal(capsys, words, file) == f"error: {file}: is not a plain file\n"


TEXTS = {
    "null": ("null", ": must be a JSON object (it is null)"),
    "a list": ("[1]", ": must be a JSON object (it is a list)"),
    "a text": ('"a"', ": must be a JSON object (it is a text)"),
    "a number": ("1.5", ": must be a JSON object (it is a number)"),
    "true": ("true", ": must be a JSON object (it is true or false)"),
    "nothing": ("", ":1: is not JSON (expecting value at column 1)"),
    "half an object": ('{"a": 1,\n', ":2: is not JSON (expecting property name enclosed in double quotes at column 1)"),
    "no UTF-8": ("{\n\udcff", ":2: is not text in UTF-8"),
}
OF_JSON = [name for name, (_, ending) in COMMANDS.items() if ending == "json"]


@pytest.mark.parametrize("name", OF_JSON)
@pytest.mark.parametrize(("text", "says"), TEXTS.values(), ids=list(TEXTS))
def test_every_command_names_the_file_and_the_line_of_broken_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, says: str
) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    assert refusal(capsys, COMMANDS[name][0], file) == f"error: {file}{says}\n"


@pytest.mark.parametrize("name", [name for name, (words, _) in COMMANDS.items() if words[0] == "plan"])
def test_every_plan_names_the_whole_path_of_a_file_with_another_ending(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = tmp_path / "file.txt"
    said = refusal(capsys, COMMANDS[name][0], file)
    assert said.startswith(f"error: {file}: ")

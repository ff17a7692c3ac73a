"""Commands and code blocks of the documents are executed, so that they cannot drift from the code.

Lines shown below a command are compared with what it prints. Commands and examples run within this process, with the
runs of sweeps: a process for each would begin by importing everything again, and those with Spark would start a Java
machine. What processes of their own add is tested by `test_cli`, `test_packaging`, `test_sweep` and
`test_spark_session`.
"""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs_inside import inside as runs_inside

from holdfast import cli

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(Save this as|Append this to) `([\w.-]+)`.*:$")
"""The line before a block that the reader puts into a file."""
_LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]+))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ELSEWHERE = {".venv/bin/holdfast reproduce --quick --workers 2": "tests/scenarios/studies/reproduce/test_reproduce.py"}
"""Commands that take long, and where they are executed and looked at closely."""


def _with(language: str) -> list[object]:
    """Return the documents that have a block in the language."""
    found: list[object] = []
    for document in DOCUMENTS:
        texts = [text for kind, text in _BLOCK.findall(document.read_text()) if kind == language]
        if texts and document.name != "api.md":  # whose examples are those of docstrings
            marks = [pytest.mark.spark] if any(re.search(r"\bingest\b", text) for text in texts) else []
            found.append(pytest.param(document, id=str(document.relative_to(ROOT)), marks=marks))
    return found


def _steps(document: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what a reader does, in order: ("write" or "append", file, text), or ("type", command, what it prints)."""
    text = document.read_text()
    for block in _BLOCK.finditer(text):
        before = text[: block.start()].rstrip().splitlines()
        if file := _FILE.match(before[-1]) if before else None:
            yield "write" if file[1].startswith("Save") else "append", file[2], block[2]
        elif block[1] == "console":
            for part in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield "type", command, shown


def _put(action: str, file: str, text: str) -> None:
    """Write or append to a file of the working directory."""
    with Path(file).open("w" if action == "write" else "a", encoding="utf-8") as opened:
        opened.write(text)


def _not_printed(shown: str, printed: str) -> list[str]:
    """Return the lines of a transcript that were not printed, in order; `...` skips lines, and rules of tables."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    asked = [" ".join(line.split()) for line in shown.splitlines()]
    return [line for line in asked if line.strip("─") not in ("", "...") and line not in lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory that looks like a checkout to a command, and may be written to."""
    for name in ("examples", "scenarios"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.fixture
def inside(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make that directory the working directory, and start Spark for documents that need it."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark")
    monkeypatch.chdir(folder)
    with runs_inside():
        yield folder


def _exit_code(words: list[str]) -> object:
    """Return the exit code of the command."""
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    return left.value.code


@pytest.mark.parametrize("document", _with("console"))
def test_commands_in_documents_print_what_is_shown(
    document: Path, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: dict[str, str] = {}
    for action, name, text in _steps(document):
        if action != "type":
            _put(action, name, text)
            printed.clear()
            continue
        if name in _ELSEWHERE:
            assert name in (ROOT / _ELSEWHERE[name]).read_text()
            continue
        words = shlex.split(name)
        assert words[0] == ".venv/bin/holdfast", f"only our own command can be checked: {name}"
        if "--out" in words or name not in printed:  # a run that keeps nothing prints the same again
            code, said = _exit_code(words[1:]), capsys.readouterr()
            printed[name] = said.out + said.err
            assert code == 0, f"{name}\n{printed[name]}"
        assert _not_printed(text, printed[name]) == [], f"{name}\n{printed[name]}"


def test_a_transcript_is_compared_line_by_line() -> None:
    printed = "one   two\nthree\nfour\n"
    assert _not_printed("one two\n...\nfour\n", printed) == []
    assert _not_printed("one\n", printed) == ["one"]
    assert _not_printed("four\nthree\n", printed) == ["three"]


@pytest.mark.parametrize("document", _with("python"))
def test_code_in_documents_works(document: Path, inside: Path) -> None:
    for action, name, text in _steps(document):
        if action != "type":
            _put(action, name, text)
    texts = [text for kind, text in _BLOCK.findall(document.read_text()) if kind == "python"]
    for text in texts:
        if ">>>" in text:
            example = doctest.DocTestParser().get_doctest(text, {}, "document", None, 0)
            assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed == 0
    plain = "\n".join(text for text in texts if ">>>" not in text)  # later blocks go on with what earlier ones made
    exec(compile(plain, "document", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_documents_lead_somewhere(document: Path) -> None:
    missing = []
    for path, anchor in _LINK.findall(_BLOCK.sub("", document.read_text())):
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            missing.append((path, anchor))
    assert missing == []


def _anchors(document: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_BLOCK.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


_SPARK = re.compile(r"^analysis\.spark\.")


@pytest.mark.parametrize("spark", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_docstrings_with_examples_are_true(spark: bool, inside: Path) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ("models", "sim", "optimizer", "analysis", "scenarios", "holdfast")
        for path in sorted((ROOT / package).rglob("*.py"))
        if ">>>" in path.read_text()
    ]
    asked = [name for name in modules if bool(_SPARK.match(name)) is spark]
    assert asked
    for name in asked:
        assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


@pytest.mark.spark
def test_the_first_command_of_the_readme_ends_with_a_report(
    inside: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = re.search(r"^study:.*\n\t\$\(BIN\)/holdfast (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    words = [str(tmp_path / "out") if word == "study" and k else word for k, word in enumerate(recipe[1].split())]
    # Less of everything, and a lower threshold so that key groups move all the same.
    less = {
        "duration": "40 s", "warmup": "5 s", "replications": "2", "workload.flights.rate.mean": "800 /s",
        "elasticity.high": "0.09", "elasticity.low": "0.01",
    }  # fmt: skip
    changes = [word for path, value in less.items() for word in ("--set", f"{path}={value}")]
    code, said = _exit_code([*words, *changes]), capsys.readouterr()
    assert code == 0, said.out + said.err
    assert "exact, cpal (second) beside even, direct (first), run by run" in said.out
    assert "0 lost, 0 duplicated" in " ".join(said.out.split())
    assert (tmp_path / "out" / "report.html").is_file()

"""docs/TUTORIAL.md does what it says: its files are written, its commands run, its outputs and files are there. Needs no root.

The page's blocks are, by their language:
- `toml`: a file, whose name stands in the first line as a comment;
- `sh`: commands, run in the order of the page, in one folder, each of which must succeed;
- `text`: lines that the commands of the block before print, in this order, among others;
- none: not run.
Each path below out/ that the prose names must be there in the end.
"""

import os
import re
import subprocess

import pytest

from weirlab.switch import REPOSITORY, weir_binary

PAGE = REPOSITORY / "docs" / "TUTORIAL.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Much, for machines that do much else and builds without optimisation.
COMMAND_S = 600


def blocks():
    return [(language, text) for language, text in BLOCK.findall(PAGE.read_text())]


def promised():
    """Paths that the prose names."""
    prose = BLOCK.sub("", PAGE.read_text())
    return sorted(set(re.findall(r"`(out/[^`\s]*)`", prose)))


def words(line):
    return " ".join(line.split())


def missing_line(expected, output):
    """The first of `expected`'s lines that `output` does not have after the ones before; blanks do not count."""
    lines = map(words, output.splitlines())
    for line in filter(None, map(words, expected.splitlines())):
        if line not in lines:
            return line
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which `weir` is the command under test."""
    folder = tmp_path_factory.mktemp("tutorial")
    bin_folder = tmp_path_factory.mktemp("bin")
    (bin_folder / "weir").symlink_to(os.path.abspath(weir_binary()))
    return folder, {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}


def test_every_command_of_the_tutorial_runs(folder):
    here, environment = folder
    output, ran = "", 0
    for language, text in blocks():
        if language == "toml":
            name = re.fullmatch(r"# (mine/[\w.]+\.toml)", text.splitlines()[0])
            assert name, f"a file's first line names it: {text.splitlines()[0]}"
            (here / name[1]).write_text(text)
        elif language == "sh":
            output = ""
            for command in text.splitlines():
                finished = subprocess.run(
                    ["bash", "-c", command], cwd=here, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
                )
                assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
                output += finished.stdout
                ran += 1
        elif language == "text":
            assert (line := missing_line(text, output)) is None, f"not printed: {line}\n{output}"
    assert ran >= 8
    assert len(promised()) >= 10
    for path in promised():
        assert (here / path).exists(), path

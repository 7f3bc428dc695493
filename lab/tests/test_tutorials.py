"""The tutorials in docs/ do what they say: their files are written, their commands run, their outputs and files are there.

A page's blocks are, by their language:
- `toml`: a file, whose name stands in the first line as a comment;
- `sh`: commands, run in the order of the page, in one shell and one folder, each of which must succeed;
- `text`: lines that the commands of the block before print, in this order, among others;
- all other blocks: not run (`rust` blocks are compiled by the doctests of weir-mmu).
Each path below out/ that the prose names must be there in the end.
"""

import os
import pathlib
import re
import subprocess

import pytest

from weirlab.switch import REPOSITORY, weir_binary

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Much, for machines that do much else and builds without optimisation.
PAGE_S = 900
# A failed page ends what it started.
PROLOGUE = r"""set -eE -o pipefail
trap 'echo "failed: $BASH_COMMAND" >&2' ERR
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"""
# Namespaces, interfaces and control sockets of a page are its own, and end with its shell.
APART = """mount -t tmpfs none /run
mount -t sysfs none /sys
ip link set lo up
"""


def words(line):
    return " ".join(line.split())


def missing_line(expected, output):
    """The first of `expected`'s lines that `output` does not have after the ones before. Blanks do not count; "..." stands for a line's rest."""
    lines = map(words, output.splitlines())
    for line in filter(None, map(words, expected.splitlines())):
        start = line.removesuffix("...")
        if not any(printed == line or start != line and printed.startswith(start) for printed in lines):
            return line
    return None


def script(blocks):
    """A shell's script of a page: before the commands of each block it prints the block's number on a line."""
    lines, files = [PROLOGUE], 0
    for number, (language, text) in enumerate(blocks):
        if language == "toml":
            name = re.fullmatch(r"# ((?:mine/)?[\w-]+\.toml)", text.splitlines()[0])
            assert name, f"a file's first line names it: {text.splitlines()[0]}"
            lines.append(f"cat > {name[1]} <<'END OF FILE'\n{text}END OF FILE")
            files += 1
        elif language == "sh":
            lines.append(f"echo 'block {number}:'\n{text}")
    assert files and any(language == "sh" for language, _ in blocks)
    return "\n".join(lines)


def run(page, folder, program, *, apart=False):
    """Runs the page in `folder`, where `program` is in the path under its own name."""
    text = (REPOSITORY / "docs" / page).read_text()
    blocks = BLOCK.findall(text)
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / program.name).symlink_to(program.absolute())
    work = folder / "work"
    work.mkdir()
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    (folder / "page.sh").write_text((APART if apart else "") + script(blocks))
    command = [*(["unshare", "--mount", "--net"] if apart else []), "bash", str(folder / "page.sh")]
    finished = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=PAGE_S, check=False)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    printed = dict(re.findall(r"^block (\d+):\n(.*?)(?=^block \d+:$|\Z)", finished.stdout, re.MULTILINE | re.DOTALL))
    before = None
    for number, (language, expected) in enumerate(blocks):
        if language == "sh":
            before = printed[str(number)]
        elif language == "text":
            assert (line := missing_line(expected, before)) is None, f"not printed: {line}\n{before}"
    promised = sorted(set(re.findall(r"`(out/[^`\s]*)`", BLOCK.sub("", text))))
    for path in promised:
        assert (work / path).exists(), path
    return promised


def test_a_figure_of_ones_own(tmp_path):
    assert len(run("TUTORIAL_FIGURE.md", tmp_path, pathlib.Path(weir_binary()))) >= 10


def test_a_policy_of_ones_own(tmp_path):
    # `cargo test --workspace` builds the examples into the same target folder.
    program = pathlib.Path(weir_binary()).absolute().parent.parent / "debug" / "my-policy"
    if not program.exists():
        pytest.skip(f"no program of examples/my-policy at {program}")
    assert len(run("TUTORIAL_POLICY.md", tmp_path, program)) >= 4


@pytest.mark.root
def test_a_lab_switch_on_a_server(tmp_path):
    run("TUTORIAL_SERVER.md", tmp_path, pathlib.Path(weir_binary()), apart=True)

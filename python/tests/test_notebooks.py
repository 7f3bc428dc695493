"""Do the notebooks run, and print what they store?

    WEIR_BIN=target/debug/weir python -m unittest discover --start-directory python/tests
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((REPOSITORY / "docs/notebooks").glob("*.ipynb"))


class Notebooks(unittest.TestCase):
    """Each notebook in a process and a folder of its own."""

    def test_cells_print_what_is_stored(self) -> None:
        self.assertGreater(len(NOTEBOOKS), 0)
        program = pathlib.Path(os.environ["WEIR_BIN"]).absolute()
        # `cargo test --workspace` builds the examples into the same target folder.
        policy = program.parent.parent / "debug" / "my-policy"
        environment = {**os.environ, "WEIR_BIN": str(program), "MY_POLICY": str(policy)}
        for notebook in NOTEBOOKS:
            with self.subTest(notebook=notebook.name), tempfile.TemporaryDirectory() as folder:
                if notebook.name == "policy.ipynb" and not policy.exists():
                    self.skipTest(f"no program of examples/my-policy at {policy}")
                arguments = [sys.executable, str(REPOSITORY / "scripts/notebooks"), str(notebook)]
                run = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main()

"""Names of the package that releases of one minor version keep, in docs/KEPT_NAMES.txt."""

import inspect
import pathlib
import types
import unittest

import weir

KEPT = pathlib.Path(__file__).resolve().parents[2] / "docs/KEPT_NAMES.txt"


def names(owner: object, prefix: str) -> set[str]:
    """Public names below a module or a class, with the parameters of functions."""
    of_owner: list[str] = getattr(owner, "__all__", None) or [name for name in vars(owner) if not name.startswith("_")]
    found: set[str] = set()
    for name in of_owner:
        value = getattr(owner, name)
        path = f"{prefix}{name}"
        found.add(path)
        if isinstance(value, type | types.ModuleType):
            found |= names(value, f"{path}.")
        elif callable(value):
            found |= {f"{path}({parameter})" for parameter in inspect.signature(value).parameters if parameter != "self"}
    return found


class KeptNames(unittest.TestCase):
    def test_names_of_the_release_are_kept(self) -> None:
        # The list of the next minor version is `names`.
        kept = {line for line in KEPT.read_text().splitlines() if line.startswith("python ")}
        self.assertGreater(len(kept), 20)
        self.assertEqual(set(), kept - names(weir, "python weir."))


if __name__ == "__main__":
    unittest.main()

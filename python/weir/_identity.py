"""Identity of a class: what decides its results, as a text that is the same in each process."""

import copyreg
import hashlib
import os
import pathlib
import sys
import sysconfig
import types
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
#: Attributes of a class that decide nothing, or whose order is that of a set.
_IDLE = {
    "__annotate_func__",
    "__annotations_cache__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
}
_INSTALLED = tuple(
    os.path.realpath(path) + os.sep for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def identity(cls: type) -> str:
    """Digest of the class with all that its methods name: functions, values and modules of the caller, by value; installed ones by name."""
    walk = _Walk({})
    walk.add(cls)
    return walk.hash.hexdigest()


class _Walk:
    """A digest in progress. Objects that it has seen are numbered, so that cycles end."""

    def __init__(self, seen: dict[int, int]) -> None:
        self.hash = hashlib.sha256()
        self.seen = seen
        self.of_modules: set[tuple[int, str]] = set()
        # An object that ended would leave its address to another.
        self.kept: list[Any] = []

    def word(self, *words: object) -> None:
        for word in words:
            text = word if isinstance(word, bytes) else str(word).encode(errors="surrogatepass")
            self.hash.update(b"%d:" % len(text) + text)

    def add(self, of: Any, names: tuple[str, ...] = ()) -> None:
        """Adds an object; ``names`` are those of the code that names it."""
        if type(of) in _PLAIN:
            self.word(type(of).__name__, of if isinstance(of, bytes) else repr(of))
            return
        if isinstance(of, types.ModuleType):
            self._module(of, names)
            return
        if id(of) in self.seen:
            self.word("seen", self.seen[id(of)])
            return
        self.seen[id(of)] = len(self.seen)
        self.kept.append(of)
        if type(of) in (tuple, list):
            self.word(type(of).__name__, len(of))
            self._all(of)
        elif type(of) is dict:
            self.word("dict", len(of))
            self._all(part for item in of.items() for part in item)
        elif type(of) in (set, frozenset):
            self.word(type(of).__name__, *sorted(self._apart(part) for part in of))
        elif isinstance(of, types.CodeType):
            self._code(of)
        elif isinstance(of, types.FunctionType):
            self._function(of)
        elif isinstance(of, type):
            self._class(of)
        elif isinstance(of, staticmethod | classmethod):
            self.word(type(of).__name__)
            self.add(of.__func__)
        elif isinstance(of, property):
            self.word("property")
            self._all((of.fget, of.fset, of.fdel))
        elif isinstance(of, types.CellType):
            try:
                self.add(of.cell_contents)
            except ValueError:
                self.word("empty")
        elif hasattr(of, "__wrapped__"):
            self.word(type(of).__name__)
            self.add(of.__wrapped__)
        else:
            self._object(of)

    def _all(self, parts: Any) -> None:
        for part in parts:
            self.add(part)

    def _apart(self, of: Any) -> str:
        walk = _Walk(dict(self.seen))
        walk.add(of)
        return walk.hash.hexdigest()

    def _code(self, of: types.CodeType) -> None:
        self.word("code", of.co_code, of.co_flags, of.co_argcount, of.co_posonlyargcount, of.co_kwonlyargcount)
        self.word(*of.co_names, *of.co_varnames, *of.co_freevars, *of.co_cellvars, getattr(of, "co_exceptiontable", b""))
        self._all(of.co_consts)

    def _function(self, of: types.FunctionType) -> None:
        if not _is_of_the_caller(of.__module__, of.__code__.co_filename):
            self.word("function", of.__module__, of.__qualname__)
            return
        self.word("function", of.__name__)
        try:
            annotations = of.__annotations__
        except NameError:  # Python 3.14 evaluates them here.
            annotations = {}
        self._all((of.__code__, of.__defaults__, of.__kwdefaults__, annotations, of.__dict__))
        self._all(of.__closure__ or ())
        names = _names(of.__code__)
        for name in names:
            if name in of.__globals__:
                self.word("global", name)
                self.add(of.__globals__[name], names)

    def _class(self, of: type) -> None:
        if not _is_of_the_caller(of.__module__, None):
            self.word("class", of.__module__, of.__qualname__)
            return
        self.word("class", of.__name__)
        self._all(of.__bases__)
        for name, value in vars(of).items():
            if name not in _IDLE:
                self.word(name)
                self.add(value)

    def _module(self, of: types.ModuleType, names: tuple[str, ...]) -> None:
        file = getattr(of, "__file__", None)
        if of.__name__ == "__main__" or not _is_of_the_caller(of.__name__, file):
            self.word("module", of.__name__)
        elif id(of) not in self.seen:
            self.seen[id(of)] = len(self.seen)
            self.word("module", of.__name__)
            if file is not None:
                with open(file, "rb") as source:
                    self.word(source.read())
            # Those that it imports in turn.
            for value in vars(of).values():
                other = value if isinstance(value, types.ModuleType) else _module_of(value)
                if other is not None:
                    self.add(other)
        if of.__name__ == "__main__" or _is_of_the_caller(of.__name__, file):
            # Values that were set since.
            for name in names:
                if name in vars(of) and (id(of), name) not in self.of_modules:
                    self.of_modules.add((id(of), name))
                    self.word("of module", name)
                    self.add(vars(of)[name], names)

    def _object(self, of: Any) -> None:
        """What pickle would keep; of an object that it can't keep, the type."""
        self.add(type(of))
        try:
            reducer = copyreg.dispatch_table.get(type(of))
            reduced = of.__reduce_ex__(4) if reducer is None else reducer(of)
        except Exception:
            return
        parts = reduced if isinstance(reduced, tuple) else (reduced,)
        self._all(list(part) if hasattr(part, "__next__") else part for part in parts)


def _names(code: types.CodeType) -> tuple[str, ...]:
    inner = (name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names(const))
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def _module_of(value: Any) -> types.ModuleType | None:
    return sys.modules.get(value.__module__) if isinstance(value, types.FunctionType | type) else None


def _is_of_the_caller(module: str | None, file: str | None) -> bool:
    """Whether a module is neither installed nor Python's own."""
    if module == "__main__":
        return True
    if module is None or module.partition(".")[0] in ("weir", "_weir", "builtins"):
        return False
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None) or (file if found is None else None)
    if file is None:
        # Without a file: built in, or typed by the caller.
        return found is None or module not in sys.builtin_module_names and getattr(found, "__spec__", None) is None
    path = os.path.realpath(file)
    return not path.startswith(_INSTALLED) and not {"site-packages", "dist-packages"} & set(pathlib.Path(path).parts)

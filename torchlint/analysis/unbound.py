"""Names that nothing binds: reading one, or importing it, raises.

``for batch in dloader:`` in a function that calls it ``loader``.  Only in a project: a snippet may
be for others to complete.
"""

from __future__ import annotations

import builtins
import os
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.imports import MARKS, VCS, is_marked
from torchlint.naming import means_one_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program
    from torchlint.analysis.project import Project

# Names that a file need not bind: Python's own, also those of other versions, and what IPython,
# notebooks and profilers put beside them.  And what methods bind: to look at each takes a while.
KNOWN = frozenset(dir(builtins)) | frozenset(
    """aiter anext BaseExceptionGroup ExceptionGroup EncodingWarning PythonFinalizationError
    WindowsError copyright credits exit license quit
    apply basestring buffer cmp coerce execfile file intern long raw_input reduce reload unichr
    unicode xrange StandardError
    self cls In Out dbutils display get_ipython profile reveal_type spark sc sqlContext _""".split()
)
# What binds names where no statement is seen to.
_BINDS = re.compile(
    r"\b(?:exec|execfile|globals|locals|get_ipython)\s*\(|\bvars\(\)|\bexec\s|__builtin"
    r"|\bbuiltins\b|sys\.modules"
)
# What makes modules of other files than Python's, or puts them elsewhere.
_BUILDS = ("Extension(", "cythonize(", "build_ext", "__path__", "create_extension(", "protoc")
_MADE = re.compile(r"version|_pb2|generated|secret|private|local|^_|config|settings", re.IGNORECASE)
_RUNS = ("exec(", "execfile(", "run_path(", "run_module(")
_BUILTINS = ("builtins", "__builtin__")
_OBJECTS = "self|cls|args?|opts?|options?|cfg|config|conf|params|hparams"


def binds_nowhere(program: Program, word: str) -> bool:
    """Whether nothing else binds a name that no statement of a file does."""
    project, path = program.project, program.path
    if word.startswith("__") or project is None or path is None or path.suffix != ".py":
        return False  # cells of a notebook may bind what others read
    if _BINDS.search(program.text) or not is_marked(project.imports.root, (*VCS, *MARKS)):
        return False
    return not _is_brought(program, project, word) and not _is_set(program, project, word)


def missing_imports(program: Program) -> Iterator[cst.ImportFrom]:
    """Yield where a file takes what a module of the project has not."""
    project = program.project
    if project is None or program.path is None:
        return
    for statement in program.index.of(cst.ImportFrom):
        module = program.names.module_of(statement)
        if not module or isinstance(statement.names, cst.ImportStar):
            continue
        names = (one.name for one in statement.names if isinstance(one.name, cst.Name))
        if any(_lacks(program, project, module, name) for name in names):
            yield statement


def _is_missing(program: Program, project: Project, found: tuple[str, str]) -> bool:
    """Whether a package of the project, which the file is part of, has no such module.

    Nothing in its folder may have the name, and nothing may make it: a compiler, an installation,
    a script that fetches it, or whoever keeps a file of it out of the repository.
    """
    path, imports = str(program.path), project.imports
    package, missing = os.path.dirname(found[0]), found[1].partition(".")[0]  # noqa: PTH120
    if (
        not found[0].endswith("__init__.py")
        or not path.startswith(package + os.sep)
        or _MADE.search(missing)
    ):
        return False
    texts = map(imports.text, {found[0], *imports.having(_BUILDS)})
    told = missing in imports.words_of_texts or f"{missing}.py" in program.text
    if told or any(re.search(rf"\b{missing}\b", text) for text in texts):
        return False
    return not any(one.partition(".")[0] == missing for one in os.listdir(package))  # noqa: PTH208


def _lacks(program: Program, project: Project, module: str, name: cst.Name) -> bool:
    """Whether a module, which is surely that of the project, has nothing by a name."""
    path, imports, word = str(program.path), project.imports, name.value
    found = imports.find(path, f"{module}.{word}")
    if found is None or found[1] != word:
        return found is not None and "." in found[1] and _is_missing(program, project, found)
    beside = os.path.dirname(found[0]) == os.path.dirname(path)  # noqa: PTH120 - as in `Imports`
    own = module[0] == "@" or (beside and not imports.importers(path))
    # else another may be installed: `from datasets import load_dataset`
    if not own and not ("." in module and means_one_file(path, f"{module}.{word}", imports)):
        return False
    other = project.program(found[0])
    if other is None:
        return False
    bound = other.index.root.bindings
    return word not in bound and "__getattr__" not in bound and binds_nowhere(other, word)


def _is_brought(program: Program, project: Project, word: str) -> bool:
    """Whether ``from x import *`` may bind a name; only files of the project are known."""
    homes, seen = [program], {id(program)}
    for home in homes:
        for star in home.index.of(cst.ImportFrom):
            if not isinstance(star.names, cst.ImportStar):
                continue
            module = home.names.module_of(star)
            found = project.imports.find(str(home.path), module) if module else None
            other = None if found is None or found[1] else project.program(found[0])
            if other is None or _may_have(other, project, word):
                return True
            if id(other) not in seen:
                seen.add(id(other))
                homes.append(other)
    return False


def _may_have(other: Program, project: Project, word: str) -> bool:
    """Whether a module may have something by a name."""
    assert other.path is not None
    package = other.path.name == "__init__.py" and project.imports.may_have(word)
    return package or word in other.index.root.bindings or bool(_BINDS.search(other.text))


def _is_set(program: Program, project: Project, word: str) -> bool:
    """Whether another file gives the module a name, or all modules, or runs it as its own."""
    path, imports = program.path, project.imports
    assert path is not None
    if path.name == "__init__.py" and imports.may_have(word):
        return True  # a module of the package
    sets = re.compile(
        rf"(?<![\w.])(?!(?:{_OBJECTS})\.)[\w.]+\.{word}\s*=(?!=)"
        rf"|setattr\(\s*(?!self\b)[^,]+,\s*[\"']{word}[\"']"
    )
    return any(
        part in imports.text(file)
        for words, part in ((_RUNS, path.stem), (_BUILTINS, word))
        for file in imports.having(words)
    ) or any(sets.search(imports.text(file)) for file in imports.having((word,)))

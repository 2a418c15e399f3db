"""Names that nothing binds: reading one raises.

``for batch in dloader:`` in a function that calls it ``loader``.  Only in a project: a snippet may
be for others to complete.  An import that fails is left out: it takes a whole file with it, and is
often mended soon, as when a function of another file is about to get a new name.
"""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.imports import MARKS, VCS, is_marked

if TYPE_CHECKING:
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

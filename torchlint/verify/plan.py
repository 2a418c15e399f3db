"""What is to be verified: how the script is started, and which fixes make which configuration."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.config import Configuration as Configured
from torchlint.config import Layer
from torchlint.discovery import discover, shown
from torchlint.edits.fix import Safety
from torchlint.errors import UnreadableFileError, UsageError
from torchlint.imports import Imports, root_of
from torchlint.registry import find
from torchlint.rule import Level, rule_code
from torchlint.run import Outcome, Plan, check_files, new_projects
from torchlint.source import read_source
from torchlint.target import Targets
from torchlint.verify.model import BEFORE, Command, Configuration
from torchlint.writing import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from torchlint.config import Settings
    from torchlint.rule import Diagnostic
    from torchlint.run import Checked
    from torchlint.target import Target

FEW = 300  # files of a project that are all checked; of a larger one, those that the script imports


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks to run."""

    words: tuple[str, ...]  # the script, unless there is a module, and its arguments
    module: str | None = None
    python: Path | None = None
    launcher: tuple[str, ...] = ()
    root: Path | None = None


def command_of(request: Request, working: Path) -> Command:
    """Return how the script is started.

    Raises:
        UsageError: there is no such script, or nothing to start.

    """
    script, arguments = None, request.words
    if request.module is None:
        if not request.words:
            raise UsageError(
                "say what to run: `torchlint verify train.py -- ARGUMENTS`, or `-m MODULE`"
            )
        script, arguments = Path(os.path.normpath(working / request.words[0])), request.words[1:]
        if not script.is_file():
            raise UsageError(f"{request.words[0]}: no such file; name the training script")
    given = request.root or _root(script, request.module, working)
    root = Path(os.path.normpath(working / given))
    if not working.is_relative_to(root):
        raise UsageError(
            f"the working folder is not in the project ({root}), so that what the script writes "
            "would stay; call torchlint from the project, or name a folder above both by --root"
        )
    return Command(
        python=request.python or default_python(),
        script=script,
        module=request.module,
        arguments=tuple(arguments),
        launcher=request.launcher,
        folder=working,
        root=root,
    )


def default_python() -> Path:
    """Return torchlint's own Python if it has torch, else the one that `python` means."""
    if importlib.util.find_spec("torch") is None and (found := shutil.which("python")):
        return Path(found)
    return Path(sys.executable)


def _root(script: Path | None, module: str | None, working: Path) -> Path:
    """Return the project's folder: it holds the script and, where that can be, the working one."""
    if script is None:
        file = working / Path(*(module or "").split("."))
        script = file.with_suffix(".py") if file.with_suffix(".py").is_file() else file / "x.py"
    root = root_of(script)
    inside = working if root.is_relative_to(working) and working != Path.home() else root
    return inside if len(inside.parts) > 1 else root


def shown_command(command: Command) -> str:
    """Return the command as a person would type it."""
    what = ["-m", command.module] if command.module else []
    if command.script:
        what = [shown(command.script, command.folder)]
    return shlex.join([*(command.launcher or ("python",)), *what, *command.arguments])


def apply_command(fixer: Fixer, codes: Sequence[str]) -> str:
    """Return the command that applies the fixes of just these rules, where they are verified."""
    if not codes:
        return ""
    made = fixer.with_codes(codes)
    unsafe = ["--unsafe-fixes"] if made.safety is Safety.UNSAFE else []
    paths = [shown(fixer.command.root / name, fixer.command.folder) for name in sorted(made.files)]
    words = ["torchlint", "check", "--fix", *unsafe, "--fixable", ",".join(codes), *paths]
    return shlex.join(words)


@dataclass(slots=True)
class Fixer:
    """Makes configurations: the project's files with the fixes of some rules in them.

    Nothing is written.  ``values`` and ``pinned`` are what the command line says of settings and of
    the configuration file; ``complain`` is told of files that cannot be checked.  ``originals`` are
    the bytes of the files that some configuration changes, by their path below the root.
    """

    command: Command
    values: Mapping[str, Any]
    pinned: Path | None
    isolated: bool
    complain: Callable[[str], None]
    originals: dict[str, bytes] = field(default_factory=dict)
    _made: dict[tuple[str, ...], Configuration] = field(default_factory=dict)
    _files: tuple[Path, ...] | None = None
    _targets: Targets | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The project's Python files that are checked."""
        if self._files is None:
            folder = self.command.folder
            found = discover([self.command.root], self._configured(self.values).of, folder).files
            chosen = tuple(found) if len(found) <= FEW else tuple(self._imported(found))
            script = self.command.script
            self._files = chosen if script is None or script in chosen else (script, *chosen)
        return self._files

    def keep_to(self, names: Collection[str]) -> None:
        """From now on, fix only these of the files, given by their path below the root."""
        root = self.command.root
        self._files = tuple(f for f in self.files if f.relative_to(root).as_posix() in names)
        self._made.clear()

    def _imported(self, found: Iterable[Path]) -> Iterable[Path]:
        """Return the script and what it imports, at any distance."""
        script = self.command.script
        if script is None:
            return found
        imports = Imports(self.command.root, lambda _: False)
        seen, todo = {str(script)}, [str(script)]
        while todo:
            fresh = imports.targets(todo.pop()) - seen
            seen |= fresh
            todo += sorted(fresh)
        return (file for file in found if str(file) in seen)

    def before(self) -> Configuration:
        """Return the project as it is."""
        return Configuration(BEFORE, (), {}, {}, None, Level.E0)

    def singles(self) -> tuple[Configuration, ...]:
        """Return a configuration for every rule that has something to fix, ordered by code."""
        outcome = self._check((), fix=None)
        codes = {
            rule_code(finding.code)
            for file in outcome.files
            for finding in file.findings
            if finding.fix is not None and finding.fix.edits
        }
        made = (self.with_codes((code,)) for code in sorted(codes))
        return tuple(one for one in made if one.files)

    def with_codes(self, codes: Sequence[str], name: str = "") -> Configuration:
        """Return the configuration with all fixes of these rules, applied together."""
        key = tuple(sorted(codes))
        if key not in self._made:
            outcome = self._check(key, fix=Safety.UNSAFE)
            changed = [file for file in outcome.files if file.text != file.source.text]
            self._made[key] = self._configuration(key, changed)
        made = self._made[key]
        return Configuration(
            name or " + ".join(key), key, made.files, made.lines, made.safety, made.level
        )

    def _configuration(self, codes: tuple[str, ...], changed: list[Checked]) -> Configuration:
        self.originals.update((self._place(file), file.source.data) for file in changed)
        applied = [finding for file in changed for finding in file.applied]
        return Configuration(
            name=" + ".join(codes),
            codes=codes,
            files={self._place(file): file.source.encode(file.text) for file in changed},
            lines={self._place(file): touched(file.source.text, file.text) for file in changed},
            safety=max((f.fix.safety for f in applied if f.fix), default=None),
            level=max(map(level_of, applied), default=Level.E0),
        )

    def _place(self, file: Checked) -> str:
        path = file.source.path or Path(file.source.filename)
        return path.relative_to(self.command.root).as_posix()

    def _check(self, codes: tuple[str, ...], fix: Safety | None) -> Outcome:
        """Check the project; of the rules that find something, only these may fix."""
        values = {**self.values, "fixable": list(codes)} if codes else dict(self.values)
        configured = self._configured(values)
        plan = Plan(
            fix=fix,
            write=False,
            working=self.command.folder,
            settings_of=configured.of,
            target_of=self._target_of,
            projects=functools.cache(new_projects),
        )
        outcome = Outcome(self.complain)
        named = ((file, shown(file, self.command.folder)) for file in self.files)
        check_files(named, plan, outcome, lambda _: None)
        return outcome

    def _configured(self, values: Mapping[str, Any]) -> Configured:
        layer = Layer("verify", self.command.folder, values)
        return Configured(self.command.folder, layer, self.pinned, isolated=self.isolated)

    def _target_of(self, folder: Path, settings: Settings) -> Target:
        if self._targets is None:
            self._targets = Targets(isolated=self.isolated)
        return self._targets.of(folder, settings)


def level_of(finding: Diagnostic) -> Level:
    """Return what the fix of a finding may change: nothing if it is safe, else what is declared."""
    if finding.fix is None or finding.fix.safety is Safety.SAFE:
        return Level.E0
    return find(rule_code(finding.code)).level


def touched(before: str, after: str) -> frozenset[int]:
    """Return the lines (from 1) of the statements of a text that another text changes.

    Of what is inserted between two statements it is the next one; inserted imports do not count.
    """
    old, new = before.splitlines(), after.splitlines()
    heads = sorted(_heads(before), key=lambda head: (head.start, -head.stop))
    found: set[int] = set()
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "insert" and all(
            line.startswith(("import ", "from ")) for line in new[first:last]
        ):
            continue
        if tag != "equal":
            changed = range(start + 1, max(end, start + 1) + 1)
            found.update(*(_own(heads, changed)))
    return frozenset(found)


def _own(heads: Sequence[range], changed: range) -> Iterator[range]:
    """Yield the heads that hold changed lines; where none does, the next one."""
    own = [head for head in heads if head.start < changed.stop and changed.start < head.stop]
    yield from own or [head for head in heads if head.start >= changed.start][:1] or [changed]


def _heads(text: str) -> Iterator[range]:
    """Yield the lines of each statement; of one with a body, those before the body."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # this Python is not the judge of syntax
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            yield range(node.lineno, max(end, node.lineno) + 1)


def apply(configuration: Configuration, root: Path, originals: Mapping[str, bytes]) -> None:
    """Write a configuration's files into the user's project, each atomically.

    Raises:
        UnreadableFileError: a file has changed since it was verified, or cannot be written.

    """
    changes = []
    for name, data in configuration.files.items():
        source = read_source(root / name, name)
        if source.data != originals[name]:
            raise UnreadableFileError(
                root / name, "changed while it was verified", "verify it again"
            )
        changes.append((source, data))
    for source, data in changes:
        write_atomically(source, data)

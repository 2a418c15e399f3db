"""Fix copies of real files and prove that nothing was broken: run by hand over thousands.

    python benchmarks/fix_real_files.py FOLDER... [--jobs N] [--state FILE]

Every file below the folders is checked with every rule, and a copy of it is fixed, unsafe fixes
included, twice over: through the functions of `torchlint.linter`, one file at a time in worker
processes, so that a crash names its file; and by the command line, which has to write the same
bytes, but where a fix of one file changes what is known of another: there the result is looked at
once more.  Of every file that changed it is shown that

* it still compiles, and a second run changes nothing;
* no comment is lost, and encoding, byte order mark and newlines are kept;
* every byte outside the edits that were reported is the same, pass by pass;
* every call that reads differently than before still binds to its signature in the installed
  torch, where it is a call of torch.

With ``--state`` an interrupted run goes on where it stopped.  Exits with 1 if anything is violated.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.linter import Fixed, Options
    from torchlint.projects import Projects
    from torchlint.rule import Diagnostic
    from torchlint.source import Source
    from torchlint.syntax.text import Edit

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 60  # files that one worker process takes
SECONDS_PER_CHUNK = 1200
NEWLINE = re.compile(r"\r\n|\r|\n")
# Methods that fixes write calls of, whatever they are called on.
METHODS = {
    "zero_grad": "torch.optim.Optimizer.zero_grad",
    "to": "torch.Tensor.to",
    "cuda": "torch.Tensor.cuda",
    "cpu": "torch.Tensor.cpu",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One application of edits by the fix loop."""

    before: str
    edits: tuple[Edit, ...]
    after: str


@dataclass(slots=True)
class Result:
    """What became of one file; ``violations`` is empty where all is well."""

    name: str
    before: str = ""  # hash of the file
    after: str = ""  # hash of what it has to be after fixing
    kind: str = "checked"  # or "unreadable", "syntax error"
    found: dict[str, int] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    bound: int = 0  # rewritten calls of torch that were bound to their signature
    unknown: int = 0  # rewritten calls of something else
    notes: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


# -- one file ------------------------------------------------------------------------------------


def examine(data: bytes, name: str) -> Result:
    """Check and fix one file through the functions of the tool, and verify what comes out."""
    from torchlint.errors import InternalError, UnreadableFileError  # noqa: PLC0415
    from torchlint.source import decode_source  # noqa: PLC0415

    result = Result(name, before=digest(data), after=digest(data))
    try:
        source = decode_source(data, name, Path(name))
        _examine_source(source, result)
    except UnreadableFileError as error:
        result.kind = "unreadable"
        result.notes.append(error.problem)
    except InternalError as error:
        result.violations.append(f"internal error: {error}")
    except Exception:  # noqa: BLE001  any exception is what this script looks for
        result.violations.append(f"exception: {traceback.format_exc()[-1500:]}")
    return result


def _examine_source(source: Source, result: Result) -> None:
    from torchlint.edits.fix import Safety  # noqa: PLC0415
    from torchlint.linter import check_source  # noqa: PLC0415

    options = all_options()
    assert options.projects is not None
    options.projects.trim()
    found = check_source(source, options)
    result.found = count(found)
    if "TL001" in result.found:
        result.kind = "syntax error"
    result.violations += check_fixes(source, found)
    passes, fixed = fix_by_passes(source, options, Safety.UNSAFE)
    result.applied = count(fixed.applied)
    result.violations += (f"internal error: {error}" for error in fixed.errors)
    result.violations += (f"a fix was taken back: {note}" for note in fixed.notes)
    result.violations += check_passes(source.text, fixed, passes)
    if fixed.text == source.text:
        if fixed.applied:
            result.violations.append("fixes are reported, but nothing changed")
        return
    result.after = digest(source.encode(fixed.text))
    result.violations += check_changed(source, fixed)
    options.projects.release()  # the next file sees this one as it is on the disk
    calls = rewritten_calls(source.text, fixed.text)
    for call, function in calls:
        if function is None:
            result.unknown += 1
        elif problem := unbound(call, function):
            result.violations.append(f"`{ast.unparse(call)[:200]}` does not bind: {problem}")
        else:
            result.bound += 1


def all_options() -> Options:
    """Return the options of a run with every rule and every fix, for any torch version."""
    from torchlint.linter import Options  # noqa: PLC0415
    from torchlint.registry import all_rules  # noqa: PLC0415

    rules = all_rules()
    codes = frozenset(rule.code for rule in rules)
    return Options(rules=rules, fixable=codes, target=None, projects=projects())


@functools.cache
def projects() -> Projects:
    """Return the projects that the files belong to."""
    from torchlint.run import new_projects  # noqa: PLC0415

    return new_projects()


def digest(data: bytes) -> str:
    """Return a short name of the content."""
    return hashlib.sha256(data).hexdigest()[:20]


def count(found: Iterable[Diagnostic]) -> dict[str, int]:
    """Count findings by code."""
    return dict(sorted(collections.Counter(each.code for each in found).items()))


def check_fixes(source: Source, found: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield what is wrong with each fix by itself: its edits and the code it leaves."""
    from torchlint.syntax.text import apply  # noqa: PLC0415

    valid = compiles(source.data)
    for each in found:
        if not 0 <= each.span.start <= each.span.end <= len(source.text):
            yield f"{each.code} points outside of the file"
        if each.fix is None:
            continue
        where = f"{each.code} in row {each.location.row}"
        if not each.fix.edits:
            yield f"the fix of {where} has no edits"
            continue
        try:
            text = apply(source.text, each.fix.edits)
        except ValueError as error:
            yield f"the fix of {where} cannot be applied: {error}"
            continue
        if problem := outside_changed(source.text, text, each.fix.edits):
            yield f"the fix of {where} by itself: {problem}"
        if valid and not compiles(source.encode(text)):
            yield f"the fix of {where} by itself leaves code that does not compile"


def fix_by_passes(source: Source, options: Options, safety: Any) -> tuple[list[Step], Fixed]:
    """Fix a file, and record every application of edits that the fix loop tries."""
    from torchlint import linter  # noqa: PLC0415
    from torchlint.syntax.text import apply  # noqa: PLC0415

    tried: list[Step] = []

    def record(text: str, edits: Iterable[Edit]) -> str:
        edits = tuple(edits)
        after = apply(text, edits)
        tried.append(Step(text, edits, after))
        return after

    with mock.patch.object(linter, "apply", record):
        fixed = linter.fix_source(source, options, safety)
    return tried, fixed


def check_passes(text: str, fixed: Fixed, tried: Sequence[Step]) -> Iterator[str]:
    """Yield what is wrong with the way from the old text to the new one: reported edits only."""
    reported = {edit for each in fixed.applied for edit in (each.fix.edits if each.fix else ())}
    chain = way(text, fixed.text, tried)
    if chain is None:
        yield "the new text is not what the edits make of the old one"
        return
    for step in chain:
        if problem := outside_changed(step.before, step.after, step.edits):
            yield problem
        for edit in step.edits:
            if edit not in reported and not _is_merged(edit, reported):
                yield f"an edit was made that no applied fix reports: {edit}"


def way(start: str, goal: str, tried: Sequence[Step]) -> list[Step] | None:
    """Find the passes that lead from one text to another, among all that were tried."""
    came_by: dict[str, Step] = {}
    for step in tried:
        if step.before == start or step.before in came_by:
            came_by.setdefault(step.after, step)
    chain: list[Step] = []
    here = goal
    while here != start:
        last = came_by.get(here)
        if last is None or len(chain) > len(tried):
            return None
        chain.append(last)
        here = last.before
    return chain[::-1]


def _is_merged(edit: Edit, reported: Iterable[Edit]) -> bool:
    """Whether an edit is made of reported ones at its place: two fixes of one call or import."""
    parts = [other for other in reported if edit.start <= other.start and other.end <= edit.end]
    return any(part.content.strip(" ,\n") in edit.content for part in parts)


def outside_changed(before: str, after: str, edits: Iterable[Edit]) -> str | None:
    """Walk both texts and compare what lies between the edits; say where they differ."""
    old = new = 0
    for edit in sorted(edits):
        same = edit.start - old
        if before[old : edit.start] != after[new : new + same]:
            return f"text before offset {edit.start} changed without an edit"
        new += same
        if after[new : new + len(edit.content)] != edit.content:
            return f"the edit at offset {edit.start} is not in the new text"
        old, new = edit.end, new + len(edit.content)
    return None if before[old:] == after[new:] else "text behind the last edit changed"


def check_changed(source: Source, fixed: Fixed) -> Iterator[str]:
    """Yield what is wrong with a changed file: code, stability, comments, encoding, newlines."""
    from torchlint.edits.fix import Safety  # noqa: PLC0415
    from torchlint.linter import fix_source  # noqa: PLC0415
    from torchlint.source import decode_source  # noqa: PLC0415

    data = source.encode(fixed.text)
    again = decode_source(data, source.filename, source.path)
    if (again.text, again.encoding) != (fixed.text, source.encoding):
        yield "the new bytes read back as another text or encoding"
    if compiles(source.data) and not compiles(data):
        yield "it compiled before and does not compile after"
    kinds = set(NEWLINE.findall(source.text))
    if kinds and not set(NEWLINE.findall(fixed.text)) <= kinds:
        yield "it has a kind of newline that it did not have"
    second = fix_source(again, all_options(), Safety.UNSAFE)
    if second.text != fixed.text or second.applied:
        codes = ", ".join(sorted({each.code for each in second.applied}))
        yield f"a second run changes it again ({codes})"
    lost = comments(source.text) - comments(fixed.text)
    if "TL002" in count(fixed.applied):  # that fix takes comments away: they are the finding
        lost = collections.Counter(
            {text: n for text, n in lost.items() if not re.search("torchlint:|noqa", text)}
        )
    for text in lost:
        yield f"the comment `{text}` is lost"


def compiles(data: bytes) -> bool:
    """Whether Python accepts the bytes as a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, "file", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def comments(text: str) -> collections.Counter[str]:
    """Return the comments of a text, as many as there are of each."""
    found: collections.Counter[str] = collections.Counter()
    lines = iter(text.splitlines(keepends=True))
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT:
                found[token.string.rstrip()] += 1
    return found


# -- calls ---------------------------------------------------------------------------------------


def rewritten_calls(before: str, after: str) -> Iterator[tuple[ast.Call, str | None]]:
    """Yield the calls that were not there before, with the name of the function of torch."""
    try:
        old, new = _parse(before), _parse(after)
    except (SyntaxError, ValueError, RecursionError):
        return
    known = collections.Counter(ast.dump(call) for call in _calls(old))
    names = imported(new)
    for call in _calls(new):
        text = ast.dump(call)
        known[text] -= 1
        if known[text] < 0:
            yield call, function_of_torch(call, names)


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _calls(module: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module) if isinstance(node, ast.Call))


def imported(module: ast.Module) -> dict[str, str]:
    """Return what the imports of a file name, wherever they stand."""
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def function_of_torch(call: ast.Call, names: dict[str, str]) -> str | None:
    """Return the qualified name of what is called, if it is torch's."""
    parts: list[str] = []
    node = call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and names.get(node.id, "").partition(".")[0] == "torch":
        return ".".join((names[node.id], *reversed(parts)))
    return METHODS.get(parts[0]) if parts else None


def unbound(call: ast.Call, function: str) -> str | None:
    """Say why a call does not fit the signature of a function of torch; None where it does."""
    signature = signature_of(function)
    if signature is None:
        return None
    method = function.startswith(("torch.Tensor.", "torch.optim.Optimizer.", "torch.nn.Module."))
    places = [ast.unparse(arg) for arg in call.args if not isinstance(arg, ast.Starred)]
    if method and "self" in signature.parameters:
        places.insert(0, "self")
    keywords: dict[str, str] = {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            if keyword.arg in keywords:
                return f"{keyword.arg} is given twice"
            keywords[keyword.arg] = ast.unparse(keyword.value)
    partly = len(places) - method < len(call.args) or any(k.arg is None for k in call.keywords)
    try:
        (signature.bind_partial if partly else signature.bind)(*places, **keywords)
    except TypeError as error:
        return str(error)
    return None


@functools.cache
def signature_of(function: str) -> inspect.Signature | None:
    """Return the signature that the installed torch has or, of functions in C, documents."""
    found = look_up(function)
    if found is None:
        return None
    with contextlib.suppress(TypeError, ValueError):
        return inspect.signature(found)
    return documented(found.__doc__ or "")


def documented(text: str) -> inspect.Signature | None:
    """Return the signature that the documentation of a function in C begins with."""
    written = re.match(r"\s*\w+\((.*)\)", text)
    if written is None:
        return None
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    for part in re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", written[1]).split(","):
        name = part.strip().partition("=")[0].partition(":")[0].strip()
        if name.isidentifier():
            # which of them are required is torch's affair: the fixes leave those alone
            parameters.append(inspect.Parameter(name, kind, default=None))
        elif name.lstrip("*").isidentifier() and name[:1] == "*":
            variable: Any = inspect.Parameter.VAR_POSITIONAL
            variable = inspect.Parameter.VAR_KEYWORD if name[:2] == "**" else variable
            parameters.append(inspect.Parameter(name.lstrip("*"), variable))
            kind = inspect.Parameter.KEYWORD_ONLY
        elif name == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
    with contextlib.suppress(ValueError):
        return inspect.Signature(parameters)
    return None


def look_up(function: str) -> object | None:
    """Import what a qualified name names."""
    parts = function.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found
    return None


# -- many files ----------------------------------------------------------------------------------


def work() -> None:
    """Be a worker: names of files come in as lines, results go out as lines."""
    sys.setrecursionlimit(5_000)
    for line in sys.stdin:
        name = line.rstrip("\n")
        print(json.dumps({"begin": name}), flush=True)
        result = examine(Path(name).read_bytes(), name)
        print(json.dumps(asdict(result)), flush=True)


def examine_chunk(names: Sequence[str]) -> list[Result]:
    """Examine files in a process of their own; a file that takes it down is named by that."""
    results: list[Result] = []
    left = list(names)
    while left:
        answers, code = _run_worker(left)
        for answer in answers:
            if "begin" not in answer:
                results.append(Result(**answer))
                left.remove(answer["name"])
        begun = [answer["begin"] for answer in answers if "begin" in answer]
        if left and begun and begun[-1] in left:
            crashed = Result(begun[-1], violations=[f"the process ended with {code}"])
            results.append(crashed)
            left.remove(begun[-1])
        elif left:
            raise SystemExit(f"a worker ended with {code} before its first file")
    return results


def _run_worker(names: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    line = [sys.executable, __file__, "--worker"]
    with tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment(),
        )
        try:
            out, _ = process.communicate("".join(f"{n}\n" for n in names), SECONDS_PER_CHUNK)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        if process.returncode:
            stderr.seek(0)
            print(stderr.read()[-2000:], file=sys.stderr)
    whole = [text for text in out.split("\n") if text.endswith("}")]
    return [json.loads(text) for text in whole], process.returncode


def environment() -> dict[str, str]:
    """Return the environment of the children: this checkout is what they import."""
    paths = (str(ROOT), str(ROOT / "rules"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def examine_all(names: Sequence[str], jobs: int, state: Path | None) -> list[Result]:
    """Examine files in several processes, leaving out those that the state file knows."""
    results = [each for each in _known(state) if each.name in set(names)]
    done = {each.name for each in results}
    left = [name for name in names if name not in done]
    chunks = [left[at : at + CHUNK] for at in range(0, len(left), CHUNK)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for found in concurrent.futures.as_completed(
            [pool.submit(examine_chunk, chunk) for chunk in chunks]
        ):
            results += found.result()
            if state:
                with state.open("a") as file:
                    file.writelines(json.dumps(asdict(r)) + "\n" for r in found.result())
            progress(f"{len(results):,} of {len(names):,} files")
    progress("")
    return sorted(results, key=lambda each: each.name)


def _known(state: Path | None) -> Iterator[Result]:
    """Yield results of an earlier run for files that did not change since."""
    if state is None or not state.is_file():
        return
    for line in state.read_text().splitlines():
        result = Result(**json.loads(line))
        path = Path(result.name)
        if path.is_file() and digest(path.read_bytes()) == result.before:
            yield result


def progress(text: str) -> None:
    """Say how far it is: in one line of a terminal, or line by line in a log."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def fix_copies(folders: Sequence[Path], results: Sequence[Result]) -> Iterator[str]:
    """Let the command line fix copies of the folders, twice, and compare with what is expected."""
    with tempfile.TemporaryDirectory() as temporary:
        copies = {folder: Path(temporary, str(at)) for at, folder in enumerate(folders)}
        for folder, copy in copies.items():
            shutil.copytree(folder, copy, symlinks=True)
        written: dict[str, str] = {}
        for run in ("first", "second"):
            progress(f"the command line fixes copies: {run} run")
            yield from _run_command(run, [str(copy) for copy in copies.values()])
            for result in results:
                path = Path(result.name)
                folder = next(each for each in folders if path.is_relative_to(each))
                data = (copies[folder] / path.relative_to(folder)).read_bytes()
                got = digest(data)
                if got != written.setdefault(result.name, got):
                    yield f"{path}: the second run of the command line changed it again"
                elif got != result.after and run == "first":
                    yield from _look_again(path, data)
        progress("")


def _look_again(path: Path, data: bytes) -> Iterator[str]:
    """Check a file whose fixes differ, because another file was fixed before it."""
    before = path.read_bytes()
    if compiles(before) and not compiles(data):
        yield f"{path}: the command line leaves a file that cannot be compiled"
    lost = comments(before.decode(errors="replace")) - comments(data.decode(errors="replace"))
    if any("torchlint" not in comment and "noqa" not in comment for comment in lost):
        yield f"{path}: the command line loses the comments {sorted(lost)}"


def _run_command(run: str, paths: Sequence[str]) -> Iterator[str]:
    line = [sys.executable, "-m", "torchlint", "check", "--fix", "--unsafe-fixes", "--no-cache",
            "--select", "ALL", "--isolated", "--no-respect-gitignore", "--config", "exclude=[]",
            "--output-format", "concise", *paths]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode not in (0, 1, 2):
        yield f"the command line ended with {done.returncode}: {done.stderr[-500:]}"
    for text in done.stderr.splitlines():
        if "internal error" in text or "Traceback" in text:
            yield f"{run} run of the command line: {text}"


def files_below(folder: Path) -> list[str]:
    """Return the Python files of a folder; links are left out."""
    return sorted(
        str(path) for path in folder.rglob("*.py") if path.is_file() and not path.is_symlink()
    )


def show(results: Sequence[Result], violations: Sequence[str]) -> None:
    """Print what was examined and found."""
    kinds = collections.Counter(result.kind for result in results)
    found = _total(result.found for result in results)
    applied = _total(result.applied for result in results)
    changed = sum(result.before != result.after for result in results)
    rows = [
        (
            "files",
            f"{len(results):,} ({', '.join(f'{n:,} {k}' for k, n in sorted(kinds.items()))})",
        ),
        ("changed by --fix --unsafe-fixes", f"{changed:,}"),
        ("rewritten calls of torch that bind", f"{sum(r.bound for r in results):,}"),
        ("other rewritten calls", f"{sum(r.unknown for r in results):,}"),
        ("violations", f"{len(violations):,}"),
    ]
    for name, value in rows:
        print(f"{name:36} {value}")
    print(f"\n{'code':8} {'found':>8} {'fixed':>8}")
    for code in sorted({*found, *applied}):
        print(f"{code:8} {found[code]:8,} {applied[code]:8,}")
    for result in results:
        for note in result.notes:
            print(f"note: {result.name}: {note}")
    for violation in violations:
        print(f"VIOLATION: {violation}")


def _total(counts: Iterable[dict[str, int]]) -> collections.Counter[str]:
    total: collections.Counter[str] = collections.Counter()
    for each in counts:
        total.update(each)
    return total


def main() -> int:
    """Examine all files, let the command line fix copies, and print what was violated."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, help="where results are kept, to go on later")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return 0
    folders = [folder.resolve() for folder in given.folders]
    if any(a.is_relative_to(b) for a in folders for b in folders if a is not b) or not folders:
        parser.error("name folders, none inside of another")
    names = [name for folder in folders for name in files_below(folder)]
    results = examine_all(names, given.jobs, given.state)
    violations = [f"{r.name}: {text}" for r in results for text in r.violations]
    violations += fix_copies(folders, results)
    show(results, violations)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

"""What torchlint costs beside bare parsing, beside TorchFix, and from a cold start.

    python benchmarks/speed.py PATH... [--torchfix-python PY] [--repeat N] [--limit RATIO]

Everything is CPU time (user + system) of whole child processes as the kernel counts it; the
commands that are compared take turns over the same files, so that a busy machine troubles all
of them alike, and every ratio is taken inside one turn.  ``PY`` is the interpreter of an
environment of its own that holds TorchFix 0.7.  What is measured is the checkout that this script
stands in, run by the interpreter that runs the script.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
# what the installed command `torchlint` runs
TORCHLINT = (PYTHON, "-c", "import sys; from torchlint.cli import command; sys.exit(command())")
CHECK = (*TORCHLINT, "check", "--no-cache", "--select", "ALL", "--output-format", "concise")
ONE_FILE = (*CHECK, "--isolated")
PARSE = """
import json, sys
import libcst
for name in json.load(sys.stdin):
    try:
        with open(name, "rb") as file:
            libcst.parse_module(file.read())
    except (libcst.ParserSyntaxError, UnicodeError, LookupError):
        pass
"""
PARSE_ONE = """
import sys
import libcst
with open(sys.argv[1], "rb") as file:
    libcst.parse_module(file.read())
"""
# Runs the tool and says which files it parsed.
RECORD = """
import json, sys
from torchlint.cli import main
from torchlint.project import Project
parsed, parse = [], Project._parse
def record(self, path, text):
    parsed.append(path)
    return parse(self, path, text)
Project._parse = record
main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(parsed, file)
"""
# Runs the tool and says how the CPU time of this process divides.
SHARES = """
import json, sys, time
from torchlint.cli import main
from torchlint.project import Project
from torchlint.semantics.evaluation import Evaluation
spent = {"parse": 0.0, "evaluate": 0.0}
def timed(owner, name, part):
    function = getattr(owner, name)
    def run(*args):
        start = time.process_time()
        try:
            return function(*args)
        finally:
            spent[part] += time.process_time() - start
    setattr(owner, name, run)
timed(Project, "_parse", "parse")
timed(Evaluation, "evaluate", "evaluate")
main(sys.argv[2:])
spent["start, training facts and rules"] = time.process_time() - sum(spent.values())
with open(sys.argv[1], "w") as file:
    json.dump([f"{part}: {seconds:.2f} s" for part, seconds in spent.items()], file)
"""
MODULES = """
import json, sys
from torchlint.cli import main
main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(sorted(sys.modules), file)
"""
TORCH_WORDS = (b"torch", b"lightning", b"accelerate", b"transformers", b"deepspeed")
LINES_OF_A_SCRIPT = 500
# One of the training programs that a long file consists of; all of them run at its end.
PROGRAM = """
class Net{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 32, 3, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.head = nn.Linear(5408, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = nn.functional.max_pool2d(x, 2)
        return self.head(torch.flatten(x, 1))


def train_{n}(model, device, loader, optimizer, epoch):
    model.train()
    total = 0.0
    for step, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if step % 100 == 0:
            print(epoch, step, loss.item())
    return total / len(loader)


def main_{n}():
    device = torch.device("cuda")
    model = Net{n}().to(device)
    loader = DataLoader(FakeData(60000, (1, 28, 28)), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(10):
        print(train_{n}(model, device, loader, optimizer, epoch))

"""
SHORT, LONG = 2_000, 20_000  # lines
SHOWN = 30


@dataclass(frozen=True, slots=True)
class Command:
    """One contestant: its name in the table, what is run, what it reads, how it may end."""

    name: str
    line: Sequence[str]
    stdin: str = ""
    codes: tuple[int, ...] = (0,)


@dataclass(slots=True)
class Samples:
    """CPU seconds of one contestant, a value per turn."""

    seconds: list[float] = field(default_factory=list)

    def over(self, other: Samples) -> Samples:
        """Ratios to another contestant, turn by turn."""
        return Samples([a / b for a, b in zip(self.seconds, other.seconds, strict=True)])

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.seconds)

    def show(self, unit: str, factor: float = 1.0) -> str:
        """Median with the smallest and the largest value."""
        low, middle, high = min(self.seconds), self.median, max(self.seconds)
        low, middle, high = low * factor, middle * factor, high * factor
        return f"{middle:9.2f} {unit}  ({low:.2f} .. {high:.2f})"


def environment() -> dict[str, str]:
    """Return the environment of the children: they import this checkout, compiled as if installed.

    Without bytecode every start would compile torchlint, but not click and libcst.
    """
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "rules")))}


def cpu_seconds(command: Command) -> float:
    """Run a command to its end and return the CPU time of it and of its own children.

    Raises:
        SystemExit: it ended in a way that makes its time worthless.

    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(command.stdin.encode())
        stdin.seek(0)
        process = subprocess.Popen(
            command.line,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(),
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in command.codes:
            stderr.seek(0)
            said = stderr.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{command.name} ended with {process.returncode}:\n{said}")
    return usage.ru_utime + usage.ru_stime


def take_turns(commands: Sequence[Command], turns: int) -> dict[str, Samples]:
    """Run every command once a turn."""
    samples = {command.name: Samples() for command in commands}
    for turn in range(turns):
        for command in commands:
            progress(f"turn {turn + 1} of {turns}: {command.name}")
            samples[command.name].seconds.append(cpu_seconds(command))
    progress("")
    return samples


def progress(text: str) -> None:
    """Say what is running: in one line of a terminal, or line by line in a log."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def ask(code: str, arguments: Iterable[str]) -> list[str]:
    """Run code that writes a list of strings to the file it is given first."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        line = [PYTHON, "-c", code, str(answer), *arguments]
        with Path(os.devnull).open("w") as nowhere:
            done = subprocess.run(
                line, stdout=nowhere, stderr=subprocess.PIPE, env=environment(), check=False
            )
        if not answer.is_file():
            raise SystemExit(done.stderr.decode(errors="replace"))
        found: list[str] = json.loads(answer.read_text())
    return found


def files_below(paths: Sequence[str]) -> list[str]:
    """Return the files that torchlint checks when given these paths."""
    line = [*TORCHLINT, "check", "--show-files", *paths]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [str(Path(name).absolute()) for name in done.stdout.splitlines()]


def lines_in(data: bytes) -> int:
    """Return the number of lines of a file."""
    return data.count(b"\n") + (data[-1:] not in (b"", b"\n"))


def closest(contents: Mapping[str, bytes], wanted: Callable[[bytes], bool]) -> str | None:
    """Return the file of the wanted kind whose length is closest to 500 lines."""
    fitting = [name for name, data in contents.items() if wanted(data)]
    return min(
        fitting, key=lambda name: abs(lines_in(contents[name]) - LINES_OF_A_SCRIPT), default=None
    )


def is_plain(data: bytes) -> bool:
    """Whether a file has nothing to do with torch."""
    return not any(word in data for word in TORCH_WORDS)


def trains(data: bytes) -> bool:
    """Whether a file looks like a training script."""
    return all(word in data for word in (b"torch", b".backward(", b"DataLoader", b".step("))


def head(title: str) -> None:
    """Print the title of a section."""
    print(f"\n{title}\n{'-' * len(title)}")


def row(name: str, value: str) -> None:
    """Print one line of a table."""
    print(f"{name:58} {value}")


def against(name: str, ratio: Samples, limit: float, *, at_least: bool = False) -> None:
    """Print a ratio beside its target, and whether it holds."""
    holds = ratio.median >= limit if at_least else ratio.median <= limit
    word = "at least" if at_least else "at most"
    row(name, f"{ratio.show('x')}  target {word} {limit:g}: {'met' if holds else 'MISSED'}")


def describe(torchfix: str | None, contents: Mapping[str, bytes]) -> None:
    """Print what runs on what."""
    head("What was measured")
    row("machine", f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.platform()}")
    row("load before", ", ".join(f"{load:.2f}" for load in os.getloadavg()))
    row("python", platform.python_version())
    row("libcst, click", f"{version('libcst')}, {version('click')}")
    line = [*TORCHLINT, "--version"]
    row("torchlint", subprocess.check_output(line, env=environment(), text=True).split()[-1])
    if torchfix:
        code = (
            "from importlib.metadata import version as v; import platform as p;"
            "print(v('torchfix'), '(libcst', v('libcst') + ', python', p.python_version() + ')')"
        )
        row("TorchFix", subprocess.check_output([torchfix, "-c", code], text=True).strip())
    row("files, lines", f"{len(contents):,}, {sum(map(lines_in, contents.values())):,}")


def over_all_files(
    paths: Sequence[str],
    contents: Mapping[str, bytes],
    torchfix: str | None,
    turns: int,
    limit: float,
) -> None:
    """Measure one process over all files."""
    # this first run also writes the compiled modules that the others load
    parsed = [name for name in dict.fromkeys(ask(RECORD, [*CHECK[3:], *paths])) if name in contents]
    bare = Command("libcst.parse_module, all files", (PYTHON, "-c", PARSE), json.dumps([*contents]))
    bare_parsed = Command(
        "libcst.parse_module, files that torchlint parsed",
        (PYTHON, "-c", PARSE),
        json.dumps(parsed),
    )
    check = Command("torchlint check --no-cache --select ALL", (*CHECK, *paths), codes=(0, 1, 2))
    commands = [bare, bare_parsed, check]
    if torchfix:
        line = (torchfix, "-m", "torchfix", "--select", "ALL", "--jobs", "1", *contents)
        commands.append(Command("torchfix --select ALL", line, codes=(0, 1)))
    samples = take_turns(commands, turns)

    lines = sum(map(lines_in, contents.values()))
    head(f"One process over all files, {turns} turns: CPU seconds, median (min .. max)")
    row("files, lines that torchlint parsed", f"{len(parsed):,}, {_lines(contents, parsed):,}")
    for command in commands:
        found = samples[command.name]
        row(command.name, f"{found.show('s')}  {lines / found.median:,.0f} lines/s of all")
    cost = samples[check.name]
    # with the facts that cross files: callers, definitions, where batches go
    against("torchlint / parse of parsed files", cost.over(samples[bare_parsed.name]), limit)
    least = min(cost.seconds) / min(samples[bare_parsed.name].seconds)  # others only add to it
    row("torchlint / parse of parsed files, the quickest turn of each", f"{least:9.2f} x")
    row("torchlint / parse of all files", cost.over(samples[bare.name]).show("x"))
    row("of one more run", ", ".join(ask(SHARES, [*CHECK[3:], *paths])))
    if torchfix:
        fixed = samples["torchfix --select ALL"]
        against("torchfix / torchlint", fixed.over(cost), 15, at_least=True)


def _lines(contents: Mapping[str, bytes], names: Iterable[str]) -> int:
    return sum(lines_in(contents[name]) for name in names)


def long_files(turns: int) -> None:
    """Measure one long file against a short one of the same kind."""
    imports = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    imports += "from torchvision.datasets import FakeData\n\n"
    commands = []
    with tempfile.TemporaryDirectory() as folder:
        for lines in (SHORT, LONG):
            many = range(lines // PROGRAM.count("\n"))
            programs = "".join(PROGRAM.replace("{n}", str(n)) for n in many)
            runs = "".join(f"main_{n}()\n" for n in many)
            path = Path(folder, f"of_{lines}_lines.py")
            path.write_text(f"{imports}{programs}\n{runs}")
            commands.append(Command(f"{lines:,} lines", (*ONE_FILE, str(path)), codes=(0, 1)))
        samples = take_turns(commands, turns)
    head(f"One file of many training programs, {turns} turns")
    short, long = samples.values()
    for name, found in samples.items():
        row(name, found.show("s"))
    against("long / short", long.over(short), 15)


def cold_starts(contents: Mapping[str, bytes], script: str | None, turns: int) -> None:
    """Measure one file at a time, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        plain = closest(contents, is_plain)
        if plain is None:
            plain = str(Path(folder, "plain.py"))
            Path(plain).write_text("def add(x, y):\n    return x + y\n\n\n" * 125)
        script = script or closest(contents, trains)
        if script is None:
            raise SystemExit("no training script below these paths; name one with --script")
        _without_torch(plain, turns)
        _with_torch(script, turns)


def _without_torch(plain: str, turns: int) -> None:
    base = Command('python -c "import click"', (PYTHON, "-c", "import click"))
    empty = Command("python -c pass", (PYTHON, "-c", "pass"))
    check = Command("torchlint check", (*ONE_FILE, plain))
    samples = take_turns([empty, base, check], turns)
    data = Path(plain).read_bytes()
    head(f"One file without torch ({Path(plain).name}, {lines_in(data)} lines), {turns} turns")
    for name, found in samples.items():
        row(name, found.show("ms", 1000))
    against('check / python -c "import click"', samples[check.name].over(samples[base.name]), 2)
    show_imports(plain)


def _with_torch(script: str, turns: int) -> None:
    base = Command("import libcst and parse it", (PYTHON, "-c", PARSE_ONE, script))
    check = Command("torchlint check", (*ONE_FILE, script), codes=(0, 1))
    bare = Command("import libcst", (PYTHON, "-c", "import libcst"))
    samples = take_turns([bare, base, check], turns)
    data = Path(script).read_bytes()
    head(f"One training script ({Path(script).name}, {lines_in(data)} lines), {turns} turns")
    for name, found in samples.items():
        row(name, found.show("ms", 1000))
    against("check / import libcst and parse it", samples[check.name].over(samples[base.name]), 1.5)
    show_imports(script)


def show_imports(path: str) -> None:
    """Print which modules a check of one file imports."""
    modules = ask(MODULES, [*ONE_FILE[3:], path])
    for name in ("libcst", "rich", "torch"):
        below = [module for module in modules if module.split(".")[0] == name]
        row(f"imports {name}", f"{len(below)} modules" if below else "no")
    others = sorted(
        {
            top
            for module in modules
            if (top := module.split(".")[0]) not in sys.stdlib_module_names
            and not top.startswith("_")
        }
    )
    row("packages outside of the standard library", ", ".join(others))
    own = [module for module in modules if module.split(".")[0] in ("torchlint", "torchlint_rules")]
    more = f" and {len(own) - SHOWN} more" if len(own) > SHOWN else ""
    row("own modules", f"{len(own)} of {len(modules)}: {', '.join(own[:SHOWN])}{more}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folders and files to check")
    parser.add_argument("--torchfix-python", metavar="PY", help="interpreter that has TorchFix")
    parser.add_argument("--repeat", type=int, default=3, help="turns over all files [3]")
    parser.add_argument("--cold-repeat", type=int, default=15, help="turns from a cold start [15]")
    parser.add_argument(
        "--limit", type=float, default=1.25, help="most times the cost of parsing allowed [1.25]"
    )
    parser.add_argument("--script", help="training script to start on [the closest to 500 lines]")
    given = parser.parse_args()
    contents = {name: Path(name).read_bytes() for name in files_below(given.paths)}
    describe(given.torchfix_python, contents)
    if given.repeat:
        over_all_files(given.paths, contents, given.torchfix_python, given.repeat, given.limit)
        long_files(given.repeat)
    if given.cold_repeat:
        cold_starts(contents, given.script, given.cold_repeat)


if __name__ == "__main__":
    main()

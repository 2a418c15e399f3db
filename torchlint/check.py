"""`torchlint check`: settings, files, one run over them, the report, and the exit code."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.config import BY_KEY, Configuration, Kind, Layer, check_values, parse_toml
from torchlint.discovery import discover, is_left_out, shown
from torchlint.edits.fix import Safety
from torchlint.errors import UsageError
from torchlint.run import (
    Outcome,
    Plan,
    add_ignores,
    check_files,
    check_group,
    new_projects,
    trouble,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchlint.config import Settings
    from torchlint.report.paint import Line
    from torchlint.target import Target, Targets

CLEAN, FINDINGS, FAULT = 0, 1, 2
STDIN = Path("-")


def check(paths: Sequence[Path], options: Mapping[str, Any]) -> int:
    """Check paths as the command line's options say, and return the exit code."""
    working = Path.cwd()
    _refuse_nonsense(paths, options)
    overrides, pinned = command_line(options, working)
    configuration = Configuration(working, overrides, pinned, isolated=options["isolated"])
    run = _Run(working, options, configuration)
    if STDIN in paths:
        return run.on_stdin()
    return run.on_files(paths)


def _refuse_nonsense(paths: Sequence[Path], options: Mapping[str, Any]) -> None:
    if STDIN in paths and len(paths) > 1:
        raise UsageError("`-` stands alone: standard input cannot be checked together with files")
    if options["stdin_filename"] and STDIN not in paths:
        raise UsageError("--stdin-filename names what `-` reads; add `-` or leave it out")
    if options["add_ignore"] is not None:
        if STDIN in paths:
            raise UsageError("--add-ignore writes files; it cannot be used with `-`")
        if any(options[name] for name in ("fix", "fix_only", "diff")):
            raise UsageError("--add-ignore cannot be used with --fix, --fix-only or --diff")
        if "\n" in options["add_ignore"] or "\r" in options["add_ignore"]:
            raise UsageError("the reason of --add-ignore has to fit on one line")


def command_line(options: Mapping[str, Any], working: Path) -> tuple[Layer, Path | None]:
    """Return what the command line sets, and the configuration file that it names."""
    values: dict[str, Any] = {}
    pinned: Path | None = None
    for text in options["config"]:
        if Path(text).is_file() or "=" not in text:
            if pinned:
                raise UsageError(f"--config names two files ({pinned} and {text}); give one")
            pinned = working / text
        else:
            values |= check_values(parse_toml(text.encode(), f"--config `{text}`"), "--config")
    if pinned and options["isolated"]:
        raise UsageError("--isolated reads no configuration file, but --config names one")
    for key, option in BY_KEY.items():
        given = options.get(key.replace("-", "_"))
        if given and option.is_list:
            values[key] = _per_file(given) if option.kind is Kind.PER_FILE else _split(given)
        elif given is not None and not option.is_list:
            values[key] = given
    return Layer("command line", working, check_values(values, "command line")), pinned


def _split(given: Iterable[str]) -> list[str]:
    return [part.strip() for each in given for part in each.split(",") if part.strip()]


def _per_file(given: Iterable[str]) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for pair in _split(given):
        pattern, colon, code = pair.rpartition(":")
        if not colon:
            raise UsageError(f"--per-file-ignores takes PATTERN:CODE, not `{pair}`")
        table.setdefault(pattern, []).append(code.strip())
    return table


def abandon_output() -> None:
    """Let what is still to be written vanish: its reader went away (`| head`)."""
    with contextlib.suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)


class _Run:
    """One invocation of `check`."""

    def __init__(
        self, working: Path, options: Mapping[str, Any], configuration: Configuration
    ) -> None:
        self.working = working
        self.options = options
        self.configuration = configuration
        self.targets: Targets | None = None

    def target_of(self, folder: Path, settings: Settings) -> Target:
        """Return the torch version of a folder; only files that have to do with it ask."""
        from torchlint.target import Targets  # noqa: PLC0415

        if self.targets is None:
            self.targets = Targets(isolated=self.options["isolated"])
        return self.targets.of(folder, settings)

    @property
    def fixes(self) -> bool:
        return bool(self.options["fix"] or self.options["fix_only"] or self.options["diff"])

    @property
    def safety(self) -> Safety:
        return Safety.UNSAFE if self.options["unsafe_fixes"] else Safety.SAFE

    def plan(self, *, write: bool) -> Plan:
        return Plan(
            fix=self.safety if self.fixes else None,
            write=write and not self.options["diff"],
            working=self.working,
            settings_of=self.configuration.of,
            target_of=self.target_of,
            projects=functools.cache(new_projects),
        )

    def on_files(self, paths: Sequence[Path]) -> int:
        """Check files and folders."""
        found = discover(paths, self.configuration.of, self.working)
        outcome = Outcome(self.complain)
        for problem in found.problems:
            outcome.trouble(problem)
        if not found.files:
            return self.nothing_to_check(found.excluded, outcome)
        if self.options["show_files"]:
            self.write(f"{shown(file, self.working)}\n" for file in found.files)
            return FAULT if outcome.problems else CLEAN
        if self.options["show_settings"]:
            self.show_settings(found.files[0])
            return FAULT if outcome.problems else CLEAN
        if self.options["verbose"]:
            self.narrate(found.files)
        from torchlint.report.progress import counting  # noqa: PLC0415

        named = ((file, shown(file, self.working)) for file in found.files)
        with counting(len(found.files), sys.stderr, quiet=self.options["quiet"]) as tick:
            check_files(named, self.plan(write=True), outcome, tick)
        return self.finish(outcome)

    def nothing_to_check(self, excluded: Sequence[Path], outcome: Outcome) -> int:
        """End a run without files: at fault unless all that was given is left out on purpose."""
        if not outcome.problems:
            names = ", ".join(map(str, excluded))
            self.notice(f"nothing to check: excluded or ignored by the configuration: {names}")
        return self.finish(outcome)

    def on_stdin(self) -> int:
        """Check standard input; with --fix, the fixed code is what is written."""
        named = self.options["stdin_filename"]
        path = Path(os.path.normpath(self.working / named)) if named else None
        filename = shown(path, self.working) if path else "-"
        data = sys.stdin.buffer.read()
        outcome = Outcome(self.complain)
        settings = self.configuration.of(path.parent if path else self.working)
        if path and is_left_out(path, settings, self.configuration.of):
            self.notice(f"nothing to check: excluded or ignored by the configuration: {filename}")
            if self.fixes and not self.options["diff"]:
                sys.stdout.buffer.write(data)
            return CLEAN
        if self.options["show_settings"]:
            self.show_settings(path or self.working / "-")
            return CLEAN

        from torchlint.source import decode_source  # noqa: PLC0415

        with trouble(filename, outcome):
            check_group([decode_source(data, filename, path)], self.plan(write=False), outcome)
        if self.fixes and not self.options["diff"]:
            changed = [file for file in outcome.files if file.text != file.source.text]
            fixed = changed[0].source.encode(changed[0].text) if changed else data
            sys.stdout.buffer.write(fixed)
            sys.stdout.buffer.flush()
        return self.finish(outcome, to_stderr=self.fixes and not self.options["diff"])

    def finish(self, outcome: Outcome, *, to_stderr: bool = False) -> int:
        """Report what was found and return the exit code."""
        for warning in self.targets.warnings if self.targets else ():
            self.notice(warning)
        for file in outcome.files:
            for note in file.notes:
                self.notice(note)
        if self.options["add_ignore"] is not None:
            return self.write_ignores(outcome)
        if self.options["diff"]:
            return self.finish_diff(outcome)
        report = "" if self.options["fix_only"] else "".join(self.report(outcome))
        if self.options["show_fixes"]:
            report += "".join(self.applied(outcome))
        self.write([report], to_stderr=to_stderr)
        return self.exit_code(outcome)

    def exit_code(self, outcome: Outcome) -> int:
        """Return 2 for what could not be checked, then 1 for what was found or fixed."""
        if outcome.problems:
            return FAULT
        fixed = any(file.applied for file in outcome.files)
        if fixed and self.options["exit_non_zero_on_fix"]:
            return FINDINGS
        if self.options["exit_zero"] or self.options["fix_only"]:
            return CLEAN
        return FINDINGS if any(file.fails for file in outcome.files) else CLEAN

    def finish_diff(self, outcome: Outcome) -> int:
        """Show what fixing would change; it fails if that is anything."""
        from torchlint.report.diff import unified  # noqa: PLC0415
        from torchlint.report.model import count  # noqa: PLC0415

        changed = [file for file in outcome.files if file.text != file.source.text]
        self.write(self.painted(line for file in changed for line in unified(file)))
        if changed:
            number = sum(len(file.applied) for file in changed)
            self.notice(f"Would fix {count(number, 'finding')}.")
        if outcome.problems:
            return FAULT
        return FINDINGS if changed and not self.options["exit_zero"] else CLEAN

    def write_ignores(self, outcome: Outcome) -> int:
        """Write suppression comments and say how many."""
        from torchlint.report.model import count  # noqa: PLC0415

        written = add_ignores(outcome, self.options["add_ignore"], self.plan(write=True))
        self.notice(f"Added {count(written, 'suppression')}.")
        return FAULT if outcome.problems else CLEAN

    # what is written, and where

    def report(self, outcome: Outcome) -> Iterator[str]:
        """Yield the findings in the format that is asked for."""
        from torchlint.report.formats import render  # noqa: PLC0415
        from torchlint.report.model import Reported, View  # noqa: PLC0415
        from torchlint.report.relative import repository_root  # noqa: PLC0415

        files = [
            Reported(file.source.filename, file.source.path, file.text, file.findings)
            for file in outcome.files
            if file.findings
        ]
        view = View(
            safety=self.safety,
            root=repository_root(self.working),
            color=self.color,
            fixed=sum(len(file.applied) for file in outcome.files) if self.fixes else None,
            problems=tuple(outcome.problems),
        )
        settings = self.configuration.of(self.working)
        statistics, quiet = self.options["statistics"], self.options["quiet"]
        yield from render(settings.output_format, files, view, statistics=statistics, quiet=quiet)

    def applied(self, outcome: Outcome) -> Iterator[str]:
        """Yield the list of what was fixed."""
        from torchlint.report.summary import fixes  # noqa: PLC0415

        done = [(file.source.filename, file.applied) for file in outcome.files]
        yield from self.painted(fixes(done))

    def painted(self, lines: Iterable[Line]) -> Iterator[str]:
        """Yield lines as text, coloured where that is wanted."""
        from torchlint.report.paint import paint  # noqa: PLC0415

        yield from paint(lines, color=self.color)

    @property
    def color(self) -> bool:
        """Whether the report is coloured: on a terminal, unless the environment says otherwise."""
        from torchlint.report.paint import is_colored  # noqa: PLC0415

        return is_colored(self.options["color"], to_file=bool(self.options["output_file"]))

    def write(self, text: Iterable[str], *, to_stderr: bool = False) -> None:
        """Write to --output-file or standard output; a closed pipe is no reason to complain."""
        if file := self.options["output_file"]:
            try:
                file.write_text("".join(text), encoding="utf-8")
            except OSError as error:
                problem = f"{file}: {error.strerror}; name a file that can be written"
                raise UsageError(problem) from None
            return
        stream = sys.stderr if to_stderr else sys.stdout
        try:
            for piece in text:
                stream.write(piece)
            stream.flush()
        except BrokenPipeError:
            abandon_output()

    def complain(self, problem: str) -> None:
        """Say what kept a file from being checked."""
        print(f"error: {problem}", file=sys.stderr)

    def notice(self, text: str) -> None:
        """Say something that is neither a finding nor an error."""
        if not self.options["quiet"]:
            print(text, file=sys.stderr)

    def narrate(self, files: Sequence[Path]) -> None:
        """Say which configuration holds for which folder, and which torch is assumed."""
        for folder in dict.fromkeys(file.parent for file in files):
            settings = self.configuration.of(folder)
            target = self.target_of(folder, settings)
            where = f"configuration {settings.file or 'none'}, torch {target} ({target.origin})"
            print(f"{folder}: {where}", file=sys.stderr)

    def show_settings(self, file: Path) -> None:
        """Print the settings of a file in TOML, each with the place it comes from."""
        from torchlint.report.pages import settings_as_text  # noqa: PLC0415

        settings = self.configuration.of(file.parent)
        target = self.target_of(file.parent, settings)
        self.write([settings_as_text(shown(file, self.working), settings, target)])

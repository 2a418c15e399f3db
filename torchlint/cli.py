"""The command line: arguments to calls, errors to exit codes, and nothing else."""

from __future__ import annotations

import gc
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchlint import __version__
from torchlint.config import BY_KEY, OPTIONS, Kind
from torchlint.errors import ConfigError, TorchlintError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERRUPTED = 130
FAULT = 2


def command() -> int:
    """Be the process of the installed command: `main`, with the cyclic collector out of the way.

    A file's tree goes when its check ends, so there is hardly any garbage to look for, least of
    all in the last moment, when every object of libcst would be looked at once more.
    """
    gc.set_threshold(100_000)
    code = main()
    gc.freeze()
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; every error ends here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not know every character
    try:
        code = cli.main(arguments, prog_name="torchlint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = FAULT
    except TorchlintError as error:
        complain(str(error))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:  # the last flush: click ends quietly for those before
        from torchlint.check import abandon_output  # noqa: PLC0415

        abandon_output()
        code = 0
    except OSError as error:
        complain(
            f"{error.filename or 'output'}: {error.strerror or error}; nothing more was written"
        )
        code = FAULT
    except Exception as error:  # noqa: BLE001  the last place that can say so without a traceback
        from torchlint.run import internal_error  # noqa: PLC0415

        complain(internal_error("torchlint", error))
        code = FAULT
    return code if isinstance(code, int) else 0


def complain(message: str) -> None:
    """Write an error to standard error."""
    click.echo(f"error: {message}", err=True)


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version", message="torchlint %(version)s")
def cli() -> None:
    """Find, fix and prove the small habits in PyTorch training scripts that waste GPU hours."""


class CheckCommand(click.Command):
    """`check`, with `--add-ignore` usable with and without `=REASON` and never eating a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a bare `--add-ignore` its empty reason before click looks for one."""
        ends = args.index("--") if "--" in args else len(args)
        args[:ends] = ["--add-ignore=" if arg == "--add-ignore" else arg for arg in args[:ends]]
        return super().parse_args(ctx, args)


def codes(name: str, text: str) -> Callable[[Any], Any]:
    """Return an option that takes rule selectors separated by commas, any number of times."""
    return click.option(f"--{name}", metavar="CODES", multiple=True, help=text)


def settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each setting, but for the one that speaks of other files."""
    types = {Kind.COUNT: int, Kind.FLAG: bool}
    for option in reversed(OPTIONS):
        flag, word = option.kind is Kind.FLAG, f"--{option.key}"
        default = f"  [default: {option.default}]" if option.choices else ""
        if option.key != "extend":
            function = click.option(
                f"{word}/--no-{option.key}" if flag else word,
                type=click.Choice(option.choices) if option.choices else types.get(option.kind),
                metavar=METAVARS.get(option.kind),
                multiple=option.is_list,
                default=None,
                help=option.description + default,
            )(function)
    return function


METAVARS = {
    Kind.SELECTORS: "CODES",
    Kind.PATTERNS: "PATTERNS",
    Kind.PER_FILE: "PATTERN:CODE",
    Kind.VERSION: "VERSION",
    Kind.COUNT: "NUMBER",
    Kind.TEXT: "TEXT",
}
# Options that several commands have.
COLOR = click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    help="When to use colour.",
)
QUIET = click.option("-q", "--quiet", is_flag=True, help="Neither notices nor progress.")
CONFIG = click.option(
    "--config",
    metavar="FILE|KEY=VALUE",
    multiple=True,
    help="A configuration file, or a setting in TOML.",
)
ISOLATED = click.option(
    "--isolated", is_flag=True, help="Read no configuration file and no project metadata."
)
PYTHON = click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Python that has torch  [default: torchlint's own, else `python`]",
)
TIME_BUDGET = click.option(
    "--time-budget",
    metavar="TIME",
    default="10m",
    show_default=True,
    help="Begin nothing new after this time, such as 90s, 10m or 1h.",
)


@cli.command(cls=CheckCommand)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATHS]...")
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="Apply (or count as applicable) unsafe fixes too."
)
@click.option(
    "--diff",
    is_flag=True,
    help="Show what --fix would change, change nothing; exit 1 if anything would.",
)
@click.option(
    "--fix-only", is_flag=True, help="Apply fixes, neither report what remains nor fail for it."
)
@click.option("--show-fixes", is_flag=True, help="List what was fixed.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit 1 if a file was changed.")
@click.option("-e", "--exit-zero", is_flag=True, help="Exit 0 in spite of findings.")
@settings
@click.option(
    "--stdin-filename",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Name of the code that `-` reads.",
)
@click.option(
    "-o", "--output-file", type=click.Path(path_type=Path), help="Write findings to this file."
)
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of showing them.")
@click.option(
    "--add-ignore",
    metavar="[=REASON]",
    help="Write a suppression comment on every line with a finding.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    help="Number of processes (accepted; one is used for now).",
)
@click.option(
    "-n", "--no-cache", is_flag=True, help="Do not use the cache (accepted; nothing is cached yet)."
)
@CONFIG
@ISOLATED
@click.option(
    "--show-settings",
    is_flag=True,
    help="Show the settings of the first file, and where they come from.",
)
@click.option("--show-files", is_flag=True, help="List the files that would be checked.")
@COLOR
@QUIET
@click.option(
    "-v", "--verbose", is_flag=True, help="Say which files are checked with which settings."
)
def check(paths: tuple[Path, ...], **options: Any) -> int:
    """Check files and folders (default: the working folder), or standard input with `-`.

    Exit codes: 0 nothing at or above --fail-on, 1 findings at or above it, 2 the use, the
    configuration or an unreadable file is at fault (2 beats 1).
    """
    from torchlint.check import check as run  # noqa: PLC0415  the other commands do not need it

    return run(paths or (Path(),), options)


class VerifyCommand(click.Command):
    """`verify`, which says where the script's own options belong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Explain an unknown option: most likely it is the script's."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise UsageError(
                f"verify has no option {error.option_name}; the script's own arguments go after "
                "`--`: `torchlint verify train.py -- --epochs 1`"
            ) from None


@cli.command(cls=VerifyCommand)
@click.argument("words", nargs=-1, metavar="[SCRIPT] [-- ARGUMENTS]...")
@click.option("-m", "--module", metavar="MODULE", help="Run a module, as `python -m` does.")
@codes("select", "Rules whose fixes are verified  [default: as for check]")
@codes("ignore", "Rules whose fixes are not.")
@click.option(
    "--steps",
    type=click.IntRange(min=2),
    help="Optimizer steps of a run  [default: as many as the pilot run says are needed]",
)
@click.option(
    "--pairs",
    metavar="N|N..M",
    default="3..40",
    show_default=True,
    help="Pairs of runs of each comparison, at least and at most.",
)
@TIME_BUDGET
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu")),
    default="auto",
    show_default=True,
    help="Where the script is to run; cpu hides the GPUs from it.",
)
@click.option(
    "--mode",
    type=click.Choice(("auto", "lockstep", "sequential")),
    default="auto",
    show_default=True,
    help="Whether two runs take turns, or stand one after the other.",
)
@click.option(
    "--launcher", metavar="COMMAND", help="What starts the script, such as `torchrun ...`."
)
@PYTHON
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the project, which every run gets a copy of.",
)
@click.option(
    "--exclude",
    metavar="PATTERNS",
    multiple=True,
    help="Files and folders to leave out of the copy, separated by commas.",
)
@click.option("--apply", is_flag=True, help="Write the fixes that are worth keeping.")
@click.option("--json", type=click.Path(path_type=Path), help="Write everything to this file.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a report with plots.")
@click.option(
    "--markdown", type=click.Path(path_type=Path), help="Write a report for a pull request."
)
@click.option(
    "--fail-if-slower",
    metavar="PERCENT",
    type=click.FloatRange(min=0),
    help="Exit 1 if the kept fixes, or any fix, are slower by more than this.",
)
@click.option(
    "--keep-going", is_flag=True, help="Measure the speed of fixes that change results, too."
)
@click.option(
    "--torch-version", metavar="VERSION", help="Lowest torch version the code runs with, or `any`."
)
@CONFIG
@ISOLATED
@COLOR
@QUIET
def verify(words: tuple[str, ...], **options: Any) -> int:
    """Run a training script before and after each fix: how much faster it is, and is it the same.

    Nothing of the project is written to, except by --apply: every run gets a copy.

    Exit codes: 0 verified, 1 slower than --fail-if-slower allows, 2 the use or the script is at
    fault.
    """
    try:
        from torchlint.verify.command import verify as run  # noqa: PLC0415  only this command needs it
    except ModuleNotFoundError as error:
        raise UsageError(
            f"verify needs {error.name}; install it with `pip install 'torchlint[verify]'`"
        ) from None

    return run(words, options)


@cli.command()
@click.argument("codes", metavar="[RULE]...", nargs=-1)
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    default="auto",
    help="Where to run; auto takes a GPU where there is one.",
)
@TIME_BUDGET
@PYTHON
@click.option(
    "--quick",
    is_flag=True,
    help="The smallest program of each rule, in short turns: to try it, not to measure.",
)
@click.option("--json", type=click.Path(path_type=Path), help="Write every figure to a file.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a report with plots.")
@COLOR
@QUIET
def bench(codes: tuple[str, ...], **options: Any) -> int:
    """Measure what the fix of each rule is worth here, in a small program that has the habit.

    Both versions take turns in one process, and their results are compared as the rule declares.

    Exit codes: 0 measured, 1 a program failed or does not compute what it should, 2 the use is at
    fault.
    """
    try:
        from torchlint.bench.command import bench as run  # noqa: PLC0415  only this command needs it
    except ModuleNotFoundError as error:
        raise UsageError(
            f"bench needs {error.name}; install it with `pip install 'torchlint[verify]'`"
        ) from None

    return run(codes, options)


@cli.command()
@click.argument("name", required=False, metavar="[CODE]")
@click.option("--all", "everything", is_flag=True, help="Every rule.")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text")
def rule(name: str | None, everything: bool, output_format: str) -> None:
    """Explain a rule, by its code or name."""
    from torchlint.registry import all_rules, find  # noqa: PLC0415
    from torchlint.report.pages import as_json, as_text  # noqa: PLC0415

    if everything == (name is not None):
        raise UsageError("name one rule (`torchlint rule CODE`), or say `--all`")
    rules = all_rules() if name is None else (find(name),)
    if output_format == "json":
        click.echo(as_json(rules, single=not everything), nl=False)
    else:
        click.echo(as_text(rules), nl=False)


@cli.command()
@click.argument("key", required=False)
@click.option("--output-format", type=click.Choice(("text", "json")), default="text")
def config(key: str | None, output_format: str) -> None:
    """List the settings, or explain one."""
    from torchlint.config import unknown_key  # noqa: PLC0415
    from torchlint.report.pages import options_as_json, options_as_text  # noqa: PLC0415

    if key is not None and key not in BY_KEY:
        raise ConfigError(unknown_key(key, "torchlint config"))
    options = OPTIONS if key is None else (BY_KEY[key],)
    written = options_as_json(options) if output_format == "json" else options_as_text(options)
    click.echo(written, nl=False)

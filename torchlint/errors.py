"""What can go wrong, each kind with the exit code it ends in."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path


class TorchlintError(Exception):
    """A failure the user can mend: the message names the place and the remedy."""

    exit_code: ClassVar[int] = 2


class UsageError(TorchlintError):
    """The command line asks for something that does not exist or cannot be."""


class ConfigError(TorchlintError):
    """A configuration file holds something that torchlint does not understand."""


class UnreadableFileError(TorchlintError):
    """A file cannot be read, decoded, taken apart or written back."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class InternalError(TorchlintError):
    """torchlint itself is at fault: a rule or the engine broke one of its own promises.

    ``note`` is what happened; the message adds where and asks for a report.
    """

    def __init__(self, note: str, *, rule: str = "", filename: str = "") -> None:
        who = f"rule {rule}" if rule else "torchlint"
        where = f"{filename}: " if filename else ""
        super().__init__(
            f"{where}internal error in {who}: {note}; "
            "this is a bug of torchlint, please report it with the file"
        )
        self.note = note
        self.rule = rule
        self.filename = filename

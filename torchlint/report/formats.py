"""From the name of a format to its module; only the one that is asked for is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.report.paint import paint
from torchlint.report.summary import statistics as counted
from torchlint.report.summary import summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchlint.report.model import Reported, View
    from torchlint.report.paint import Line


def render(
    name: str, files: Sequence[Reported], view: View, *, statistics: bool, quiet: bool
) -> Iterator[str]:
    """Yield the report; ``statistics`` counts by rule, ``quiet`` leaves out the closing lines."""
    if name == "json":
        from torchlint.report import json  # noqa: PLC0415

        yield from json.counts(files, view) if statistics else json.render(files, view)
    elif name == "github":
        from torchlint.report import github  # noqa: PLC0415

        yield from github.render(files, view)
    elif name == "sarif":
        from torchlint.report import sarif  # noqa: PLC0415

        yield from sarif.render(files, view)
    else:
        yield from paint(_lines(name, files, view, statistics, quiet), color=view.color)


def _lines(
    name: str, files: Sequence[Reported], view: View, statistics: bool, quiet: bool
) -> Iterator[Line]:
    if statistics:
        yield from counted(files, view)
    elif name == "concise":
        from torchlint.report import concise  # noqa: PLC0415

        yield from concise.lines(files, view)
    elif files:
        from torchlint.report import full  # noqa: PLC0415

        yield from full.lines(files, view)
    if not quiet:
        yield from summary(files, view)

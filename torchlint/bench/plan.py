"""Which programs are measured: those of the rules asked for, and what their fixes make of them."""

from __future__ import annotations

import importlib
import math
import re
from typing import TYPE_CHECKING

from torchlint.bench.model import Row
from torchlint.benchmark import Benchmark
from torchlint.checking import Options
from torchlint.edits.fix import Safety
from torchlint.errors import TorchlintError
from torchlint.linter import examine, fix_source
from torchlint.registry import ENGINE_RULES, all_rules
from torchlint.rule import Level, Needs, rule_code
from torchlint.source import decode_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.version import Version

    from torchlint.rule import Rule


def benchmark_of(rule: Rule) -> Benchmark | None:
    """Return the declaration beside a rule, None where there is none."""
    name = f"{rule.package}.benchmarks.{rule.function}"
    try:
        found = importlib.import_module(name).BENCHMARK
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None
    assert isinstance(found, Benchmark)
    return found


def rows(
    codes: Sequence[str], target: Version | None, *, gpus: int, quick: bool = False
) -> list[Row]:
    """Return the rows of the rules asked for (all of them, if none is), in the order of codes.

    They are for so many GPUs.  ``quick``: the smallest of each rule, with short turns.  A program
    that does not have the habit, or keeps it, is a broken row.
    """
    chosen = [
        rule
        for rule in all_rules()
        if rule not in ENGINE_RULES and (not codes or rule.code in codes)
    ]
    return [row for rule in chosen for row in _rows(rule, target, gpus, quick=quick)]


def _rows(rule: Rule, target: Version | None, gpus: int, *, quick: bool) -> Iterator[Row]:
    benchmark = benchmark_of(rule)
    if benchmark is None:
        return
    every = (*benchmark.sizes, *(benchmark.gpu_sizes if gpus else ()))
    largest = max(map(_extent, every))
    lacking = rule.needs.lacking(gpus)
    for sizes in (min(every, key=_extent),) if quick else every:
        before = program(benchmark.before, sizes)
        broken = ""
        try:
            after, safety, level = _after(rule, benchmark, sizes, target)
        except TorchlintError as error:
            after, safety, level, broken = "", None, benchmark.level, str(error)
        yield Row(
            code=rule.code,
            name=rule.name,
            size=", ".join(f"{name.lower()} {value}" for name, value in sizes.items()),
            step=benchmark.step,
            before=before,
            after=after,
            safety=safety,
            level=level,
            unfit=lacking if gpus else benchmark.needs_cuda or lacking,
            broken=broken,
            needs=rule.needs,
            rank=_rank(rule, benchmark, sizes, largest),
            workers=benchmark.workers or bool(sizes.get("WORKERS")),
            compiles=benchmark.compiles,
            quick=quick,
        )


def _extent(sizes: Mapping[str, int]) -> int:
    return math.prod(max(1, size) for size in sizes.values())


def _rank(rule: Rule, benchmark: Benchmark, sizes: Mapping[str, int], largest: int) -> int:
    """Return when a row is due: first what only a GPU can show, last what a CPU shows as well."""
    if benchmark.compiles:
        return 1
    if rule.needs is Needs.NOTHING:
        return 2 if sizes in benchmark.gpu_sizes else 3
    return 0 if _extent(sizes) == largest else 2


def program(text: str, sizes: Mapping[str, int]) -> str:
    """Return the text of a module with its sizes above it."""
    constants = "".join(f"{name} = {value}\n" for name, value in sizes.items())
    return f"{constants}\n{text.strip()}\n"


def _after(
    rule: Rule, benchmark: Benchmark, sizes: Mapping[str, int], target: Version | None
) -> tuple[str, Safety | None, Level]:
    """Return the program without the habit, the safety of the fix, and what may differ.

    Raises:
        TorchlintError: the rule finds nothing before, or something after.

    """
    before = program(benchmark.before, sizes)
    options = Options((rule,), frozenset({rule.code}), target)
    named = f"the benchmark of {rule.code} ({rule.name})"
    source = decode_source(before.encode(), f"{rule.function}.py")
    if not any(rule_code(one.code) == rule.code for one in examine(source, options).diagnostics):
        raise TorchlintError(f"{named} has nothing that the rule finds")
    if benchmark.after:
        text = program(benchmark.after, sizes)
        left = examine(decode_source(text.encode(), source.filename), options).diagnostics
        safety, level = None, benchmark.level
    else:
        fixed = fix_source(source, options, Safety.UNSAFE)
        text, left = fixed.text, fixed.remaining
        safety = max((one.fix.safety for one in fixed.applied if one.fix), default=None)
        level = rule.level if safety is Safety.UNSAFE else Level.E0
    if any(rule_code(one.code) == rule.code for one in left):
        raise TorchlintError(f"{named} still has what the rule finds, after the fix")
    return text, safety, level


def version(text: str) -> Version | None:
    """Return torch's version without what names its build."""
    from packaging.version import Version  # noqa: PLC0415  only where something is measured

    found = re.match(r"\d+\.\d+(?:\.\d+)?", text)
    return Version(found[0]) if found else None

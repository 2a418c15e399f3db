"""Which rules there are and which are asked for; the only module that imports torchlint_rules."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from torchlint.edits.fix import Safety
from torchlint.errors import UsageError
from torchlint.rule import Nearby, Rule, Severity
from torchlint_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlint.rule import Check

# What the engine itself reports; these rows have no check to load.
_engine = functools.partial(Rule, group=0, words=(), package="torchlint", in_tests=True)
SYNTAX_ERROR = _engine(
    code="TL001",
    name="syntax-error",
    summary="the file is not valid Python",
    severity=Severity.ERROR,
)
UNUSED_SUPPRESSION = _engine(
    code="TL002",
    name="unused-suppression",
    summary="a suppression comment that suppresses nothing",
    fix=Safety.SAFE,
)
ENGINE_RULES = (SYNTAX_ERROR, UNUSED_SUPPRESSION)

ENGINE_PAGES = {
    SYNTAX_ERROR.code: """\
The file is not valid Python.

## Why
A file that cannot be parsed cannot be trained with, and nothing else can be said about it.
The other files are still checked.  Python 2 code is reported here too, where it has to do with
torch.

## Bad
    def train(model:

## Good
    def train(model): ...

## Leaves alone
Syntax that is newer than the Python which runs torchlint, as long as libcst can parse it.
Templates (`{% if %}` in a line of its own, `{{...}}` in the path) are reported as information.

## Fix safety
There is no fix.  This finding cannot be deselected, nor suppressed: it would hide that the file was
not checked.
""",
    UNUSED_SUPPRESSION.code: """\
A suppression comment that suppresses nothing.

## Why
A comment that outlives its finding hides the next finding on that line, which nobody decided
to accept.

## Bad
    x = 1  # torchlint: ignore[TL000]

## Good
    x = 1

## Leaves alone
Comments that name other tools' codes, and codes of rules that this run does not check.

## Fix safety
Safe: only the comment is removed.
""",
}


# A file without any of these words has nothing to do with PyTorch: no rule can fire in it.
# One that zeroes gradients may leave torch itself to the files that it imports.
FRAMEWORKS = """
    torch lightning accelerate transformers fastai ignite deepspeed composer
""".split()
TRAINS = "zero_grad"
TORCH = Nearby(("import torch", "from torch"))


def is_relevant(text: str) -> bool:
    """Whether a file has to do with PyTorch at all; the others are not looked at any further."""
    return any(word in text for word in FRAMEWORKS)


def may_be_relevant(text: str) -> bool:
    """Whether a file has to do with PyTorch, or may have, by the files that it imports."""
    return TRAINS in text or is_relevant(text)


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of its code; the engine's own come first."""
    return tuple(sorted((*ENGINE_RULES, *RULES), key=lambda rule: rule.code))


def load(rule: Rule) -> Check:
    """Import the module of a rule and return its check (this imports libcst)."""
    import importlib  # noqa: PLC0415  only a file that passed the words gate comes here

    return cast("Check", getattr(importlib.import_module(rule.module), rule.function))


def page(rule: Rule) -> str:
    """Return the documentation of a rule: its module's docstring, read without importing it."""
    if rule.code in ENGINE_PAGES:
        return ENGINE_PAGES[rule.code]
    import ast  # noqa: PLC0415  only `torchlint rule` and SARIF need pages
    import importlib.util  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    found = importlib.util.find_spec(rule.package)
    folder = Path(found.origin).parent if found and found.origin else Path()
    file = folder / f"{rule.function}.py"
    if not file.is_file():
        return f"{rule.summary}\n"
    return (ast.get_docstring(ast.parse(file.read_bytes())) or rule.summary).strip() + "\n"


def cases(rule: Rule) -> frozenset[str]:
    """Return the codes of a rule's sub-cases: those that its page names."""
    return frozenset(re.findall(rf"\b{rule.code}[a-z]\b", page(rule)))


def find(name: str) -> Rule:
    """Return the rule of a code, of a sub-case's code, or of a name.

    Raises:
        UsageError: no rule is called that.

    """
    for rule in all_rules():
        if name in (rule.code, rule.name) or (name[:-1] == rule.code and name in cases(rule)):
            return rule
    raise UsageError(f"unknown rule `{name}`{_hint(name)}; `torchlint rule --all` lists them")


@dataclass(frozen=True, slots=True)
class Choice:
    """What one place (a configuration file, the command line) says about which rules are on.

    ``select`` replaces what earlier places chose; ``extend`` and ``ignore`` change it.
    """

    select: tuple[str, ...] | None = None
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def is_selected(code: str, choices: Iterable[Choice]) -> bool:
    """Whether a code is on: later places win, and in one place the most specific selector."""
    on = False
    for choice in choices:
        if choice.select is not None:
            on = False
        wanted = specificity(code, (*(choice.select or ()), *choice.extend))
        unwanted = specificity(code, choice.ignore)
        if wanted >= 0 or unwanted >= 0:
            on = wanted > unwanted
    return on


@functools.lru_cache(4096)  # asked for every rule in every file
def specificity(code: str, selectors: tuple[str, ...]) -> int:
    """Length of the longest selector that covers the code; 0 for ALL, -1 where none does."""
    covering = (s for s in selectors if s == "ALL" or code.startswith(s))
    return max((0 if s == "ALL" else len(s) for s in covering), default=-1)


def check_selector(selector: str, where: str) -> None:
    """Raise a UsageError unless the selector is ALL, a prefix of some code, or a sub-case."""
    rules = all_rules()
    if selector == "ALL" or (selector and any(rule.code.startswith(selector) for rule in rules)):
        return
    if any(selector[:-1] == rule.code and selector in cases(rule) for rule in rules):
        return
    raise UsageError(
        f"unknown rule selector `{selector}` in {where}{_hint(selector)}; "
        "`torchlint rule --all` lists the rules"
    )


def _hint(name: str) -> str:
    import difflib  # noqa: PLC0415  only on the way to an error

    rules = all_rules()
    for rule in rules:
        if name == rule.name or name.upper() == rule.code:
            return f"; did you mean `{rule.code}`?"
    words = [word for rule in rules for word in (rule.code, rule.name)]
    close = difflib.get_close_matches(name, words, n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""

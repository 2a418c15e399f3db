"""Each step looks for parameters that it left out, where there are none.

## Why
With `find_unused_parameters=True`, `DistributedDataParallel` goes through the autograd graph after
every forward pass, to learn which parameters will get no gradient. Where each step uses all of them
that is lost time, and gradients travel in the order of the layers, not in that in which they come.

## Bad
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    model = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 24))
    model = DistributedDataParallel(model, find_unused_parameters=True)
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()

## Good
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    model = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 24))
    model = DistributedDataParallel(model)
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()

## Leaves alone
- Where a variable or an option says whether to look.
- `static_graph=True`, with which only the first step looks.
- Models that are not seen to train.

It is information where the model, or what its `forward` leaves out, is not seen: it may need it.

## Fix safety
Only where each layer is seen to run. Unsafe: gradients are summed in other groups, which rounds
differently. A model that leaves out parameters ends with "Expected to have finished reduction".

## Evidence
Not measured yet.

## References
- PyTorch documentation, `torch.nn.parallel.DistributedDataParallel`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.fix import Fix, Safety
from torchlint.edits.rewrites import RemoveArgument
from torchlint.rule import Finding
from torchlint.semantics.sets import parts_of
from torchlint.semantics.tables.torch_classes import CONTAINERS
from torchlint.semantics.values import At, Function, Instance, Object, Sequence, Truth
from torchlint.syntax.calls import keyword_of, keywords
from torchlint.training.asked import NO_TENSORS
from torchlint.training.between import conditions
from torchlint.training.frequency import Rate
from torchlint_rules.data_parallel import how_often
from torchlint_rules.judging import every, severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.values import Alternative, Value
    from torchlint.training.script import Script

WORD = "find_unused_parameters"


def ddp_find_unused_parameters(script: Script) -> Iterator[Finding]:
    """Find replicated models that look for unused parameters in every step."""
    for call, _ in script.calls_of("torch.nn.parallel.DistributedDataParallel"):
        frequency, given = how_often(script, call), keywords(call)
        is_told = WORD in given and script.value(given[WORD]) == (Truth(True),)
        if not is_told or frequency is None or "static_graph" in given or not call.args:
            continue
        is_whole = uses_all(script, script.value(call.args[0].value))
        when = f"in {every(frequency)}" if frequency.rate is Rate.STEP else "after a forward pass"
        arg = next(arg for arg in call.args if keyword_of(arg) == WORD)
        fix = Fix(
            "Do not look for unused parameters",
            Safety.UNSAFE,
            (RemoveArgument(call, arg),),
            changes="gradients are summed in other groups, which rounds differently",
        )
        yield Finding(
            call,
            f"`{script.module.brief(call.func)}` looks for parameters without gradients {when}"
            + (", though each runs all layers" if is_whole else ""),
            fix if is_whole else None,
            severity(frequency, frequency.rate is Rate.STEP, is_whole, not script.frameworks),
            help=f"Leave out `{WORD}` if every step uses all parameters.",
        )


def uses_all(script: Script, value: Value) -> bool:
    """Whether each run of a model uses all of its layers, as far as all of them are seen."""
    return bool(value) and all(_uses_all(script, one) for one in value)


def _uses_all(script: Script, one: Alternative) -> bool:
    match one:
        case Object(kind="torch.nn.Sequential", call=At() as call):
            return uses_all(script, script.connected.evaluation.elements(call).value)
        case Object(kind=kind):
            return kind.startswith("torch.nn.") and kind not in CONTAINERS
        case Instance(cls=at):
            return _runs_all(script, at)
        case Sequence():  # `Sequential(*layers)`
            return all(uses_all(script, part) for part in parts_of(one) if part)
    return False


def _runs_all(script: Script, at: At) -> bool:
    """Whether `forward` of a class runs each layer that it has, under no condition."""
    evaluation, classes = script.connected.evaluation, script.connected.evaluation.classes
    forward, bases = evaluation.method_of(at, "forward"), classes.library_bases(at)
    if forward is None or bases != ["torch.nn.Module"] or len(classes.lineage(at)) > 1:
        return False
    index, node = evaluation.index(forward.file), evaluation.node(forward)
    run = {
        call.func.attr.value
        for call in index.below(node, cst.Call)
        if isinstance(call.func, cst.Attribute)
        and any(getattr(each, "cls", None) == at for each in script.value(call.func.value))
        and not conditions(evaluation, call, node, forward.file)
    }
    return bool(run) and all(
        name in run and uses_all(script, cell.value)
        for (owner, name), cell in evaluation.attributes.items()
        if owner == at and not all(isinstance(one, (Function, *NO_TENSORS)) for one in cell.value)
    )

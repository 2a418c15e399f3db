"""New names for mixed precision: an import changes with all uses of what it binds, or none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.rewrites import AddArgument, PrependArgument, Replace
from torchlint.syntax.chains import dotted, root_of
from torchlint.training.amp_names import OLD, SINCE, AmpNames, Use

if TYPE_CHECKING:
    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

MODULES = frozenset({"torch.cuda.amp", "torch.cpu.amp"})


def renaming(script: Script, names: AmpNames, use: Use) -> tuple[list[Use], list[Rewrite]]:
    """Return what gives a use its new name, and all the uses that change with it."""
    root = root_of(use.node)
    assert isinstance(root, cst.Name)
    if script.name(root) == "torch":
        is_alone = is_changeable(script, names, use)
        return ([use], renamed(script, use, f"{root.value}.amp")) if is_alone else ([], [])
    owner = script.module.index.scope(root).owner(root.value)
    bindings = [] if owner is None else owner.bindings[root.value]
    statement = script.module.parent(bindings[0].node) if len(bindings) == 1 else None
    match statement, bindings:
        case cst.ImportFrom(module=cst.BaseExpression() as home, names=[*aliases]), _:
            new = "torch.amp" if ".amp" in dotted(home) else "torch"
            rewrites: list[Rewrite] = [Replace(home, new)]
        case cst.Import(), [binding] if isinstance(binding.node, cst.ImportAlias):
            aliases, rewrites = [binding.node], [Replace(binding.node.name, "torch.amp")]
        case _:
            return [], []
    found = [uses_of(script, names, alias) for alias in aliases]
    changed = [one for several in found for one in several or ()]
    if None in found or not any(one.place is use.place for one in changed):
        return [], []
    changed = [one for one in changed if not one.annotates]
    return changed, rewrites + [each for one in changed for each in renamed(script, one, "")]


def is_changeable(script: Script, names: AmpNames, use: Use) -> bool:
    """Whether a use can have its new name, with its arguments."""
    target = script.settings.target
    if not (use.runs or use.annotates) or (target is not None and target < SINCE[use.name]):
        return False
    if use.name == "GradScaler" and names.is_asked:
        return False
    if use.call is None or not use.keywords:
        return True
    given = [arg for arg in use.call.args if arg.keyword is None and arg.star != "**"]
    return len(given) <= len(use.keywords) and not any(arg.star for arg in given)


def renamed(script: Script, use: Use, module: str) -> list[Rewrite]:
    """Return the rewrites of one use; ``module`` is empty where the name stays."""
    code = f"{module}.{use.name}" if module else script.module.code(use.node)
    if use.call is None:
        return [Replace(use.node, f'{code}(device_type="{use.device}")')]
    argument: Rewrite = AddArgument(use.call, "device_type", f'"{use.device}"')
    if use.keywords:
        argument = PrependArgument(use.call, f'"{use.device}"', use.keywords)
    return [Replace(use.node, code), argument] if module else [argument]


def uses_of(script: Script, names: AmpNames, alias: cst.ImportAlias) -> list[Use] | None:
    """Return all uses of what an import binds, or None if one of them cannot be changed."""
    index, target = script.module.index, script.settings.target
    binding, since = index.bound(alias), SINCE.get(alias.evaluated_name)
    if binding is None or len(binding.scope.bindings[binding.name]) > 1:
        return None
    if is_public(script, binding.name) or (since and target is not None and target < since):
        return None
    known = {id(root_of(use.node)): use for use in names.uses}
    found: list[Use] = []
    for node in index.named.get(binding.name, ()):
        if script.value(node) and index.scope(node).owner(binding.name) is binding.scope:
            use = known.get(id(node))
            is_old = script.name(node) in {*OLD, *MODULES}
            if use is None or not is_old or not is_changeable(script, names, use):
                return None
            found.append(use)
    return found


def is_public(script: Script, name: str) -> bool:
    """Whether other files take the name from one that is not torch's, or it is in ``__all__``."""
    if "__all__" in script.module.index.root.bindings:
        return True
    return any(
        isinstance(statement.names, cst.ImportStar)
        or any(alias.evaluated_name == name for alias in statement.names)
        for module in script.connected.files.modules
        for statement in module.index.of(cst.ImportFrom)
        if module is not script.module
        if statement.module is None or not dotted(statement.module).startswith("torch.")
    )

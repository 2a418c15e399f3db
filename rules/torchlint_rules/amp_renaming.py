"""New names for mixed precision: an import changes with all uses of what it binds, or none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.edits.rewrites import AddArgument, InsertBefore, PrependArgument, Replace
from torchlint.semantics.values import Library
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind
from torchlint.training.amp_names import OLD, SINCE, AmpNames, Use, root_of

if TYPE_CHECKING:
    from torchlint.edits.rewrites import Rewrite
    from torchlint.training.script import Script

MODULES = frozenset({"torch.cuda.amp", "torch.cpu.amp"})


def renaming(
    script: Script, names: AmpNames, use: Use
) -> tuple[tuple[Use, ...], tuple[Rewrite, ...]]:
    """Return what gives a use its new name, and all the uses that change with it."""
    root = root_of(use.node)
    if script.value(root) == (Library("torch"),):
        if not is_changeable(script, names, use):
            return (), ()
        return (use,), renamed(script, use, f"{root.value}.amp")
    owner = script.module.index.scope(root).owner(root.value)
    bindings = [] if owner is None else owner.bindings[root.value]
    if len(bindings) != 1 or bindings[0].kind not in (Bind.FROM, Bind.IMPORT):
        return (), ()
    statement = script.module.parent(bindings[0].node)
    if not isinstance(statement, (cst.Import, cst.ImportFrom)):
        return (), ()
    uses, rewrites = moved(script, names, statement)
    return (uses, rewrites) if any(one.place is use.place for one in uses) else ((), ())


def is_changeable(script: Script, names: AmpNames, use: Use) -> bool:
    """Whether a use can have its new name, with its arguments."""
    target = script.settings.target
    if not (use.runs or use.annotates) or (target is not None and target < SINCE[use.name]):
        return False
    if use.name == "GradScaler" and names.is_compared:
        return False
    if use.call is None or not use.keywords:
        return True
    given = [arg for arg in use.call.args if arg.keyword is None and arg.star != "**"]
    return len(given) <= len(use.keywords) and not any(arg.star for arg in given)


def renamed(script: Script, use: Use, module: str) -> tuple[Rewrite, ...]:
    """Return the rewrites of one use; ``module`` is empty where the name stays."""
    code = f"{module}.{use.name}" if module else script.module.code(use.node)
    if use.call is None:
        return (Replace(use.node, f'{code}(device_type="{use.device}")'),)
    argument: Rewrite
    if use.keywords:
        argument = PrependArgument(use.call, f'"{use.device}"', use.keywords)
    else:
        argument = AddArgument(use.call, "device_type", f'"{use.device}"')
    return (Replace(use.node, code), argument) if module else (argument,)


def moved(
    script: Script, names: AmpNames, statement: cst.Import | cst.ImportFrom
) -> tuple[tuple[Use, ...], tuple[Rewrite, ...]]:
    """Let an import bring the new names, where all that uses what it binds can be changed."""
    if isinstance(statement.names, cst.ImportStar):
        return (), ()
    uses: list[Use] = []
    taken: list[cst.ImportAlias] = []
    for alias in statement.names:
        found = uses_of(script, names, alias)
        if found is not None:
            taken.append(alias)
            uses += [use for use in found if not use.annotates]
    changes = [rewrite for use in uses for rewrite in renamed(script, use, "")]
    return tuple(uses), (*imported(script, statement, taken), *changes) if uses else ()


def imported(
    script: Script, statement: cst.Import | cst.ImportFrom, taken: list[cst.ImportAlias]
) -> tuple[Rewrite, ...]:
    """Return the rewrites of the import itself."""
    if isinstance(statement, cst.Import):
        return tuple(Replace(alias.name, "torch.amp") for alias in taken)
    assert statement.module is not None
    assert not isinstance(statement.names, cst.ImportStar)
    old = dotted(statement.module)
    new = "torch.amp" if ".amp" in old else "torch"
    if len(taken) == len(statement.names):
        return (Replace(statement.module, new),)
    rest = [alias for alias in statement.names if alias not in taken]
    left, right = (
        ", ".join(script.module.code(alias).rstrip(", ") for alias in aliases)
        for aliases in (rest, taken)
    )
    return (
        InsertBefore(statement, f"from {new} import {right}"),
        Replace(statement, f"from {old} import {left}"),
    )


def uses_of(script: Script, names: AmpNames, alias: cst.ImportAlias) -> list[Use] | None:
    """Return all uses of what an import binds, or None if one of them cannot be changed."""
    index = script.module.index
    binding = index.bound(alias)
    if binding is None or len(binding.scope.bindings[binding.name]) > 1:
        return None
    if is_public(script, binding.name):
        return None
    known = {id(root_of(use.node)): use for use in names.uses}
    found: list[Use] = []
    for node in index.named.get(binding.name, ()):
        if not script.value(node) or index.scope(node).owner(binding.name) is not binding.scope:
            continue
        value = script.value(node)
        if not all(isinstance(one, Library) and one.name in {*OLD, *MODULES} for one in value):
            return None
        use = known.get(id(node))
        if use is None or not is_changeable(script, names, use):
            return None
        found.append(use)
    return found or None


def is_public(script: Script, name: str) -> bool:
    """Whether other files take the name from this one, or it is listed in ``__all__``."""
    if "__all__" in script.module.index.root.bindings:
        return True
    files = script.connected.files
    for file, module in enumerate(files.modules):
        for statement in module.index.of(cst.ImportFrom) if file != script.file else ():
            source = "." * len(statement.relative)
            source += "" if statement.module is None else dotted(statement.module)
            if files.find(file, source) == script.file and (
                isinstance(statement.names, cst.ImportStar)
                or any(alias.evaluated_name == name for alias in statement.names)
            ):
                return True
    return False

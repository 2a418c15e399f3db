"""What a dataset does each time that it gives a sample: reading, decoding, transforming."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.construction import kept, passed
from torchlint.analysis.datasets import HUGGING_FACE, TAKES
from torchlint.analysis.debugging import ways_to
from torchlint.analysis.dictionaries import literal
from torchlint.analysis.loaders import LOADER
from torchlint.analysis.origins import origins
from torchlint.analysis.reach import callee
from torchlint.analysis.values import Kind
from torchlint.syntax.chains import dotted
from torchlint.syntax.scopes import Bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.classes import Class, Store
    from torchlint.analysis.datasets import Dataset
    from torchlint.analysis.program import Program
    from torchlint.syntax.scopes import Binding

_DEPTH = 4  # functions that call functions

# Functions that read, decode or transform a whole sample: a fraction of a millisecond and more.
_WORK = re.compile(
    r"(PIL\.Image\.open|numpy\.(load|loadtxt|genfromtxt|fromfile)|pandas\.read_\w+"
    r"|torch\.load|torchaudio\.(load|transforms\.\w+|functional\.\w+)|json\.loads?|pickle\.loads?"
    r"|torchvision\.(io|transforms)\..+|(cv2|imageio|skimage|librosa|soundfile|nibabel|pydicom"
    r"|tifffile|rasterio|decord|av|SimpleITK|albumentations|scipy|h5py|gzip|yaml|wave)\..+"
    r"|nltk\.(tokenize\.)?\w+_tokenize|nltk\.(tag\.)?pos_tag|jieba\.(posseg\.)?l?cut\w*)$"
)
_WORKING_METHODS = frozenset(
    {"imread", "imdecode", "read_image", "read_bytes", "read_text", "tokenize", "encode_plus",
     "batch_encode_plus"}
)  # fmt: skip
_WORKING_NAMES = re.compile(
    r"transform|augment|tokeniz|preprocess|feature_extractor", re.IGNORECASE
)
_HANDLES = re.compile(
    r"(open|io\.open|gzip\.open|h5py\.File|lmdb\.open|sqlite3\.connect|zipfile\.ZipFile"
    r"|tarfile\.open|netCDF4\.Dataset|rasterio\.open|cv2\.VideoCapture|tables\.open_file"
    r"|(decord|av|cv2)\.\w*(VideoReader|open))$"
)
_KEPT_OPEN = frozenset({"torchvision.datasets.LSUN", "torchvision.datasets.LSUNClass"})


def work(dataset: Dataset) -> str:
    """Return what a dataset does to give one sample, as it stands in the code; "" if little.

    For a class of the project this is a call in ``__getitem__`` or in a function that it runs, for
    one of a library the name of the class.
    """
    if dataset.owner is None:
        known = dataset.type == HUGGING_FACE or dataset.type.startswith("torchvision.datasets.")
        return dataset.type if known else ""
    for _, one in dataset.lineage():
        for base in one.bases:
            if base.startswith("torchvision.datasets.") and not base.endswith(".VisionDataset"):
                return base
    for home, method in _takers(dataset):
        if found := _working_call(home, method, dataset, frozenset()):
            return found
    return ""


def gives_its_own(dataset: Dataset) -> bool:
    """Whether a dataset that extends one of torchvision gives samples in its own way.

    Of arrays in memory, perhaps, and not of files or images: nothing in it is seen to cost.
    """
    if dataset.owner is None or not work(dataset).startswith("torchvision."):
        return False
    own = list(_takers(dataset))
    return bool(own) and not any(
        _gives_images(*one) or _working_call(*one, dataset, frozenset()) for one in own
    )


def _gives_images(program: Program, method: cst.FunctionDef) -> bool:
    """Whether a method makes images, or has its base do that: ``super().__getitem__(index)``."""
    return any(
        program.qualified(call.func) == "PIL.Image.fromarray"
        or (isinstance(call.func, cst.Attribute) and call.func.attr.value == method.name.value)
        for call in program.index.below(method.body, cst.Call)
    )


def collate_work(program: Program, loader: cst.Call) -> str:
    """Return what the ``collate_fn`` of a loader does, as `work` does.

    Or the loop in which it counts off the elements of each sample.
    """
    for node in program.argument(loader, "collate_fn", LOADER).values:
        home, function = _function_of(program, node)
        if function is None:
            continue
        found = _working_call(home, function, None, frozenset())
        if found := found or _counting_loop(home, function, frozenset()):
            return found
    return ""


def _counting_loop(
    program: Program, function: cst.FunctionDef | cst.Lambda, way: frozenset[int]
) -> str:
    """Return what takes a turn for each element of each sample, in a function or what it calls.

    ``for n in lengths: rows.append([i + 1 for i in range(n)])``: of a hundred samples with some
    hundred elements each, that takes Python a millisecond and more.
    """
    if id(function) in way or len(way) > _DEPTH:
        return ""
    for call in program.index.below(function.body, cst.Call):
        loop = _counted(program, call)
        if loop is not None and _is_of_sample(program, call, function):
            return program.brief(call if isinstance(loop, cst.For) else loop)
        called = callee(program, call)
        if called is not None and (found := _counting_loop(*called, way | {id(function)})):
            return found
    return ""


def _counted(program: Program, call: cst.Call) -> cst.CSTNode | None:
    """Return the loop or comprehension that goes through a ``range(...)``."""
    if not (isinstance(call.func, cst.Name) and call.func.value == "range"):
        return None
    match program.parent(call):
        case cst.For(iter=iterated) as loop if iterated is call:
            return loop
        case cst.CompFor(iter=iterated) as part if iterated is call:
            return program.parent(part)
        case _:
            return None


def _is_of_sample(program: Program, call: cst.Call, function: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether a ``range(...)`` ends at a number that each turn of a loop around it has another of.

    ``range(n)``, ``range(int(n))``, ``range(x.size(0))``; ``range(len(x))`` may be of the few
    fields of a sample, and a number that is counted off itself is none of a sample.
    """
    bindings = (
        binding
        for name in program.index.below(call, cst.Name)
        if not _is_measured(program, name)
        for binding in program.flow.reaching(name)
    )
    return any(
        one.kind is Bind.FOR
        and program.index.inside(one.node, function)
        and not _is_counted_off(one)
        for one in bindings
    )


def _is_measured(program: Program, name: cst.Name) -> bool:
    """Whether a name stands in ``len(x)``."""
    match program.parent(program.parent(name) or name):
        case cst.Call(func=cst.Name("len")):
            return True
        case _:
            return False


def _is_counted_off(binding: Binding) -> bool:
    """Whether a loop counts a number off: ``range(9)``, or the first of ``enumerate(x)``."""
    match binding.value:
        case cst.Call(func=cst.Name("range")):
            return True
        case cst.Call(func=cst.Name("enumerate")):
            return binding.path[:1] == (0,)
        case _:
            return False


def _function_of(
    program: Program, node: cst.BaseExpression
) -> tuple[Program, cst.FunctionDef | cst.Lambda | None]:
    """Return the function of the project that an expression names."""
    made = program.value(node).made
    if isinstance(made, cst.FunctionDef | cst.Lambda):
        return program, made
    project = program.project
    other = None if project is None else project.function(program, program.qualified(node))
    return (program, None) if other is None else (other.program, other.function)


def keeps_state(dataset: Dataset) -> bool:
    """Whether giving a sample changes the dataset: a cache, a counter."""
    return any(_changes_self(home, method) for home, method in _takers(dataset))


def goes_on_by_itself(dataset: Dataset) -> bool:
    """Whether a dataset counts which sample it gives next, whatever index it is asked for.

    ``file = self.files[self.next]; self.next += 1``: each worker would give the same samples.
    """
    return any(_counts_on(home, method) for home, method in _takers(dataset))


def _counts_on(
    program: Program, method: cst.FunctionDef, way: frozenset[int] = frozenset()
) -> bool:
    """Whether a method, or one of the same object that it calls, looks up what it counts on."""
    if id(method) in way:
        return False
    counted = {dotted(one.target) for one in program.index.below(method.body, cst.AugAssign)}
    kept = {name for name in counted if name.startswith("self.")}
    looked_up = {
        dotted(one.slice.value)
        for one in program.index.below(method.body, cst.SubscriptElement)
        if isinstance(one.slice, cst.Index)
    }
    if kept & looked_up:
        return True
    own = (
        program.calls.target(call)
        for call in program.index.below(method.body, cst.Call)
        if dotted(call.func).startswith("self.")
    )
    return any(_counts_on(program, one, way | {id(method)}) for one in own if one is not None)


def keeps_handle(dataset: Dataset) -> str:
    """Return the call that opens a file for as long as the dataset lives, or ""."""
    if dataset.type in _KEPT_OPEN:
        return dataset.type
    for home, one in dataset.lineage():
        if found := next((base for base in one.bases if base in _KEPT_OPEN), ""):
            return found
        if found := _handle_of(home, one, 0):
            return found
    return ""


def _handle_of(program: Program, owner: Class, depth: int) -> str:
    """Return the call that opens what an object of a class holds from the start."""
    for stores in owner.stores.values():
        for store in stores:
            made = store.value if store.value is not None and _at_start(program, store) else None
            for value in [] if made is None else origins(program, made):
                if (opening := _opening(program, value)) is not None:
                    return program.brief(opening)
                inner = program.classes.get(program.value(value).made)
                if inner is None or inner is owner or depth > _DEPTH:
                    continue
                if found := _handle_of(program, inner, depth + 1):
                    return found
    return ""


def _at_start(program: Program, store: Store) -> bool:
    """Whether an attribute is given its value as the object is made, not at the first sample."""
    functions = (program.function(place) for place in ways_to(program, store.node))
    return any(one is not None and one.name.value == "__init__" for one in functions)


def _takers(dataset: Dataset) -> Iterator[tuple[Program, cst.FunctionDef]]:
    """Yield the methods that give samples."""
    for name in TAKES:
        method = dataset.method(name)
        if method is not None:
            yield method


def _working_call(
    program: Program,
    function: cst.FunctionDef | cst.Lambda,
    dataset: Dataset | None,
    way: frozenset[int],
) -> str:
    """Return a call that costs, in a function or in what it calls."""
    if id(function) in way or len(way) > _DEPTH:
        return ""
    for call in program.index.below(function.body, cst.Call):
        if _works(program, call, dataset):
            return program.brief(call)
        target = program.calls.target(call)
        found = ""
        if target is not None:
            found = _working_call(program, target, dataset, way | {id(function)})
        elif (other := program.calls.elsewhere(call)) is not None:
            found = _working_call(other.program, other.function, None, way | {id(function)})
        elif dataset is not None:
            found = _given_work(program, call, dataset, way | {id(function)})
        if found:
            return found
    return ""


def _given_work(program: Program, call: cst.Call, dataset: Dataset, way: frozenset[int]) -> str:
    """Return a call that costs in what a dataset was given to call: ``self.loader(path)``."""
    match call.func:
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            held = kept(dataset, name)
        case _:
            return ""
    for home, node in held:
        if _WORK.match(home.qualified(node)):
            return program.brief(call)
        other, function = _function_of(home, node)
        if function is not None and (found := _working_call(other, function, None, way)):
            return found
    return ""


def _works(program: Program, call: cst.Call, dataset: Dataset | None) -> bool:
    func = call.func
    if _WORK.match(program.qualified(func)):
        return True
    match func:
        case cst.Name(value="open"):
            return program.is_builtin(func)
        case cst.Attribute(attr=cst.Name(value=name)) if name in _WORKING_METHODS:
            return True
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=name)):
            return _WORKING_NAMES.search(name) is not None and _is_given(program, call, dataset)
        case cst.Attribute(value=receiver):
            return "tokenizer" in dotted(receiver).lower()
        case cst.Name(value=name):
            return "tokenizer" in name.lower() and program.calls.target(call) is None
        case _:
            return False


def _is_given(program: Program, call: cst.Call, dataset: Dataset | None) -> bool:
    """Whether ``self.transform`` is anything but None in the dataset at hand."""
    assert isinstance(call.func, cst.Attribute)
    if program.calls.target(call) is not None or dataset is None or dataset.owner is None:
        return False  # a method of the class: what it does is looked at by itself
    name = call.func.attr.value
    return any(
        _may_do(home, store, dataset)
        for home, one in dataset.lineage()
        for store in one.stores.get(name, ())
    )


def _may_do(program: Program, store: Store, dataset: Dataset) -> bool:
    value = store.value
    if not isinstance(value, cst.Name):
        return literal(value) != "None"
    for binding in program.flow.reaching(value):
        param = binding.value
        if binding.kind is not Bind.PARAMETER or not isinstance(param, cst.Param):
            return True
        default = program.value(param.default)
        if dataset.call is not None:
            given = passed(dataset, store.method, param)
            if given is None and any(arg.star for arg in dataset.call.args):
                return True
            default = default if given is None else given[0].value(given[1])
        if default.kind is not Kind.NONE:
            return True
    return False


def _changes_self(program: Program, method: cst.FunctionDef) -> bool:
    """``self.count += 1``, ``self.cache[index] = x``, ``self.seen.append(index)``."""
    for node in program.index.below(method.body, cst.Attribute):
        if not (isinstance(node.value, cst.Name) and node.value.value == "self"):
            continue
        above = program.parent(node)
        if isinstance(above, cst.Subscript) and above.value is node:
            above = program.parent(above)
        if isinstance(above, cst.Element):
            above = _target_of(program, above)
        match above:
            case cst.AssignTarget() | cst.AugAssign():
                return True
            case cst.Attribute(attr=cst.Name(value="append" | "add" | "update" | "setdefault")):
                return True
            case _:
                pass
    return False


def _target_of(program: Program, element: cst.Element) -> cst.CSTNode | None:
    """Return the target that ``self.x, y = pair`` assigns to as a whole."""
    holder = program.parent(element)
    return None if holder is None else program.parent(holder)


def _opening(program: Program, value: cst.CSTNode) -> cst.Call | None:
    """Return the call that opens what a value is, or is a part of: ``File(path)["x"]``."""
    match value:
        case cst.Call():
            name = program.qualified(value.func) or dotted(value.func)
            return value if _HANDLES.match(name) else None
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            is_name = isinstance(key, cst.SimpleString | cst.FormattedString)
            inner = origins(program, value.value) if is_name else []
        case cst.ListComp(elt=one) | cst.DictComp(value=one):
            inner = [one]
        case cst.List(elements=elements):
            inner = [element.value for element in elements]
        case _:
            return None
    found = (_opening(program, one) for one in inner)
    return next((one for one in found if one is not None), None)

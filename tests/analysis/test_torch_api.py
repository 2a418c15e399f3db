"""What the tables say of torch is what the installed torch says."""

from __future__ import annotations

import importlib
import inspect
import re
import typing

import pytest
import torch
from typing_extensions import Self

from torchlint.analysis import torch_api
from torchlint.analysis.names import canonical
from torchlint.analysis.torch_api import SIGNATURES

# Written in C: no signature to inspect.  The order is that of their documentation; it is tried.
BUILTIN = {
    name
    for name in SIGNATURES
    if name.startswith("torch.Tensor.") or name in {"torch.tensor", "torch.as_tensor",
                                                    "torch.from_numpy"}
}  # fmt: skip


def find(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return getattr(find(module), attribute)


def parameters(function: object) -> tuple[str, ...]:
    """Parameters in the form of the table: keyword-only ones after "*", no self, no ``**``."""
    names: list[str] = []
    found = function.__init__ if isinstance(function, type) else function
    for name, parameter in inspect.signature(found).parameters.items():
        if name == "self" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        names.append("*" if parameter.kind is parameter.VAR_POSITIONAL else name)
    return tuple(names)


@pytest.mark.parametrize("name", sorted(SIGNATURES.keys() - BUILTIN))
def test_signature_is_torchs(name):
    assert SIGNATURES[name] == parameters(find(name))


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_builtin_takes_no_other_keyword(name):
    function = find(name)
    assert callable(function)
    for keyword in SIGNATURES[name]:
        if keyword != "*":
            refused = f"unexpected keyword argument '{keyword}'"
            with pytest.raises((TypeError, RuntimeError, ValueError)) as error:
                function(torch.ones(1), **{keyword: object()})
            assert refused not in str(error.value)


@pytest.mark.parametrize("name", sorted(BUILTIN - {"torch.from_numpy"}))
def test_builtin_takes_so_many_by_position(name):
    """Give far too many: the error says how many there may be, or how they are called."""
    table = SIGNATURES[name]
    positional = table[: table.index("*")] if "*" in table else table
    with pytest.raises(TypeError) as error:
        find(name)(torch.ones(1), *[None] * 12)
    message = str(error.value)
    if most := re.search(r"takes (?:from \d+ to )?(\d+) positional", message):
        assert int(most[1]) == len(positional)
    else:
        form = re.search(r"expected (?:one of:\n \* )?\((.*?)\*", message)
        assert form is not None
        assert tuple(re.findall(r"(\w+) =", form[1])) == positional


def test_the_order_of_builtin_parameters():
    x = torch.ones(2)
    assert x.to("cpu", torch.float64, True, True).dtype is torch.float64
    assert x.to("cpu", torch.float32, False, True) is not x, "copy comes last"


@pytest.mark.parametrize(
    "name",
    sorted(torch_api.OPTIMIZERS | torch_api.RECURRENT | torch_api.GRAD_SCALERS
           | torch_api.DATASET_BASES | {n for n in torch_api.MODULE_BASES if n[:6] == "torch."}),
)  # fmt: skip
def test_class_exists(name):
    written = name.replace("torch.nn._", "torch.nn.modules.loss._")  # that nn does not export
    assert isinstance(find(written), type)
    assert canonical(written) == name


@pytest.mark.parametrize(
    "method",
    sorted(torch_api.TENSOR_NUMBER | torch_api.TENSOR_BOOL | torch_api.TENSOR_NONE
           | torch_api.TENSOR_FLAGS),
)  # fmt: skip
def test_tensors_have_it(method):
    if method in {"allclose", "equal", "is_pinned"} or hasattr(torch.Tensor, method):
        return
    assert hasattr(torch, method)


def test_no_method_of_a_tensor_is_missing():
    methods = {name for name in dir(torch.Tensor) if callable(getattr(torch.Tensor, name, None))}
    named = {name.rstrip("_") for name in methods if not name.startswith("_")}
    assert named <= torch_api.TENSOR_METHODS


@pytest.mark.parametrize("method", sorted(torch_api.MODULE_SELF))
def test_modules_give_themselves_back(method):
    if method != "to":  # overloaded: it has no annotation of its own
        assert typing.get_type_hints(getattr(torch.nn.Module, method))["return"] is Self
    assert hasattr(torch.nn.Module, method)

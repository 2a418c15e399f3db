"""Classes of a file: bases, methods, and what they keep in ``self``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from probing import HEAD, parsed

from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.analysis.classes import Class
    from torchlint.analysis.program import Program


def only_class(source: str) -> tuple[Program, Class]:
    program = parsed(source, HEAD)
    return program, list(program.classes)[-1]


@pytest.mark.parametrize(
    ("source", "module", "dataset"),
    [
        pytest.param("class A: pass", False, False, id="a class"),
        pytest.param("class A(nn.Module): pass", True, False, id="a module"),
        pytest.param("class A(nn.Sequential): pass", True, False, id="a container"),
        pytest.param("class A(nn.modules.loss._Loss): pass", True, False, id="a loss"),
        pytest.param(
            "from torch.nn.modules.loss import _WeightedLoss\nclass A(_WeightedLoss): pass",
            True,
            False,
            id="a loss with weights",
        ),
        pytest.param("from losses import _Loss\nclass A(_Loss): pass", False, False, id="any loss"),
        pytest.param("class B(nn.Module): pass\nclass A(B): pass", True, False, id="an heir"),
        pytest.param(
            "from torch.utils.data import Dataset\nclass Dataset(Dataset): pass",
            False,
            True,
            id="named as its base",
        ),
        pytest.param("class Model(Model): pass", False, False, id="named as nothing"),
        pytest.param("class B(A): pass\nclass A(B): pass", False, False, id="heirs of each other"),
        pytest.param(
            "from .base import BaseModel\nclass A(BaseModel): pass",
            True,
            False,
            id="a base of another file, by its name",
        ),
        pytest.param(
            "from transformers import BertForTokenClassification as B\nclass A(B): pass",
            True,
            False,
            id="a model of a library",
        ),
        pytest.param(
            "from torchvision.models.resnet import ResNet\nclass A(ResNet): pass",
            True,
            False,
            id="a model of torchvision",
        ),
        pytest.param(
            "from transformers import TFBertForMaskedLM as B\nclass A(B): pass",
            False,
            False,
            id="a model of TensorFlow",
        ),
        pytest.param(
            "from torchvision.models import ResNet18_Weights as B\nclass A(B): pass",
            False,
            False,
            id="weights",
        ),
        pytest.param("class A(Dataset): pass", False, True, id="a data set"),
        pytest.param(
            "from .d import ImageDataset\nclass A(ImageDataset): pass",
            False,
            True,
            id="a data set of another file",
        ),
        pytest.param(
            "class BaseModel: pass\nclass A(BaseModel): pass",
            False,
            False,
            id="a base of this file that is no module",
        ),
        pytest.param("class A(f()): pass", False, False, id="a base that is computed"),
    ],
)
def test_what_a_class_is(source: str, module: bool, dataset: bool) -> None:
    _, owner = only_class(source)
    assert (owner.is_module, owner.is_dataset) == (module, dataset)


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        pytest.param("self.x = 1", [("1", ())], id="plain"),
        pytest.param("self.x: int = 1", [("1", ())], id="annotated"),
        pytest.param("self.x: int", [(None, ())], id="only annotated"),
        pytest.param("self.x = self.y = 1", [("1", ())], id="chained"),
        pytest.param("self.x += 1", [("self.x += 1", ())], id="augmented"),
        pytest.param("a, self.x = f()", [("f()", (1,))], id="unpacked"),
        pytest.param("a, [b, self.x] = f()", [("f()", (1, 1))], id="unpacked twice"),
        pytest.param("for self.x in y: pass", [(None, ())], id="the target of a loop"),
        pytest.param("with y as self.x: pass", [(None, ())], id="with"),
        pytest.param("*self.x, a = f()", [(None, ())], id="starred"),
        pytest.param("self.x = 1\nself.x = 2", [("1", ()), ("2", ())], id="twice"),
        pytest.param("y = self.x", [], id="read"),
        pytest.param("self.x.y = 1", [], id="an attribute of it"),
        pytest.param("self.x[0] = 1", [], id="an item of it"),
        pytest.param("for i in self.x: pass", [], id="iterated"),
        pytest.param("with self.x as y: pass", [], id="entered"),
        pytest.param("other.x = 1", [], id="of another object"),
        pytest.param("def g(): self.x = 1", [("1", ())], id="in a function inside"),
    ],
)
def test_stores(body: str, stored: list[tuple[str | None, tuple[int, ...]]]) -> None:
    indented = body.replace("\n", "\n        ")
    program, owner = only_class(f"class A:\n    def f(self):\n        {indented}")
    found = program.classes.stores(owner, "x")
    assert [(s.value and program.code(s.value), s.path) for s in found] == stored
    assert all(store.method.name.value == "f" for store in found)


def test_lookups() -> None:
    program = parsed(
        "class A:\n    def f(self): self.x = 1\n    if a:\n        def g(self): pass\n"
        "class B(A):\n    def f(self): self.x = 2\n"
        "def h():\n    class C: pass\nself.x = 1"
    )
    classes = program.classes
    a, b = classes.named(".A"), classes.named(".B")
    assert a is not None
    assert b is not None
    assert [owner.name for owner in classes] == ["A", "B", "C"]
    assert classes.named("A") is classes.named(".C") is classes.get(None) is None
    assert classes.get(b.node) is b
    assert classes.lineage(b) == [b, a]
    assert classes.method(b, "f") is b.methods["f"]
    assert classes.method(b, "g") is a.methods["g"]
    assert classes.method(b, "nothing") is None
    assert len(classes.stores(b, "x")) == 2
    first = program.index.of(cst.Return) or program.index.of(cst.Integer)
    assert classes.around(first[0]) is a
    assert classes.around(program.module) is None


def test_classes_of_files_that_import_one_another(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from other import Base\nclass One(Base): pass\nclass Part: pass"
    )
    (tmp_path / "other.py").write_text(
        "import torch, one\nclass Base(torch.nn.Module): pass\nclass Other(one.Part): pass"
    )
    project = Project(Imports(tmp_path, lambda _: False))
    found = {
        owner.name: owner.is_module
        for name in ("one.py", "other.py")
        for owner in project.program(str(tmp_path / name)).classes
    }
    assert found == {"One": True, "Part": False, "Base": True, "Other": False}


@pytest.mark.parametrize(
    ("own", "home"),
    [
        pytest.param("def __init__(self): pass", "record.py", id="its own"),
        pytest.param("size = 3", "base.py", id="inherited"),
    ],
)
def test_the_constructor_that_a_class_of_another_file_runs(
    tmp_path: Path, own: str, home: str
) -> None:
    (tmp_path / "base.py").write_text("class Base:\n    def __init__(self): pass\n")
    (tmp_path / "record.py").write_text(f"from base import Base\nclass Record(Base):\n    {own}\n")
    (tmp_path / "train.py").write_text("from record import Record\nRecord()\n")
    project = Project(Imports(tmp_path, lambda _: False))
    found = project.function(project.program(str(tmp_path / "train.py")), "record.Record")
    assert found is not None
    assert found.program.path.name == home


def test_the_object_that_all_classes_extend() -> None:
    program, found = only_class("class A(object): pass")
    assert found.bases == ("object",)
    assert list(program.classes.outside(found)) == ["object"]
    assert only_class("from lib import object\nclass A(object): pass")[1].bases == ("lib.object",)
    assert only_class("class A(dict): pass")[1].bases == ("",)


@pytest.mark.parametrize(
    ("other", "base"),
    [
        pytest.param("torch.optim.Adam", "torch.optim.Optimizer", id="another of torch"),
        pytest.param("lib.Adam", "", id="another library's"),
    ],
)
def test_one_optimizer_or_another_as_a_base(other: str, base: str) -> None:
    source = f"""
    import lib
    def make(args):
        if args.sgd:
            kind = torch.optim.SGD
        else:
            kind = {other}
        class A(kind):
            def rate(self): return self.rates[0]
        return A(args.model.parameters())
    """
    assert only_class(source)[1].bases == (base,)

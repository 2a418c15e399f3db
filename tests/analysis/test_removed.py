"""Versions of torch that a file cannot run on, by what it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version
from probing import parsed

from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

TOP = """
def accuracy(output, target, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    pred = pred.t()
    correct = pred.eq(target.view(1, -1).expand_as(pred))
    return [correct[:k].view(-1).float().sum(0) for k in topk]
"""
TOTAL = """
criterion = torch.nn.CrossEntropyLoss()
total = 0
for x, y in batches:
    total += len(x) * criterion(x, y).data
print(total[0])
"""
TOTAL_OF_A_TRAINING = """
def f():
    total = 0
    for x in xs:
        loss = g(x)
        loss.backward()
        total += loss.data
        print(total[0])
        total = 0
"""
LOSS = """
class Loss(torch.nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.nll = torch.nn.NLLLoss2d(weight, False, 255)

    def forward(self, x, y):
        return self.nll(x, y)

criterion = Loss()
print(criterion(x, y).data[0])
"""
RESTARTS = """
def f(train_loader):
    it = iter(train_loader)
    for x in y:
        try:
            z = it.next()
        except:
            it = iter(train_loader)
            z = it.next()
"""
KEPT = """
class Trainer:
    def back(self):
        self.loss = self.criterion(self.output, self.target)
        self.loss.backward()

    def shown(self):
        return self.loss.data[0]
"""
OLD = "import torch\n\ndef f(loss):\n    loss.backward()\n    print(loss.data[0])\n"
HEAD = "import torch\nimport torchvision\nfrom torchvision import transforms\n"


def found(source: str, target: Version | None = None) -> tuple[str, str] | None:
    program = parsed(source, HEAD)
    program.target = target
    return None if program.limit is None else (str(program.limit.version), program.limit.code)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("loss.data[0]", id="a tensor with dimensions, perhaps"),
        pytest.param("loss.backward(ones)\nprint(loss.data[0])", id="a loss with dimensions"),
        pytest.param("print(x.sum(1).data[0])", id="a sum over one of the dimensions"),
        pytest.param("print(x.exp().data[0])", id="what may have dimensions"),
        pytest.param(
            "loss = torch.nn.MSELoss(reduction='none')(x, y)\nprint(loss.data[0])",
            id="a loss of each sample",
        ),
        pytest.param("total = 0\ntotal += x.data\nprint(total[0])", id="a total of vectors"),
        pytest.param(
            "total = zeros(1)\ntotal += x.mean().data\nprint(total[0])", id="a total of length 1"
        ),
        pytest.param("scipy.linalg.lstsq(a, b)\ntorch.linalg.lstsq(a, b)", id="the new place"),
        pytest.param("loss.backward()\nprint(loss.data[1])", id="no first element"),
        pytest.param(
            "a = torch.nn.Parameter(torch.ones(1))\nloss = f(x) + a\nloss.backward()\n"
            "print(a.data[0])",
            id="a variable of one element, added to a loss",
        ),
        pytest.param(
            "a = f(x)\nloss = a * g(x)\nloss.backward()\nprint(a.data[0])",
            id="a factor, which may have one element",
        ),
        pytest.param(
            "a = f(x)\nloss = g(a + 1)\nloss.backward()\nprint(a.data[0])",
            id="what a loss is computed of",
        ),
        pytest.param(
            "print(torch.nn.functional.nll_loss(x, y, reduce=False).data[0])",
            id="a loss of each sample, by the function",
        ),
        pytest.param(
            "c = torch.nn.NLLLoss2d(w, True, 255, False)\nprint(c(x, y).data[0])",
            id="a loss of each sample, by the order of the arguments",
        ),
        pytest.param("torch.nn.NLLLoss2d()(x, y)", id="deprecated, but still there"),
        pytest.param(LOSS.replace("self.nll(x, y)", "x - y"), id="a module that returns a tensor"),
        pytest.param("loss.backward()\nprint(loss.item())", id="read as it should be"),
        pytest.param("def f():\n    loss.backward()\nprint(loss.data[0])", id="another loss"),
        pytest.param(
            KEPT.replace("self.loss.backward()", "other.loss.backward()"), id="of another"
        ),
        pytest.param(KEPT.replace("backward()", "backward(ones)"), id="kept, with dimensions"),
        pytest.param(
            KEPT.replace("    def shown", "class B:\n    def shown"), id="in another class"
        ),
        pytest.param("Variable(x, volatile=True)", id="ignored with a warning"),
        pytest.param("torch.nn.utils.clip_grad_norm(p, 1)", id="deprecated, but there"),
        pytest.param("torch.nn.functional.upsample(x)", id="there for ever"),
        pytest.param("transforms.Resize(4), transforms.RandomResizedCrop(4)", id="the new names"),
        pytest.param("from albumentations import Scale\nScale(4)", id="another's name"),
        pytest.param("from torchtext.data import get_tokenizer", id="still there"),
        pytest.param(
            "try:\n    from torch._six import inf\nexcept ImportError:\n    from torch import inf",
            id="tried",
        ),
        pytest.param("if TORCH_MAJOR < 2:\n    from torch._six import inf", id="asked for"),
        pytest.param("from ._six import inf", id="the project's own"),
        pytest.param("assert torch.__version__ >= '1.8'", id="an old torch is refused"),
        pytest.param("assert torch.__version__ != '1.8'", id="one torch is refused"),
        pytest.param("if torch.__version__ < '1.8':\n    raise ValueError", id="one raises"),
        pytest.param("if torch.__version__ >= '2':\n    torch.f(x)", id="a new torch is used"),
        pytest.param(
            "if torch.__version__.startswith('1.8.'):\n    raise ValueError", id="a bad release"
        ),
        pytest.param("if legacy:\n    assert torch.__version__ < '2'", id="refused on request"),
        pytest.param("assert torchvision.__version__ < '0.9'", id="another package"),
        pytest.param("assert torch.__version__ < NEWEST", id="a version that is not seen"),
        pytest.param("torchvision.utils.make_grid(x, value_range=(0, 1))", id="the new argument"),
        pytest.param("numpy.histogram(x, bins=9, range=(0, 1))", id="another range"),
        pytest.param(f"{TOP}\naccuracy(output, target)", id="one row of what is transposed"),
        pytest.param(f"{TOP}\nother(output, target, (1, 5))", id="a view that nobody asks for"),
        pytest.param(
            f"{TOP.replace('view(-1).f', 'reshape(-1).f')}\naccuracy(output, target, (1, 5))",
            id="a copy of many rows",
        ),
        pytest.param(
            f"{TOP.replace('pred.t()', 'pred.t().contiguous()')}\naccuracy(output, target, (1, 5))",
            id="rows that lie together",
        ),
        pytest.param(
            f"{TOP}\ntry:\n    accuracy(output, target, (1, 5))\nexcept RuntimeError:\n    pass",
            id="tried out",
        ),
        pytest.param("from torch.utils.serialization import config", id="a module that is back"),
        pytest.param("from torch.utils.data.dataloader import default_collate", id="still public"),
        pytest.param("from torchvision.models.resnet import resnet18", id="a model"),
        pytest.param("from models.utils import load_lua\nload_lua(x)", id="of the project"),
        pytest.param("torch.fft.rfft(x), torch.fft.fft(x)", id="the functions of the module"),
        pytest.param("torch.stft(x, 64, return_complex=True)", id="numbers that are complex"),
        pytest.param("torch.stft(torch.complex(x, y), 64)", id="of complex numbers"),
        pytest.param("torch.stft(x, **options)", id="perhaps"),
        pytest.param("scipy.fft.rfft(x), numpy.linalg.solve(a, b)", id="functions of others"),
        pytest.param("steps = iter(loader)\nx = next(steps)", id="the next batch, as it should be"),
        pytest.param("steps = iter(names)\nx = steps.next()", id="the next of something else"),
        pytest.param("x = loader.next()", id="a loader of its own kind"),
        pytest.param(
            "class Sign(torch.autograd.Function):\n    @staticmethod\n"
            "    def forward(ctx, x):\n        return x",
            id="a static function of autograd",
        ),
        pytest.param("x = y.multinomial(1)", id="numbers that are drawn as often as it says"),
        pytest.param(
            "class Mine:\n    def multinomial(self):\n        pass\nx = y.multinomial()",
            id="drawn in its own way",
        ),
        pytest.param("for x in iter(loader):\n    y = x.next()", id="the next of a batch"),
        pytest.param("x, y = iter(loader)\nz = y.next()", id="the next of the second batch"),
        pytest.param(
            "steps = iter(loader)\nif x:\n    steps = other\nx = steps.next()",
            id="the next of another",
        ),
        pytest.param(
            "class Mine:\n    def next(self):\n        pass\nx = iter(loader).next()",
            id="iterators with such a method",
        ),
        pytest.param(
            "steps = iter(loader)\ntry:\n    x = steps.next()\n"
            "except AttributeError:\n    x = next(steps)",
            id="one or the other",
        ),
        pytest.param(
            "steps = iter(loader)\ntry:\n    x = next(steps)\nexcept Exception:\n"
            "    x = steps.next()",
            id="the other or one",
        ),
        pytest.param(
            "if torch.__version__ < '1.13':\n    x = iter(loader).next()", id="asked for first"
        ),
    ],
)
def test_runs_on_every_version(source: str) -> None:
    assert found(source) is None


@pytest.mark.parametrize(
    ("source", "version", "code"),
    [
        ("loss.backward()\nprint(loss.data[0])", "1.0", "loss.data[0]"),
        ("action = p.multinomial().data", "0.4", "p.multinomial()"),
        (
            "class Sign(torch.autograd.Function):\n    def forward(self, x):\n        return x",
            "1.5",
            "Sign.forward",
        ),
        ("def f(loss):\n    loss.backward()\n    return loss.data[0]", "1.0", "loss.data[0]"),
        (KEPT, "1.0", "self.loss.data[0]"),
        ("c.backward()\nprint(c.exp().data[0])", "1.0", "c.exp().data[0]"),
        ("print((-torch.mean(x)).data[0])", "1.0", "(-torch.mean(x)).data[0]"),
        ("a = x.mean()\nprint((a + 2 * x.sum()).data[0])", "1.0", "(a + 2 * x.sum()).data[0]"),
        (TOTAL, "1.0", "total[0]"),
        (TOTAL_OF_A_TRAINING, "1.0", "total[0]"),
        (
            "a = f(x)\nb = g(x)\nloss = a + 0.4 * b\nloss.backward()\nprint(b.data[0])",
            "1.0",
            "b.data[0]",
        ),
        (LOSS, "1.0", "criterion(x, y).data[0]"),
        (
            LOSS.replace("self.nll(x, y)", "torch.nn.functional.nll_loss(x, y)"),
            "1.0",
            "criterion(x, y).data[0]",
        ),
        (
            "loss.backward()\nprint(loss.data[0])\nVariable(x, volatile=True)",
            "0.4",
            "volatile=True",
        ),
        ("Variable(x.cuda(async=True), volatile=True)", "0.4", "volatile=True"),
        ("Variable(x.cuda(async=True), volatile=True)\ny.item()", "1.11", "async=True"),
        (
            "loss.backward()\nprint(loss.data[0])\nVariable(x, volatile=True)\ntorch.no_grad()",
            "1.0",
            "loss.data[0]",
        ),
        *(
            (f"assert {test}", end, test)
            for test, end in (
                ("torch.__version__.split('.')[0] == '1'", "2"),
                ("int(torch.__version__.split('.')[0]) < 2", "2"),
                ("torch.__version__[0] == '0'", "1"),
                ("torch.__version__ < '1.13'", "1.13"),
                ("torch.__version__ == '1.4.0'", "2"),
                ("torch.__version__.startswith('1.')", "2"),
            )
        ),
        ("if torch.__version__ >= '2':\n    raise E", "2", "torch.__version__ >= '2'"),
        (
            "if torch.__version__[0] != '1':\n    print(x)\n    raise E",
            "2",
            "torch.__version__[0] != '1'",
        ),
        ("torch.symeig(x, eigenvectors=True)", "2.0", "torch.symeig"),
        ("torch.solve(b, a)", "2.0", "torch.solve"),
        ("from torch._six import inf", "2.0", "torch._six"),
        ("import torch._six", "2.0", "torch._six"),
        ("x = torch._six.string_classes", "2.0", "torch._six"),
        ("from torchtext.data import Field", "1.8", "torchtext.data.Field"),
        (
            "from torchtext import data\ndata.BucketIterator()",
            "1.8",
            "torchtext.data.BucketIterator",
        ),
        ("from torchtext.legacy import data", "1.11", "torchtext.legacy"),
        ("from torchtext.legacy.data import Field", "1.11", "torchtext.legacy"),
        ("import torchtext.legacy.data as old\nold.Field()", "1.11", "torchtext.legacy"),
        ("transforms.Scale(4)", "1.11", "torchvision.transforms.Scale"),
        ("torchvision.transforms.Scale(4)", "1.11", "torchvision.transforms.Scale"),
        (f"{TOP}\naccuracy(output, target, topk=(1, 5))", "1.7", "correct[:k].view(-1)"),
        (f"{TOP}\naccuracy(output, target, (1, 3))", "1.7", "correct[:k].view(-1)"),
        (
            TOP.replace(".eq(target.view(1, -1).expand_as(pred))", " == target")
            + "\naccuracy(output, target, (1, 3))",
            "1.7",
            "correct[:k].view(-1)",
        ),
        ("from torch.utils.ffi import create_extension", "1.0", "torch.utils.ffi"),
        (
            "from torch.utils.serialization import load_lua",
            "1.0",
            "torch.utils.serialization.load_lua",
        ),
        ("import torch.legacy.nn as old", "1.0", "torch.legacy"),
        (
            "from torch.utils.data.dataloader import _DataLoaderIter",
            "1.2",
            "torch.utils.data.dataloader._DataLoaderIter",
        ),
        ("torch.potrf(x)", "1.2", "torch.potrf"),
        ("torch.gels(x, y)", "1.3", "torch.gels"),
        ("torch.irfft(torch.rfft(x, 1), 1)", "1.8", "torch.irfft"),
        ("torch.fft(x, 1)", "1.8", "torch.fft"),
        ("torch.stft(x, 64, hop_length=16)", "2.0", "torch.stft"),
        (
            "from torchvision.models.utils import load_state_dict_from_url",
            "1.10",
            "torchvision.models.utils",
        ),
        ("torch.matrix_rank(x)", "2.0", "torch.matrix_rank"),
        (
            "from torchvision.models.resnet import model_urls",
            "2.0",
            "torchvision.models.resnet.model_urls",
        ),
        ("x = iter(loader).next()", "1.13", "iter(loader).next()"),
        (
            "from torch.utils.data import DataLoader\ndb = DataLoader(d)\nx = iter(db).next()",
            "1.13",
            "iter(db).next()",
        ),
        (
            RESTARTS,
            "1.13",
            "it.next()",
        ),
        (
            "torchvision.utils.save_image(x, name, range=(-1, 1), normalize=True)",
            "1.13",
            "range=(-1, 1)",
        ),
    ],
)
def test_what_was_removed_ends_the_versions(source: str, version: str, code: str) -> None:
    assert found(source) == (version, code)


def test_the_first_removal_counts() -> None:
    source = "from torch._six import inf\nloss.backward()\nprint(loss.data[0])"
    assert found(source) == ("1.0", "loss.data[0]")


def test_what_is_declared_is_believed() -> None:
    assert found("from torch._six import inf", Version("2.1")) is None
    assert found("from torch._six import inf", Version("1.8")) is not None


def test_a_file_that_is_imported_ends_them_as_well(tmp_path: Path) -> None:
    (tmp_path / "misc.py").write_text("from torch._six import inf\n")
    (tmp_path / "main.py").write_text("import torch\nimport misc\n")
    (tmp_path / "other.py").write_text("import torch\n")
    project = Project(Imports(tmp_path, lambda _: False))
    main, other = (project.program(str(tmp_path / f"{name}.py")) for name in ("main", "other"))
    assert main is not None
    assert other is not None
    assert main.limit is not None
    assert not main.reaches(Version("2.0"))
    assert main.reaches(Version("1.13"))
    assert other.reaches(Version("2.0"))


def test_what_runs_with_a_file_counts_however_many_import_it(tmp_path: Path) -> None:
    (tmp_path / "misc.py").write_text("from torch._six import inf\n")
    for number in range(40):
        (tmp_path / f"main{number}.py").write_text("import torch\nimport misc\n")
    main = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "main0.py"))
    assert main is not None
    assert not main.reaches(Version("2.0"))


def test_a_step_that_asks_a_helper_for_many_rows_of_a_transposed_tensor(tmp_path: Path) -> None:
    (tmp_path / "misc.py").write_text(f"import torch\n{TOP}")
    (tmp_path / "main.py").write_text("from misc import accuracy\naccuracy(o, t, topk=(1, 5))\n")
    (tmp_path / "other.py").write_text("from misc import accuracy\naccuracy(o, t)\n")
    project = Project(Imports(tmp_path, lambda _: False))
    main, other = (project.program(str(tmp_path / f"{name}.py")) for name in ("main", "other"))
    assert main is not None
    assert other is not None
    assert not main.reaches(Version("1.7"))
    assert not other.reaches(Version("1.7")), "it is run on the torch that runs the other script"


@pytest.mark.parametrize("value", ["True", "fast"])
def test_a_keyword_of_python_36_says_where_the_file_itself_ends(value: str) -> None:
    limit = parsed(f"import torch\nx = y.cuda(async={value})\n").limit
    assert limit is not None
    assert (limit.version, limit.code) == (Version("1.11"), f"async={value}")


def test_a_comment_with_that_keyword_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "misc.py").write_text("import torch\nx = 1  # y.cuda(async=True)\n")
    (tmp_path / "main.py").write_text("import misc\n")
    main = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "main.py"))
    assert main is not None
    assert main.limit is None


def test_what_shares_a_file_with_such_a_step_runs_on_the_same_torch(tmp_path: Path) -> None:
    (tmp_path / "misc.py").write_text("import torch\n")
    (tmp_path / "old.py").write_text("import misc\nx = y.cuda(async=True)\n")
    (tmp_path / "main.py").write_text("import misc\n")
    (tmp_path / "apart.py").write_text("import torch\n")
    project = Project(Imports(tmp_path, lambda _: False))
    main, apart = (project.program(str(tmp_path / f"{name}.py")) for name in ("main", "apart"))
    assert main is not None
    assert apart is not None
    assert main.limit is not None
    assert main.limit.code == "async=True"
    assert main.reaches(Version("1.10"))
    assert not main.reaches(Version("1.11"))
    assert apart.limit is None


@pytest.mark.parametrize("call", ["torch.symeig(x)", "torch.rfft(x, 1)", "iter(loader).next()"])
def test_what_only_a_part_calls_ends_them_for_what_imports_that_part(
    tmp_path: Path, call: str
) -> None:
    (tmp_path / "kfac.py").write_text(f"import torch\n\ndef f(x, loader):\n    return {call}\n")
    (tmp_path / "acktr.py").write_text("import torch\nimport kfac\n")
    (tmp_path / "main.py").write_text("import torch\nimport acktr\n")
    project = Project(Imports(tmp_path, lambda _: False))
    acktr, main = (project.program(str(tmp_path / f"{name}.py")) for name in ("acktr", "main"))
    assert acktr is not None
    assert main is not None
    assert not acktr.reaches(Version("2.0"))
    assert main.reaches(Version("2.0")), "it may choose another part"


def project_limit(folder: Path, readme: str, **texts: str) -> str | None:
    """Where the versions of ``main.py`` end, in a project of files that import none of it."""
    (folder / "README.md").write_text(readme)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    program = Project(Imports(folder, lambda _: False)).program(str(folder / "main.py"))
    assert program is not None
    return None if program.limit is None else str(program.limit.version)


TRAINS = "def f(loss):\n    loss.backward()\n"


@pytest.mark.parametrize(
    ("readme", "texts"),
    [
        pytest.param("", {"old": OLD, "main": TRAINS}, id="nothing is stated, and one is old"),
        pytest.param("PyTorch 1.4", {"old": OLD, "main": TRAINS}, id="a later torch"),
        pytest.param("PyTorch >= 0.4.0", {"old": OLD, "main": TRAINS}, id="the lowest"),
        pytest.param("PyTorch 0.4 or PyTorch 1.0", {"old": OLD, "main": TRAINS}, id="both"),
        pytest.param("PyTorch 0.4.1", {"main": TRAINS, "other": TRAINS}, id="no file that is old"),
        pytest.param(
            "PyTorch 0.2.0", {"old": OLD, "main": f"{TRAINS}    loss.item()\n"}, id="mended since"
        ),
        pytest.param(
            "",
            {"old": OLD, "older": OLD, "a": TRAINS, "main": TRAINS},
            id="half of what trains is not",
        ),
    ],
)
def test_an_old_sibling_that_says_nothing_of_a_file(
    tmp_path: Path, readme: str, texts: dict[str, str]
) -> None:
    assert project_limit(tmp_path, readme, **texts) is None


@pytest.mark.parametrize(
    ("readme", "texts", "version"),
    [
        ("Needs PyTorch 0.4.1", {"old": OLD, "main": TRAINS}, "1.0"),
        ("PyTorch 0.2.0", {"old": f"{OLD}Variable(x, volatile=True)\n", "main": TRAINS}, "0.4"),
        ("", {"old": OLD, "older": OLD, "main": TRAINS}, "1.0"),
    ],
)
def test_an_old_sibling_ends_the_versions_of_a_file(
    tmp_path: Path, readme: str, texts: dict[str, str], version: str
) -> None:
    assert project_limit(tmp_path, readme, **texts) == version


def test_an_old_sibling_in_another_tree_than_the_readme(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(OLD)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "README.md").write_text("PyTorch 0.4.1")
    (tmp_path / "part" / "main.py").write_text(TRAINS)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "part/main.py"))
    assert program is not None
    assert program.limit is None

"""TL601: optimizers that could update in one kernel, and fused ones that lose it or go wrong."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
import torch
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

if TYPE_CHECKING:
    from pathlib import Path

CODE = "TL601"

SCRIPT = """
import torch
{head}
model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)]).cuda()
optimizer = torch.optim.{made}
for x in data:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


def script(made: str = "AdamW(model.parameters(), lr=0.1)", head: str = "", tail: str = "") -> str:
    return SCRIPT.format(made=made, head=head) + tail


def on_cpu(made: str = "AdamW(model.parameters(), lr=0.1)") -> str:
    return script(made).replace(".cuda()", "")


@pytest.mark.parametrize(
    "line",
    [
        "train(model, optimizer)",
        "step = optimizer.step",
        "state.append(optimizer)",
        "o = optimizer",
    ],
)
def test_who_gets_the_optimizer_may_step_it(line: str) -> None:
    assert check(script().replace("optimizer.step()", line), CODE)


def test_a_file_that_imports_the_optimizer_may_step_it(tmp_path):
    files = {"made.py": script().replace("optimizer.step()", "pass")}
    assert not check_in(tmp_path, files, "made.py", CODE)
    files["run.py"] = "from made import optimizer\noptimizer.step()\n"
    assert check_in(tmp_path, files, "made.py", CODE)


RESUME = """\
import torch

def resume(model, optimizer, path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
"""


@pytest.mark.parametrize(
    ("back", "call", "found"),
    [
        pytest.param("saved", "resume(model, optimizer, path)", 0, id="only loads"),
        pytest.param(
            "model, optimizer", "model = resume(model, optimizer, path)[0]", 0, id="takes the model"
        ),
        pytest.param(
            "model, optimizer", "o = resume(model, optimizer, path)[1]", 1, id="takes the optimizer"
        ),
        pytest.param(
            "model, optimizer", "model, o = resume(model, optimizer, path)", 1, id="takes both"
        ),
        pytest.param("optimizer.step()", "resume(model, optimizer, path)", 1, id="steps"),
        pytest.param("go(optimizer)", "resume(model, optimizer, path)", 1, id="hands it on"),
    ],
)
def test_an_optimizer_that_a_function_only_loads(
    tmp_path: Path, back: str, call: str, found: int
) -> None:
    main = script(head="from resuming import resume").replace("optimizer.step()", call)
    files = {"resuming.py": f"{RESUME}    return {back}\n", "run.py": main}
    assert len(check_in(tmp_path, files, "run.py", CODE)) == found


def test_another_optimizer_of_the_name_is_another() -> None:
    source = script().replace("optimizer.step()", "optimizer.load_state_dict(saved)")
    assert not check(source, CODE)
    train = "def train(optimizer):\n    optimizer.step()\n"
    assert not check(source + train, CODE)
    assert check(source + train + "train(optimizer)\n", CODE)


# -- what is left alone -----------------------------------------------------------------------

P = "model.parameters()"
SCALER = "scaler = torch.amp.GradScaler('cuda')"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(f"RMSprop({P})"), id="no fused kernel"),
        pytest.param(script(head="from torch._six import inf"), id="code for torch 1"),
        pytest.param(script(f"Adadelta({P})"), id="no fused kernel either"),
        pytest.param(script(f"AdamW({P}, fused=True)"), id="fused"),
        pytest.param(script(f"AdamW({P}, fused=fused)"), id="a variable decides"),
        pytest.param(script(f"AdamW({P}, foreach=True)"), id="refuses fused beside foreach"),
        pytest.param(script(f"Adagrad({P}, 0.1, 0, 0, 0, 1e-9, True)"), id="foreach by position"),
        pytest.param(script(f"AdamW({P}, differentiable=True)"), id="differentiable"),
        pytest.param(script(f"AdamW({P}, **options)"), id="the arguments are not known"),
        pytest.param(script(f"Adagrad(*{P})"), id="the arguments are not known: a star"),
        pytest.param(script(f"AdamW({P}, foreach=None)"), id="the default, in so many words"),
        pytest.param(
            script(f"AdamW({P}, **kw)", head="kw = dict(fused=use_cuda)"), id="in a dictionary"
        ),
        pytest.param(
            script(f"AdamW({P}, fused=False  # bitwise equal to the reference\n)"),
            id="False with a reason",
        ),
        pytest.param(script(f"SGD({P}, 0.1, 0.9)"), id="few kernels for SGD"),
        pytest.param(
            script(f"SGD({P}, 0.1, 0.9, foreach=False)", head=SCALER), id="momentum and a scaler"
        ),
        pytest.param(
            script(f"SGD({P}, momentum=args.m, foreach=False)", head=SCALER),
            id="perhaps momentum, and a scaler",
        ),
        pytest.param(
            script(f"SGD({P}, momentum=0.9, foreach=False)", head="dtype = torch.float16"),
            id="momentum and float16: the scaler may be elsewhere",
        ),
        pytest.param(script(f"Adagrad({P})"), id="Adagrad on a GPU: not before 2.13"),
        pytest.param(on_cpu(), id="on the CPU of an unknown version"),
        pytest.param(
            script().replace("optimizer.step()", "optimizer.load_state_dict(saved)"),
            id="made to load its state",
        ),
        pytest.param(script(head="import torch_xla"), id="another device"),
        pytest.param(script(head="from torch.distributed.fsdp import fully_shard"), id="FSDP"),
        pytest.param(script(head="from apex import amp"), id="apex wraps the optimizer"),
        pytest.param(script(head="import torch.distributed.rpc"), id="the parameters are remote"),
        pytest.param(
            script(tail="optimizer.step = torch.compile(optimizer.step)\n"), id="compiled"
        ),
        pytest.param(script(head="dtype = torch.complex64"), id="complex parameters"),
        pytest.param(
            script(tail="def test_it():\n    torch.optim.Adam(model.parameters())\n").replace(
                "AdamW", "NAdam"
            ),
            id="a test",
        ),
        pytest.param(
            script(head="e = torch.nn.Embedding(9, 4, sparse=True)"), id="sparse gradients"
        ),
        pytest.param(script(tail="model.cuda()\n"), id="the model is moved later"),
        pytest.param(script().replace("optim.AdamW", "other.AdamW"), id="not torch's"),
        pytest.param(
            """
            import torch

            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = torch.nn.Sequential(*layers)
                    self.optimizer = torch.optim.Adam(params=self.parameters())

            model = Net().to("cuda")
            """,
            id="made by the model that is moved later",
        ),
        pytest.param(
            """
            import torch
            from helpers import split

            model = build()
            decayed, others = split(model)
            optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others}])
            model = model.to("cuda")
            """,
            id="parameters by a helper function of a model that is moved later",
        ),
        pytest.param(
            """
            import torch

            model = build()
            biases, others = list(), []
            for name, param in model.named_parameters():
                if name.endswith("bias"):
                    biases.append(param)
                else:
                    others.append(param)
            groups = [{"params": biases, "lr": 0.2}, {"params": others}]
            optimizer = torch.optim.SGD(groups, lr=0.1)
            model = model.to("cuda")
            """,
            id="parameters in lists, of a model that is moved later",
        ),
        pytest.param(
            """
            import torch

            def train(net, optimizer):
                net.to("cuda")
                for x in data:
                    net(x.cuda()).sum().backward()
                    optimizer.step()

            model = build()
            train(model, torch.optim.AdamW(model.parameters()))
            """,
            id="moved by the function that it is passed to",
        ),
        pytest.param(
            """
            import torch

            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.AdamW(self.model.parameters())

                def fit(self):
                    self.model.to("cuda")
            """,
            id="moved by another method",
        ),
        pytest.param(
            """
            import torch

            class Trainer:
                def __init__(self, model, x):
                    x.cuda()
                    self.model = model
                    self.optimizer = torch.optim.AdamW(self.model.parameters())

                def prepare(self):
                    move = lambda model: model.cuda()
                    self.model = move(self.model)
            """,
            id="moved by a lambda in another method",
        ),
        pytest.param(
            """
            import torch

            def configure(net):
                return torch.optim.AdamW(net.parameters())

            model = build()
            optimizer = configure(model)
            model.cuda()
            """,
            id="made by a function before the model is moved",
        ),
        pytest.param(
            """
            import torch

            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = torch.nn.Sequential(*layers)
                    self.step = torch.nn.Parameter(torch.zeros(1).long(), requires_grad=False)

            model = Net().cuda()
            optimizer = torch.optim.Adam(model.parameters())
            """,
            id="a step counter among the parameters",
        ),
        pytest.param(
            """
            import torch

            class Mine(torch.optim.AdamW):
                pass

            optimizer = Mine(torch.nn.Linear(4, 2).cuda().parameters())
            """,
            id="a class of its own",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


ASKED = """
import torch

class Net(torch.nn.Module):
    def make_optimizer(self):
        params = [{"params": [one], "lr": 0.1} for one in self.parameters()]
        return torch.optim.Adam(params)

class Trainer(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = MADE
        self.optimizer = self.net.make_optimizer()

trainer = Trainer(Net()).cuda()
"""


@pytest.mark.parametrize(
    ("made", "tail", "count"),
    [
        ("net", "", 0),
        ("net.cuda()", "", 1),
        ("net", "optimizer = trainer.net.make_optimizer()", 1),
    ],
)
def test_asked_for_by_the_constructor_of_a_module(made: str, tail: str, count: int) -> None:
    assert len(check(ASKED.replace("MADE", made) + tail, CODE)) == count


KEPT = """
import torch

class Learner:
    def start(self, net, critic, device):
        self.net, self.critic = net, critic
        {before}
        self.params = list(self.net.parameters())
        self.params += list(self.critic.parameters())
        self.optimizer = torch.optim.Adam(self.params)
        {after}

    def resume(self, old):
        self.others = list(old.parameters())
        old.to("cuda")
"""


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        pytest.param("pass", "self.net.to('cuda')", 0, id="after the optimizer is made"),
        pytest.param("pass", "self.critic.to('cuda')", 0, id="added to the list"),
        pytest.param("pass", "if gpu:\n            self.net.cuda()", 0, id="on a condition"),
        pytest.param("self.net.cuda()", "self.critic.to('cpu')", 1, id="before it is made"),
        pytest.param("pass", "self.teacher.cuda()", 1, id="another model"),
        pytest.param("self.other = list(old.parameters())", "old.cuda()", 1, id="another list"),
        pytest.param("pass", "self.params = list(old.parameters())\n        old.cuda()", 1,
                     id="another list afterwards"),
    ],
)  # fmt: skip
def test_parameters_that_an_object_keeps_of_a_model_that_is_moved_later(before, after, count):
    source = KEPT.replace("{before}", before).replace("{after}", after)
    assert len(check(source, CODE)) == count


SMALL = """
import itertools, torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

class Probe(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.linear = nn.Linear(dim, 10)
        nn.init.zeros_(self.linear.weight)
        self.linear.bias.data.zero_()

    def forward(self, x):
        return self.linear(x.view(len(x), -1))

class Words(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.other = nn.Embedding(9, dim), nn.Embedding(9, dim)
        self.probe = Probe(dim)

class Twice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.words, self.probe = Words(dim), Probe(dim)

class Itself(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner = Itself(dim - 1)

class Blocks(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(dim, dim) for _ in range(9)])

class Wide(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

class Built(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = build(dim)

image = torch.rand(1, 3, 8, 8, device="cuda", requires_grad=True)
probe = Probe(4).cuda()
wrapped = DistributedDataParallel(probe)
optimizer = optim.Adam({given})
for x in data:
    optimizer.zero_grad()
    probe(x.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("[image]", id="an image"),
        pytest.param("[image.requires_grad_()], lr=1", id="an image by a call"),
        pytest.param("(latent, noise)", id="two codes"),
        pytest.param("probe.parameters()", id="one layer"),
        pytest.param("wrapped.parameters()", id="one layer, wrapped"),
        pytest.param("torch.compile(Words(4).cuda()).parameters()", id="a part of its own class"),
        pytest.param("nn.SyncBatchNorm.convert_sync_batchnorm(probe).parameters()", id="converted"),
        pytest.param("nn.Linear(8, 2).cuda().parameters()", id="a layer of torch"),
        pytest.param("nn.Sequential(nn.Linear(8, 2), nn.ReLU()).parameters()", id="and another"),
        pytest.param("filter(lambda p: p.requires_grad, probe.parameters())", id="filtered"),
        pytest.param("list(probe.parameters())", id="in a list"),
        pytest.param("itertools.chain(probe.parameters(), wrapped.parameters())", id="twice"),
    ],
)
def test_is_silent_for_a_few_tensors(given):
    silent(SMALL.replace("{given}", given), CODE)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("Wide(4).parameters()", id="more layers"),
        pytest.param("Twice(4).parameters()", id="parts of its own classes with more"),
        pytest.param("Itself(4).parameters()", id="a class that has itself as a part"),
        pytest.param("Blocks(4).parameters()", id="as many as somebody says"),
        pytest.param("Built(4).parameters()", id="built by somebody"),
        pytest.param("nn.Sequential(*layers).parameters()", id="built of somebody's layers"),
        pytest.param("nn.LSTM(4, 4, 2).parameters()", id="a layer with many"),
        pytest.param("other.Net().parameters()", id="an unknown model"),
        pytest.param("params", id="unknown parameters"),
        pytest.param("[image, *noises]", id="a list with more"),
        pytest.param("[{'params': probe.parameters()}]", id="groups"),
        pytest.param("list(probe.parameters()) + others", id="some more"),
        pytest.param("list(probe.parameters()) + list(Wide(4).parameters())", id="two models"),
        pytest.param("probe.parameters(), foreach=False, fused=False", id="asked for"),
    ],
)
def test_reports_what_may_be_many(given):
    (_,) = check(SMALL.replace("{given}", given), CODE)


FROZEN = """
import torch

def main(model, teacher):
    model.cuda()
    {before}
    few, many = [], []
    for name, param in model.named_parameters():
        {each}
        if name in ("fc.weight", "fc.bias"):
            few.append(param)
        else:
            many.append(param)
    optimizer = torch.optim.Adam([{"params": few}], lr=0.1)
    {after}
"""


@pytest.mark.parametrize(
    ("before", "each", "after", "count"),
    [
        pytest.param("pass", "pass", "pass", 1, id="not frozen"),
        pytest.param("model.requires_grad_(False)", "pass", "pass", 0, id="all of it"),
        pytest.param("pass", "param.requires_grad = False", "pass", 0, id="one by one"),
        pytest.param("teacher.requires_grad_(False)", "pass", "pass", 1, id="another model"),
        pytest.param("model.requires_grad_(True)", "pass", "pass", 1, id="thawed"),
        pytest.param("pass", "pass", "model.requires_grad_(False)", 1, id="afterwards"),
    ],
)
def test_a_model_that_is_frozen_leaves_few(before, each, after, count):
    values = {"{before}": before, "{each}": each, "{after}": after}
    source = FROZEN
    for place, value in values.items():
        source = source.replace(place, value)
    assert len(check(source, CODE)) == count


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(script(), "1.13", id="no fused AdamW"),
        pytest.param(script(f"SGD({P})"), "2.2", id="no fused SGD"),
        pytest.param(script(f"Adagrad({P})"), "2.12", id="no fused Adagrad on CUDA"),
        pytest.param(on_cpu(), "2.3", id="no fused kernel on the CPU"),
        pytest.param(
            on_cpu().partition("for x")[0],
            "2.13",
            id="on the CPU, and nothing is trained here",
        ),
        pytest.param(
            on_cpu(f"Adagrad({P})") + "apple = torch.device('mps')\n", "2.13", id="none for MPS"
        ),
        pytest.param(
            on_cpu(f"SGD({P})") + "apple = torch.device('mps')\n", "2.4", id="not yet for MPS"
        ),
    ],
)
def test_is_silent_on_versions_without_the_kernel(source, target):
    silent(source, CODE, target)


# -- what is reported -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "since"),
    [
        (f"Adam({P})", "2.0"),
        (f"AdamW(params={P}, lr=0.1, weight_decay=0.01)", "2.0"),
        (f"SGD({P}, lr=0.1, foreach=False)", "2.3"),
        (f"SGD({P}, lr=0.1, momentum=0.9, foreach=False)", "2.3"),
        (f"SGD({P}, lr=0.1, momentum=args.momentum, foreach=False)", "2.3"),
    ],
)
def test_reports(made, since):
    [one] = check(script(made), CODE)
    assert (one.location.row, one.severity) == (5, Severity.INFO)
    assert f"from torch {since} on" in one.message
    assert one.fix is not None
    assert one.fix.safety is Safety.UNSAFE
    [one] = check(script(made), CODE, "2.13")
    assert "from torch" not in one.message


@pytest.mark.parametrize(
    ("body", "made", "target"),
    [
        pytest.param(
            "self.step = torch.nn.Parameter(torch.zeros(1).long(), requires_grad=False)",
            "",
            "2.5",
            id="a counter that fused kernels take",
        ),
        pytest.param(
            "self.step = torch.nn.Parameter(torch.zeros(1))", "", None, id="a floating number"
        ),
        pytest.param("self.to('cuda')", "self", None, id="moved in the constructor"),
    ],
)
def test_a_model_that_keeps_its_own(body, made, target):
    optimizer = "torch.optim.Adam({}.parameters())"
    source = f"""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*layers)
            {body}
            {"self.optimizer = " + optimizer.format("self") if made else "pass"}

    model = Net().cuda()
    {"pass" if made else "optimizer = " + optimizer.format("model")}
    """
    [_] = check(source, CODE, target)


def test_parameters_by_a_helper_function_of_a_model_that_was_moved():
    source = """
    import torch
    from helpers import split

    model = build().to("cuda")
    decayed, others = split(model)
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others}])
    """
    [_] = check(source, CODE)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """
            import torch

            model = build().to("cuda")
            biases = []
            for name, param in model.named_parameters():
                biases.append(param)
            optimizer = torch.optim.Adam([{"params": biases, "lr": 0.2}], lr=0.1)
            model.to("cpu")
            """,
            id="in lists, of a model that was moved, and goes back to be saved",
        ),
        pytest.param(
            """
            import torch

            def train(net, optimizer):
                net.train()

            model = build().to("cuda")
            train(model, torch.optim.AdamW(model.parameters()))
            """,
            id="passed to a function that does not move it",
        ),
        pytest.param(
            """
            import torch

            class Trainer:
                def __init__(self, model):
                    self.model = model.cuda()
                    self.other = build()
                    self.optimizer = torch.optim.AdamW(self.model.parameters())

                def fit(self):
                    self.other.to("cuda")
            """,
            id="another model is moved by another method",
        ),
        pytest.param(
            """
            import torch

            class Trainer:
                def __init__(self, model, x):
                    x.cuda()
                    self.model = model
                    self.optimizer = torch.optim.AdamW(self.model.parameters())

                def prepare(self):
                    count = lambda model: len(model)
                    self.size = count(self.model)
            """,
            id="another method hands it to what does not move it",
        ),
        pytest.param(
            """
            import torch

            def configure(net):
                return torch.optim.AdamW(net.parameters())

            model = build()
            model.cuda()
            optimizer = configure(model)
            """,
            id="made by a function after the model was moved",
        ),
    ],
)
def test_a_model_that_was_moved_before(source):
    (_,) = check(source, CODE)


BUILDER = """
import torch

def build_optimizer(model, momentum=0.9):
    return torch.optim.{made}
"""
TRAINING = """
import torch
from builder import build_optimizer

def main(model, loader):
    optimizer = build_optimizer(model.cuda())
    {wrap}
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""
SCALES = "scaler = torch.amp.GradScaler('cuda')"


@pytest.mark.parametrize(
    ("made", "wrap", "count"),
    [
        pytest.param(f"AdamW({P})", "pass", 1, id="used as it is"),
        pytest.param(
            f"AdamW({P})", "optimizer = hvd.DistributedOptimizer(optimizer)", 0, id="Horovod"
        ),
        pytest.param(
            f"AdamW({P})", "model, optimizer = amp.initialize(model, optimizer)", 0, id="apex"
        ),
        pytest.param(
            f"SGD({P}, momentum=momentum, foreach=False)", SCALES, 0, id="momentum and a scaler"
        ),
        pytest.param(f"SGD({P}, foreach=False)", SCALES, 1, id="a scaler, and no momentum"),
        pytest.param(
            f"SGD({P}, momentum=momentum, foreach=False)", "pass", 1, id="momentum, no scaler"
        ),
    ],
)
def test_who_uses_what_a_builder_makes(tmp_path, made, wrap, count):
    files = {"builder.py": BUILDER.format(made=made), "main.py": TRAINING.format(wrap=wrap)}
    assert len(check_in(tmp_path, files, "builder.py", CODE)) == count


@pytest.mark.parametrize(
    ("head", "made", "code"),
    [
        pytest.param(
            "def configure(model, options)",
            "AdamW(model.parameters())",
            "next(model.parameters()).is_cuda or None",
            id="a function is given the model",
        ),
        pytest.param(
            "def configure(model, params)",
            "AdamW(params)",
            "torch.cuda.is_available()",
            id="a function is given the parameters",
        ),
        pytest.param(
            "def configure(a, b)",
            "AdamW([*a.parameters(), *b.parameters()])",
            "torch.cuda.is_available()",
            id="two models",
        ),
    ],
)
def test_the_model_at_hand_is_asked(head, made, code):
    source = f"""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"

    {head}:
        return torch.optim.{made}
    """
    assert f"fused={code}" in fixed(source, CODE)


def test_a_module_that_makes_its_optimizer_asks_itself():
    source = """
    import torch

    class GPT(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])

        def configure(self, lr):
            named = {name: p for name, p in self.named_parameters()}
            groups = [{"params": [named[name] for name in sorted(named)]}]
            return torch.optim.AdamW(groups, lr=lr)

    gpu = torch.cuda.is_available()
    optimizer = GPT().configure(0.1)
    """
    after = fixed(source, CODE)
    assert "lr=lr, fused=next(self.parameters()).is_cuda or None)" in after
    exec(compile(after, "snippet.py", "exec"), {})  # noqa: S102 - our own text


@pytest.mark.parametrize(
    ("move", "value"),
    [
        pytest.param(
            "self.net = net.to(device)", "next(self.net.parameters()).is_cuda or None", id="given"
        ),
        pytest.param("self.net = net.cuda()", "True", id="on the GPU"),
        pytest.param(
            "self.net = net\n            if cuda:\n                self.net.cuda()",
            "next(self.net.parameters()).is_cuda or None",
            id="on the GPU, perhaps",
        ),
    ],
)
def test_a_model_that_an_object_keeps_is_asked(move, value):
    source = f"""
    import torch

    class Agent:
        def __init__(self, device, cuda):
            net = torch.nn.Transformer(64)
            {move}
            self.optimizer = torch.optim.Adam(self.net.parameters())

    def move(x):
        return x.cuda()
    """
    assert f"fused={value}" in fixed(source, CODE)


def test_what_is_moved_elsewhere_says_nothing_of_the_model():
    source = """
    import torch

    def make(model, lr):
        return torch.optim.Adam(model.parameters(), lr=lr)

    for x in data:
        x = x.cuda()
    """
    assert "fused=next(model.parameters()).is_cuda or None,\n" in fixed(source, CODE)


def test_sgd_without_momentum_has_nothing_to_lose():
    [_] = check(script(f"SGD({P}, foreach=False, momentum=0)", head=SCALER), CODE)
    [_] = check(script(f"Adam({P})", head=SCALER), CODE)
    made = f"SGD({P}, foreach=False, momentum=0.9)"
    [_] = check(script(made, head="dtype = torch.bfloat16"), CODE)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_on_the_cpu(kind):
    [found] = check(on_cpu(f"{kind}({P})"), CODE, "2.4")
    assert "on the CPU" in found.message


def test_adagrad():
    [found] = check(script(f"Adagrad({P})"), CODE, "2.13")
    assert found.fix is not None


@pytest.mark.parametrize("argument", ["foreach=False", "fused=False"])
def test_told_not_to(argument):
    [found] = check(script(f"AdamW({P}, {argument})"), CODE)
    assert argument in found.message


LIGHTNING = """
import torch
import {library}

class Net({library}.LightningModule):
    def forward(self, x):
        return self.model(x.cuda())

    def {method}(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("main", "library", "method", "count"),
    [
        pytest.param(
            "Trainer(gradient_clip_val=1.0)", "lightning", "configure_optimizers", 0, id="clipped"
        ),
        pytest.param(
            "gradient_clip_val: float = 0",
            "pytorch_lightning",
            "configure_optimizers",
            0,
            id="an option of another file",
        ),
        pytest.param("Trainer()", "lightning", "configure_optimizers", 1, id="never clipped"),
        pytest.param(
            "Trainer(gradient_clip_val=1.0)", "lightning", "parts", 1, id="not Lightning's to step"
        ),
        pytest.param(
            "Trainer(gradient_clip_val=1.0)", "other", "configure_optimizers", 1, id="not Lightning"
        ),
    ],
)
def test_lightning_refuses_a_fused_optimizer_where_it_clips(tmp_path, main, library, method, count):
    files = {"net.py": LIGHTNING.format(library=library, method=method), "main.py": main}
    assert len(check_in(tmp_path, files, "net.py", CODE)) == count


def test_lightning_clips_in_the_same_file():
    net = LIGHTNING.format(library="lightning", method="configure_optimizers")
    silent(f"{net}\ntrainer = lightning.Trainer(gradient_clip_val=1.0)\n", CODE)


def test_advice_under_a_framework():
    [found] = check(script(head="import lightning"), CODE)
    assert (found.fix, found.severity) == (None, Severity.INFO)
    assert "Lightning" in found.help


# -- what the fix writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "becomes"),
    [
        (f"AdamW({P}, lr=0.1)", f"AdamW({P}, lr=0.1, fused=True)"),
        (f"AdamW({P})", f"AdamW({P}, fused=True)"),
        (f"AdamW({P}, **kw)", f"AdamW({P}, fused=True, **kw)"),
        (f"AdamW({P}, foreach=False)", f"AdamW({P}, fused=True)"),
        (f"AdamW({P}, fused=False)", f"AdamW({P}, fused=True)"),
        (
            f"AdamW(\n    {P},  # all\n    lr=0.1,\n)",
            f"AdamW(\n    {P},  # all\n    lr=0.1,\n    fused=True,\n)",
        ),
    ],
)
def test_fixes(made, becomes):
    head = "kw = {'lr': 0.1}"
    assert fixed(script(made, head), CODE) == script(becomes, head)


DEVICE = """
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.Adam(model.parameters())
"""


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        pytest.param(DEVICE, None, 'device.type == "cuda"', id="asks the device"),
        pytest.param(DEVICE, "2.3", 'device.type == "cuda"', id="no kernel on the CPU"),
        pytest.param(DEVICE, "2.4", "True", id="a kernel on the CPU as well"),
        pytest.param(
            DEVICE.replace("torch.device(", "("), None, "torch.cuda.is_available()", id="a string"
        ),
        pytest.param(
            DEVICE + "apple = torch.device('mps')\n", "2.4", 'device.type == "cuda"', id="MPS, 2.4"
        ),
        pytest.param(DEVICE + "apple = torch.device('mps')\n", "2.5", "True", id="MPS, 2.5"),
        pytest.param(
            DEVICE + "there = torch.accelerator.is_available()\n", None, "True", id="2.6 at least"
        ),
    ],
)
def test_where_it_may_run_without_a_gpu(source, target, value):
    expected = source.replace("parameters())", f"parameters(), fused={value})")
    assert fixed(source, CODE, target=target) == expected


def test_no_fix_where_torch_is_something_else():
    source = """
    from torch.cuda import is_available
    from torch.nn import Transformer
    from torch.optim import Adam

    def train(torch, x):
        device = "cuda" if is_available() else "cpu"
        return Adam(Transformer(4).to(device).parameters())
    """
    [found] = check(source, CODE)
    assert found.fix is None


def test_never_safe():
    assert fixed(script(), CODE, unsafe=False, settles=False) == script()


def test_a_state_is_loaded_into_the_optimizer_of_either_branch() -> None:
    source = """
    import torch
    from torch.optim import Adam

    class Agent:
        def __init__(self, policy, other, gauss):
            if gauss:
                self.policy = policy.cuda()
                self.optim = Adam(self.policy.parameters())
            else:
                self.policy = other.cuda()
                self.optim = Adam(self.policy.parameters())

        def load(self, state):
            self.optim.load_state_dict(state)
    """
    text = fixed(source, CODE)
    assert text.count("fused=") == 2
    assert text.count('self.optim.defaults["fused"]') == 1


MODEL = "model.load_state_dict(state)\n"
LOAD = 'optimizer.load_state_dict(checkpoint["optimizer"])\n'
SET = """for group in checkpoint["optimizer"]["param_groups"]:
    group["fused"] = optimizer.defaults["fused"]
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(LOAD, SET + LOAD, id="a part of a checkpoint"),
        pytest.param(
            "# go on\noptimizer.load_state_dict(state)\n",
            'for group in state["param_groups"]:\n'
            '    group["fused"] = optimizer.defaults["fused"]\n'
            "# go on\noptimizer.load_state_dict(state)\n",
            id="a name",
        ),
        pytest.param(
            "group = 1\n" + LOAD,
            "group = 1\n" + SET.replace("group[", "saved_group[").replace("for g", "for saved_g")
            + LOAD,
            id="the name is taken",
        ),
        pytest.param(
            "optimizer.load_state_dict(torch.load(path))\n",
            "optimizer.load_state_dict(torch.load(path))\n",
            id="a state without a name",
        ),
        pytest.param(
            "print(optimizer.load_state_dict(state))\n",
            "print(optimizer.load_state_dict(state))\n",
            id="not a statement",
        ),
        pytest.param(MODEL, MODEL, id="of a model"),
    ],
)  # fmt: skip
def test_the_flag_is_put_into_states_that_are_loaded(before, after):
    saving = "torch.save(optimizer.state_dict(), path)\n"
    made, becomes = f"AdamW({P})", f"AdamW({P}, fused=True)"
    assert fixed(script(made, tail=before + saving), CODE) == script(becomes, tail=after + saving)


def test_says_what_it_changes():
    [found] = check(script(tail="optimizer.load_state_dict(torch.load(path))\n"), CODE)
    assert found.fix is not None
    assert "turns it off again" in found.fix.changes
    assert "below 2.0" in found.fix.changes
    [found] = check(script(), CODE, "2.13")
    assert found.fix is not None
    assert found.fix.changes == "the results differ by rounding"


# -- TL601b -----------------------------------------------------------------------------------

FUSED = f"AdamW({P}, fused=True)"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(FUSED), id="nothing is loaded"),
        pytest.param(
            script(FUSED, tail=LOAD + "torch.save(optimizer.state_dict(), path)\n"),
            id="its own checkpoints have the flag",
        ),
        pytest.param(script(FUSED, tail=SET + LOAD), id="the state is given it"),
        pytest.param(
            script(FUSED, tail=LOAD + "for g in optimizer.param_groups:\n    g['fused'] = True\n"),
            id="it is set again",
        ),
        pytest.param(script(FUSED, tail="model.load_state_dict(state)\n"), id="of a model"),
        pytest.param(script(f"SGD({P}, momentum=0.9, fused=True)"), id="no scaler"),
    ],
)
def test_fused_is_left_alone(source):
    silent(source, CODE)


def test_lost_on_load():
    [found] = check(script(FUSED, tail=LOAD), CODE)
    assert (found.code, found.severity, found.location.row) == ("TL601b", Severity.INFO, 10)
    assert fixed(script(FUSED, tail=LOAD), CODE) == script(FUSED, tail=SET + LOAD)


def test_lost_on_load_without_a_fix():
    [found] = check(script(FUSED, tail="optimizer.load_state_dict(torch.load(path))\n"), CODE)
    assert found.fix is None
    assert "param_groups" in found.help
    [found] = check(script(FUSED, head="import accelerate", tail=LOAD), CODE)
    assert found.fix is None


# -- TL601c -----------------------------------------------------------------------------------

SCALED = "scaler = torch.amp.GradScaler('cuda'{0})\nscaler.step(optimizer)\n"


@pytest.mark.parametrize(
    ("made", "tail"),
    [
        pytest.param(f"SGD({P}, momentum=0.0, fused=True)", SCALED.format(""), id="no momentum"),
        pytest.param(f"SGD({P}, momentum=m, fused=True)", SCALED.format(""), id="which momentum"),
        pytest.param(f"Adam({P}, fused=True)", SCALED.format(""), id="Adam keeps its state"),
        pytest.param(
            f"SGD({P}, momentum=0.9, fused=True)",
            SCALED.format(", enabled=False"),
            id="a scaler that does nothing",
        ),
    ],
)
def test_a_scaler_is_left_alone(made, tail):
    silent(script(made, tail=tail), CODE)


@pytest.mark.parametrize(
    ("enabled", "severity"),
    [
        ("", Severity.ERROR),
        (", enabled=True", Severity.ERROR),
        (", enabled=args.amp", Severity.WARNING),
    ],
)
def test_momentum_of_a_fused_sgd_with_a_scaler(enabled, severity):
    made, tail = f"SGD({P}, momentum=0.9, fused=True)", SCALED.format(enabled)
    [found] = check(script(made, tail=tail), CODE)
    assert (found.code, found.severity, found.location.row) == ("TL601c", severity, 5)
    assert fixed(script(made, tail=tail), CODE) == script(f"SGD({P}, momentum=0.9)", tail=tail)


def test_a_flag_from_a_dictionary_is_not_taken_out():
    made, head = f"SGD({P}, **kw)", "kw = dict(momentum=0.9, fused=True)"
    [found] = check(script(made, head, SCALED.format("")), CODE)
    assert (found.code, found.fix) == ("TL601c", None)


# -- the traps, on this machine's torch -------------------------------------------------------


def trained(kind: str, **options: object) -> torch.Tensor:
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 8))
    optimizer = getattr(torch.optim, kind)([weight], lr=0.1, **options)
    for _ in range(20):
        optimizer.zero_grad()
        weight.sin().sum().backward()
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_the_results_differ_by_rounding_only(kind):
    torch.testing.assert_close(trained(kind, fused=True), trained(kind), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["RMSprop", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD"])
def test_others_refuse_it(kind):
    with pytest.raises(TypeError):
        trained(kind, fused=True)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_a_state_that_was_saved_without_it_turns_it_off(kind):
    weight = torch.nn.Parameter(torch.ones(4))
    weight.sum().backward()
    old = getattr(torch.optim, kind)([weight], lr=0.1)
    old.step()
    state = old.state_dict()
    optimizer = getattr(torch.optim, kind)([weight], lr=0.1, fused=True)
    optimizer.load_state_dict(state)
    assert not optimizer.param_groups[0]["fused"]
    lines = SET.replace('checkpoint["optimizer"]', "state")
    exec(lines, {"state": state, "optimizer": optimizer})  # noqa: S102 - our own text
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["fused"] is True
    optimizer.step()


def scaled(**options: object) -> torch.Tensor:
    """Three steps whose first is skipped: how much the weight has moved after the last two."""
    weight = torch.nn.Parameter(torch.ones(1024))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for factor in (float("inf"), 1.0, 1.0):
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return optimizer.state[weight]["momentum_buffer"]


def test_a_skipped_first_step_leaves_momentum_unwritten(monkeypatch):
    """The fused SGD of this torch: what is in fresh memory becomes momentum."""
    empty = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: empty(*a, **k).fill_(1e6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert scaled().max() == pytest.approx(1.9)
        assert scaled(fused=True).max() > 1e5


def test_what_a_framework_moves_later_is_left_alone() -> None:
    source = """\
        import torch
        from accelerate import Accelerator
        accelerator = Accelerator()
        optimizer = torch.optim.Adam(model.parameters())
        model, optimizer = accelerator.prepare(model, optimizer)
        model.to(accelerator.device)
    """
    silent(source, CODE)


@pytest.mark.parametrize(
    ("where", "count"), [("base", 0), ("far", 0), ("trainer", 0), ("nowhere", 1)]
)
def test_parameters_of_a_model_that_a_trainer_of_another_file_moves(tmp_path, where, count):
    move = {where: "self.actor.to(self.device)"}
    files = {
        "far.py": f"""
            class Far:
                def __init__(self, actor, device):
                    self.actor, self.kept = actor, None
                    self.actor = actor
                    self.device = device
                    {move.get("far", "pass")}
        """,
        "base.py": f"""
            from far import Far

            class Base(Far):
                def start(self):
                    {move.get("base", "pass")}
        """,
        "trainer.py": f"""
            from base import Base

            class Trainer(Base):
                def __init__(self, actor, optimizer, device):
                    super().__init__(actor, device)
                    self.optimizer = optimizer

                def step(self, x):
                    {move.get("trainer", "pass")}
                    self.optimizer.zero_grad()
                    self.actor(x).backward()
                    self.optimizer.step()
        """,
        "run.py": """
            import torch
            from trainer import Trainer
            from actors import Actor, build

            device = torch.device("cuda")
            actor = Actor(build())
            optimizer = torch.optim.AdamW(actor.net.parameters(), lr=1e-3)
            trainer = Trainer(actor, optimizer, device)
            for x in data:
                trainer.step(x)
        """,
    }
    assert len(check_in(tmp_path, files, "run.py", CODE)) == count


def test_parameters_of_several_models_that_are_moved_later() -> None:
    source = """\
        import itertools
        import torch
        both = torch.optim.Adam(itertools.chain(a.parameters(), b.parameters()))
        a.cuda()
    """
    silent(source, CODE)


LEARNER = """
import torch

class Learner(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = torch.nn.Sequential(*[torch.nn.Linear(n, n) for _ in range(9)])
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)

    def fit(self, x):
        self.net(x.cuda()).sum().backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("main", "count"),
    [
        pytest.param("learner = Learner(4).to(device)", 0, id="moved where it is made"),
        pytest.param("one = Learner(4)\n    one.cuda()", 0, id="moved after it was made"),
        pytest.param("one = Learner(4)\n    x.cuda()", 1, id="something else is moved"),
    ],
)
def test_a_module_with_an_optimizer_of_its_parts_is_moved_by_its_creator(tmp_path, main, count):
    files = {
        "learner.py": LEARNER,
        "main.py": f"from learner import Learner\ndef f(x):\n    {main}",
    }
    assert len(check_in(tmp_path, files, "learner.py", CODE)) == count


PARTS = """
import torch

def main(options, model):
    {before}
    optimizer = torch.optim.Adam([
        {{"params": model.backbone.parameters(), "lr": 0.1}},
        {{"params": model.head.parameters()}},
    ])
    if options.resume:
        model = torch.nn.DataParallel(model)
        {after}
    else:
        model = torch.nn.DataParallel(model)
        {after}
    for x in options.batches:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""


def test_the_parts_of_a_model_are_moved_with_it() -> None:
    silent(PARTS.format(before="pass", after="model.to(options.device)"), CODE)
    assert len(check(PARTS.format(before="model.cuda()", after="pass"), CODE)) == 1
    assert len(check(PARTS.format(before="model.cuda()", after="model.cuda()"), CODE)) == 1


@pytest.mark.parametrize(("name", "asked"), [("weights", True), ("parameters", False)])
def test_a_list_of_parameters_is_not_asked_for_the_first(name, asked) -> None:
    source = f"""
    import torch

    class Net(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(n, n) for _ in range(n)])

        def {name}(self):
            return self.vars

    def make(model: Net, lr):
        return torch.optim.Adam(model.parameters(), lr=lr)

    for x in data:
        x = x.cuda()
    """
    (found,) = check(source, CODE)
    assert found.fix is not None
    assert ("next(" in found.fix.title) is asked


@pytest.mark.parametrize(
    ("readme", "fixes"), [("PyTorch 1.2", False), ("PyTorch 2.1", True), ("CUDA 1.2", True)]
)
def test_no_fix_for_a_torch_that_a_readme_names(tmp_path, readme, fixes) -> None:
    script = f"import torch\nbatch = batch.cuda()\noptimizer = torch.optim.AdamW({P})\n"
    files = {"main.py": script, "readme.md": readme}
    (found,) = check_in(tmp_path, files, "main.py", CODE)
    assert (found.fix is not None) is fixes


def test_asks_a_model_that_comes_from_elsewhere_where_it_is():
    source = (
        "import torch\nfrom nets import create_model\nfrom trainer import Trainer\n"
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "model = create_model('unet')\n"
        "optimizer = torch.optim.Adam(model.parameters(), 0.1)\n"
        "trainer = Trainer(model, optimizer, device)\n"
        "for x in loader:\n    optimizer.zero_grad()\n    model(x).backward()\n"
        "    optimizer.step()\n"
    )
    (found,) = check(source, "TL601")
    assert found.fix is not None
    assert found.fix.title == "Pass fused=next(model.parameters()).is_cuda or None"

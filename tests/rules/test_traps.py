"""The known traps of training code, in one list: no rule falls into them, and no fix sets them.

A number is one trap.  Where it is about what torch does, both texts run, on the CPU.
"""

from __future__ import annotations

import difflib
import json
import pickle
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from tools import check, fixed, silent
from torch import nn
from torch.utils.data import DataLoader

from torchlint.edits.fix import Safety
from torchlint.linter import Options, fix_source, with_deep_stack
from torchlint.preferences import Preferences
from torchlint.registry import all_rules
from torchlint.rule import Severity
from torchlint.source import decode_source

pytestmark = pytest.mark.filterwarnings(
    r"ignore:.*use of fork\(\)", "ignore:This DataLoader will create"
)  # the machine may lend one core only
forks = pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="workers get no text that ran"
)
FIXTURES = Path(__file__).parents[2] / "fixtures"
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


def run(source: str, **names: object) -> dict:
    """Run a text; return its names."""
    torch.manual_seed(0)
    space = {"__name__": "snippet", **names}
    exec(compile(textwrap.dedent(source), "snippet.py", "exec"), space)  # noqa: S102 - our own
    return space


def changes(source: str, code: str, target: str | None = None) -> str:
    """What the one fix of a rule, which has to be unsafe, says that it changes."""
    (found,) = check(source, code, target)
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE
    return found.fix.changes


def no_fix(source: str, code: str, target: str | None = None) -> None:
    """Assert that a rule has findings, and fixes none of them."""
    found = check(source, code, target)
    assert found
    assert [one.fix for one in found if one.fix is not None] == []


def everything() -> Options:
    rules = tuple(rule for rule in all_rules() if rule.code >= "TL1")
    return Options(rules, frozenset(rule.code for rule in rules))


def all_fixed(source: str) -> str:
    """A text after all fixes of all rules, the unsafe ones too."""
    read = decode_source(textwrap.dedent(source).encode(), "snippet.py")
    return with_deep_stack(lambda: fix_source(read, everything(), Safety.UNSAFE)).text


@pytest.fixture(scope="session")
def written() -> str:
    """All lines that fixes write into the fixtures, those that are held to be what fixes make."""
    lines = []
    advised = {rule.function for rule in all_rules() if rule.fix is None}
    for path in sorted(FIXTURES.glob("*/before.py")):
        if path.parent.name in advised:
            continue
        before, after = (p.read_text().splitlines() for p in (path, path.with_name("after.py")))
        lines += [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
    assert any("set_float32_matmul_precision" in line for line in lines)
    return "\n".join(lines)


def training(body: str, head: str = "", step: str = "") -> str:
    """A script that trains a linear layer on ``data``, wherever it runs."""
    return (
        f"import torch\nfrom torch import nn\nimport torch.nn.functional as F\n{head}\n{DEVICE}"
        "model = nn.Linear(4, 2).to(device)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"{body}\nfor x, y in data:\n    x, y = x.to(device), y.to(device)\n"
        "    loss = F.cross_entropy(model(x), y)\n    optimizer.zero_grad()\n"
        f"    loss.backward()\n    optimizer.step()\n{textwrap.indent(step, '    ')}\n"
    )


def deeper(source: str) -> str:
    """The same script with a second layer: casts cost more than they save in one."""
    return source.replace("nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))")


def wide(source: str) -> str:
    """The same script with a layer of many numbers: a few gradients are filled in no time."""
    return source.replace("nn.Linear(4, 2)", "nn.Linear(4, 20_000)")


def batches(count: int = 3) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(8, 4), torch.randint(0, 2, (8,))) for _ in range(count)]


# 1. A bare zero_grad() sets gradients to None already, since torch 2.0.


@pytest.mark.parametrize(
    ("call", "target", "count"),
    [
        pytest.param("zero_grad()", "2.0", 0, id="bare: it is None already"),
        pytest.param("zero_grad(set_to_none=False)", "2.0", 1, id="zeros are asked for"),
        pytest.param("zero_grad()", "1.13", 1, id="bare: it is zeros still"),
    ],
)
def test_01_a_bare_zero_grad_is_only_reported_where_it_writes_zeros(call, target, count):
    source = wide(training("")).replace("zero_grad()", call)
    assert len(check(source, "TL602", target)) == count
    model = run(source + "optimizer." + call, data=batches(1))["model"]
    assert (model.weight.grad is None) == (call == "zero_grad()")


# 2. load_state_dict of a checkpoint without fused=True turns it off; few optimizers take it.

LAYERS = "nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))"


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Adagrad"])
def test_02_a_fused_optimizer_stays_fused_when_an_old_state_is_loaded(kind):
    source = training("optimizer.load_state_dict(old)", step="save(optimizer.state_dict())")
    source = source.replace("SGD", kind).replace("nn.Linear(4, 2)", LAYERS)
    old = run(source.replace("optimizer.load_state_dict(old)", ""), data=[])["optimizer"]
    after = fixed(source, "TL601", target="2.13")
    (group,) = run(after, old=old.state_dict(), data=[])["optimizer"].param_groups
    assert group["fused"] is True
    forgets = "\n".join(line for line in after.splitlines() if "group" not in line)
    (group,) = run(forgets, old=old.state_dict(), data=[])["optimizer"].param_groups
    assert not group["fused"], "what happens without the lines that the fix adds"


@pytest.mark.parametrize(
    "made",
    [
        "RMSprop(model.parameters(), {})",
        "NAdam(model.parameters(), {})",
        "Adadelta(model.parameters(), {})",
        "AdamW(model.parameters(), foreach=True, {})",
        "AdamW(model.parameters(), differentiable=True, {})",
    ],
)
def test_02_what_refuses_fused_is_not_given_it(made):
    head = f"import torch\nfrom torch import nn\nmodel = {LAYERS}"
    on_gpu = f"{head}.cuda()\noptimizer = torch.optim."
    assert check(on_gpu + "AdamW(model.parameters())\n", "TL601", "2.13")
    silent(on_gpu + made.format("") + "\n", "TL601", "2.13")
    with pytest.raises((TypeError, RuntimeError)):
        run(f"{head}\noptimizer = torch.optim.{made.format('fused=True')}\n")


# 3. A reentrant checkpoint of the raw input leaves its whole block without gradients.


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("checkpoint(self.block, x)", id="the default"),
        pytest.param("checkpoint(self.block, x, use_reentrant=True)", id="chosen"),
        pytest.param("checkpoint_sequential(self.block, 2, x)", id="in a row"),
    ],
)
@pytest.mark.filterwarnings("ignore:None of the inputs have", "ignore:.*use_reentrant parameter")
def test_03_a_checkpointed_block_gets_its_gradients(call):
    source = f"""
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint, checkpoint_sequential

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
                self.head = nn.Linear(4, 2)

            def forward(self, x):
                return self.head({call})

        model = Net()
        for x, y in torch.utils.data.DataLoader(data, 2):
            nn.functional.cross_entropy(model(x), y).backward()
    """
    data = list(zip(torch.randn(4, 4), [0, 1, 0, 1], strict=True))
    (found,) = check(source, "TL407")
    assert found.severity is Severity.ERROR
    assert run(source, data=data)["model"].block[0].weight.grad is None
    assert run(fixed(source, "TL407"), data=data)["model"].block[0].weight.grad is not None


# 4. Clipping before unscale_ clips scaled gradients; a second unscale_ before an update raises.

SCALED = """
import torch

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(4):
    optimizer.zero_grad()
    scaler.scale((weight * 0.25).sum()).backward()
    {}
"""
CLIP = "torch.nn.utils.clip_grad_norm_([weight], 1.0)"
UPDATE = "\n    scaler.step(optimizer)\n    scaler.update()"


def test_04_true_gradients_are_clipped():
    source = SCALED.format(CLIP + UPDATE)
    assert run(source)["weight"].item() == pytest.approx(-4 / 1024), "cut to 1 / scale"
    assert run(fixed(source, "TL503"))["weight"].item() == pytest.approx(-4 * 0.25)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            "{}" + CLIP + "\n    if step % 2:" + UPDATE.replace("    ", "        "),
            "already been called",
            id="unscaled in each step, updated in every other",
        ),
        pytest.param(
            "{}" + CLIP + "\n    scaler.step(optimizer)", "after step", id="never updated"
        ),
    ],
)
def test_04_unscale_is_not_written_where_it_would_raise(body, message):
    no_fix(SCALED.format(body.format("")), "TL503")
    with pytest.raises(RuntimeError, match=message):
        run(SCALED.format(body.format("scaler.unscale_(optimizer)\n    ")))


def test_04_parameters_in_float16_get_no_scaler():
    source = deeper(training("")).replace("to(device)\nopt", "cuda(){}\nopt")
    half = Preferences(amp_dtype="float16")
    assert "GradScaler" in fixed(source.format(""), "TL501", preferences=half)
    silent(source.format(".half()"), "TL501")
    weight = nn.Parameter(torch.ones(1, dtype=torch.float16))
    weight.grad = torch.ones_like(weight)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(torch.optim.SGD([weight]))


# 5. as_tensor and from_numpy alias, and may be of memory that is read-only; from_numpy takes
# arrays alone; torch.Tensor and FloatTensor cast.


def arrays(body: str, kind: str = "") -> str:
    body = textwrap.indent(body, "    ")
    return f"import numpy as np\nimport torch\n\ndef collate(x{kind}):\n{body}\n\nf = collate\n"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = torch.tensor(a)\na[0] = 7\nreturn t", id="the array is changed"),
        pytest.param("t = torch.tensor(a)\nt[0] = 7\nreturn a", id="the tensor is changed"),
        pytest.param(
            "return torch.tensor(np.broadcast_to(np.zeros(1), 3)).add_(1)", id="read-only memory"
        ),
        pytest.param("return torch.Tensor(a)", id="a constructor that casts"),
        pytest.param("return torch.FloatTensor(a)", id="a constructor that shares float32"),
    ],
)
def test_05_the_copy_stays_where_somebody_could_tell(body):
    source = arrays(f"a = np.zeros(len(x))\n{body}")
    silent(source, "TL302")
    assert all_fixed(source) == source
    shared = source.replace("torch.tensor(", "torch.as_tensor(")
    if shared != source and "broadcast" not in source:
        assert list(run(source)["f"]("abc")) != list(run(shared)["f"]("abc"))


def test_05_what_may_be_shared_is_not_safe_to_share():
    source = arrays("return torch.tensor(x)", ": np.ndarray")
    assert "shares its memory" in changes(source, "TL302")
    array = np.zeros(3)
    aliased = run(fixed(source, "TL302"))["f"](array)
    array[0] = 1
    assert aliased[0] == 1


@pytest.mark.parametrize("value", [np.float32(3), np.ones((2, 3)), [np.ones(3), np.zeros(3)]])
def test_05_what_is_written_takes_what_torch_tensor_took(value):
    source = arrays("return torch.tensor(np.array(x) + 1)")
    after = fixed(source, "TL302", unsafe=False)
    one, other = (run(text)["f"](value) for text in (source, after))
    assert torch.equal(one, other)
    assert one.dtype == other.dtype
    if np.ndim(value) == 0:
        with pytest.raises(TypeError):
            run(after.replace("as_tensor", "from_numpy"))["f"](value)


@pytest.mark.parametrize("constructor", ["Tensor", "FloatTensor", "DoubleTensor"])
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_05_a_constructor_keeps_its_type(constructor):
    source = arrays(f"rows = [np.ones(3), np.zeros(3)]\nreturn torch.{constructor}(rows)")
    one, other = (run(text)["f"](0) for text in (source, fixed(source, "TL303")))
    assert torch.equal(one, other)
    assert one.dtype == other.dtype


@pytest.mark.parametrize("array", [np.ones(3)[::-1], np.ones(3, ">f4")], ids=["backwards", "big"])
def test_05_what_torch_does_not_take_raises_before_and_after(array):
    source = arrays("return torch.tensor(x)", ": np.ndarray")
    for text in (source, fixed(source, "TL302")):
        with pytest.raises((TypeError, ValueError)):
            run(text)["f"](array)


# 6. A bias before a norm: checkpoints and the random numbers change without it, code may use it,
# and frozen norms and those that average over channels need it.


def convolution(norm: str = "nn.BatchNorm2d(8)", tail: str = "", conv: str = "Conv2d(3, 8, 3)"):
    head = "import torch\nfrom torch import nn\n# BatchNorm or another\n"
    return f"{head}model = nn.Sequential(nn.{conv}, {norm})\n{tail}"


FROZEN = """
for m in model.modules():
    if isinstance(m, nn.BatchNorm2d):
        m.eval()
"""


@pytest.mark.parametrize(
    ("norm", "tail", "shape"),
    [
        pytest.param("nn.GroupNorm(2, 8)", "", (4, 3, 9, 9), id="GroupNorm"),
        pytest.param("nn.LayerNorm((8, 7, 7))", "", (4, 3, 9, 9), id="LayerNorm"),
        pytest.param("nn.BatchNorm2d(8)", FROZEN, (4, 3, 9, 9), id="a frozen norm"),
        pytest.param("nn.BatchNorm1d(4)", "", (2, 4, 3), id="Linear on an input of three axes"),
    ],
)
def test_06_a_bias_that_matters_stays(norm, tail, shape):
    source = convolution(norm, tail, "Linear(3, 8)" if len(shape) == 3 else "Conv2d(3, 8, 3)")
    silent(source, "TL703")
    model, x = run(source)["model"], torch.randn(shape)
    with torch.no_grad():
        before = model(x)
        model[0].bias[:2] += torch.tensor([3.0, -3.0])
        assert not torch.allclose(model(x), before, atol=0.1)


def test_06_checkpoints_and_random_numbers_change_which_the_fix_says():
    source = convolution(tail="after = torch.rand(1)\n")
    assert "state_dict" in changes(source, "TL703")
    before, after = run(source), run(fixed(source, "TL703"))
    assert before["after"] != after["after"], "the bias draws random numbers"
    with pytest.raises(RuntimeError, match="Unexpected key"):
        after["model"].load_state_dict(before["model"].state_dict())
    load = "if pretrained:\n    model.load_state_dict(torch.load('pretrained.pt'))\n"
    no_fix(convolution(tail=load), "TL703")


def test_06_a_bias_that_is_initialised_has_no_fix():
    source = convolution(tail="for m in model.modules():\n    if isinstance(m, nn.Conv2d):\n"
                         "        nn.init.zeros_(m.bias)\n")  # fmt: skip
    no_fix(source, "TL703")
    with pytest.raises(AttributeError):
        run(source.replace("3)", "3, bias=False)", 1))


# 7. Workers: persistent ones shuffle otherwise from the second epoch on and keep their first copy
# of the dataset; they draw their own random numbers, repeat streams, cannot get lambdas.

WORKERS = """
import random
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Numbers(Dataset):
    scale = 1
    def __len__(self):
        return 16
    def __getitem__(self, index):
        with open(__file__) as file:
            file.read()
        return index * self.scale + {noise}

class Stream(IterableDataset):
    def __iter__(self):
        with open("numbers") as file:
            yield from file

def decoded(samples):
    with open("table") as file:
        return [file.readline() for _ in samples]

def train(model, optimizer, epochs):
    dataset = Numbers()
    loader = DataLoader({arguments})
    for epoch in range(epochs):
        {told}
        for x in loader:
            loss = model(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def workers(arguments: str, told: str = "", noise: str = "0") -> str:
    return WORKERS.format(arguments=arguments, told=told or "pass", noise=noise)


def seen(source: str) -> list[list[int]]:
    """The samples of each of two epochs."""
    samples: list[int] = []

    class Model(nn.Linear):
        def forward(self, x):
            samples.extend(x.tolist())
            return super().forward(torch.ones(1, 1)).sum()

    model = Model(1, 1)
    run(source, __file__=__file__)["train"](model, torch.optim.SGD(model.parameters()), 2)
    return [samples[:16], samples[16:]]


@forks
def test_07_persistent_workers_shuffle_otherwise_which_the_fix_says():
    source = workers("dataset, 4, shuffle=True, num_workers=1")
    assert "from the second epoch on" in changes(source, "TL103")
    before, after = seen(source), seen(fixed(source, "TL103"))
    assert before[0] == after[0]
    assert before[1] != after[1]


@forks
def test_07_persistent_workers_are_not_asked_for_where_the_dataset_changes():
    source = workers("dataset, 4, num_workers=1", "dataset.scale = 2 * epoch")
    silent(source, "TL103")
    frozen = source.replace("num_workers=1", "num_workers=1, persistent_workers=True")
    assert seen(source)[1] == [2 * n for n in range(16)]
    assert seen(frozen)[1] == [0] * 16, "the second epoch with the dataset of the first"


@forks
def test_07_workers_draw_random_numbers_of_their_own_which_the_fix_says():
    source = workers("dataset, 4", noise="torch.randint(9**9, ()).item()")
    assert "random" in changes(source, "TL101")
    chosen = fixed(source, "TL101", preferences=Preferences(num_workers=1))
    assert seen(source) != seen(chosen)


@forks
def test_07_a_stream_is_not_repeated_by_workers():
    source = workers("Stream(), 4")
    [found] = check(source.replace("4)", "4, collate_fn=decoded)"), "TL101")
    assert found.fix is None
    repeated = source.replace("4)", "4, num_workers=2)")
    assert [one.code for one in check(repeated, "TL105")] == ["TL105c"]
    stream = type("Stream", (torch.utils.data.IterableDataset,), {"__iter__": lambda _: iter("ab")})
    assert sorted(DataLoader(stream(), None, num_workers=2)) == ["a", "a", "b", "b"]


def test_07_workers_are_not_sent_a_lambda():
    source = workers("dataset, 4, collate_fn=lambda batch: torch.tensor(batch)")
    no_fix(source, "TL101")
    many = source.replace("4,", "4, num_workers=2, multiprocessing_context='spawn',")
    assert [one.severity for one in check(many, "TL105")] == [Severity.ERROR]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(lambda batch: batch)


def test_07_tensors_in_memory_get_no_workers():
    dataset = "torch.utils.data.TensorDataset(torch.arange(16))"
    source = workers(f"{dataset}, 4, collate_fn=decoded")
    silent(source, "TL101")
    assert len(check(workers("dataset, 4, collate_fn=decoded"), "TL101")) == 1
    assert "num_workers" not in all_fixed(source)


# 8. pin_memory raises for tensors on a GPU, warns where there is none, and leaves batches of a
# class of one's own as they are.


def pinned(dataset: str = "dataset", arguments: str = "", head: str = "") -> str:
    return (
        f"import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n{head}\n{DEVICE}"
        f"def train(model, dataset):\n    loader = DataLoader({dataset}, 4, num_workers=1"
        f"{arguments})\n    for (x,) in loader:\n        model(x.to(device)).sum().backward()\n"
    )


@forks
def test_08_pinned_memory_is_asked_for_where_there_is_a_gpu():
    after = fixed(pinned(), "TL102")
    data = torch.utils.data.TensorDataset(torch.ones(8, 2))
    run(after)["train"](nn.Linear(2, 1).to(run(DEVICE, torch=torch)["device"]), data)
    if not torch.cuda.is_available():
        always = after.replace('device.type == "cuda"', "True")
        with pytest.warns(UserWarning, match="no accelerator"):
            run(always)["train"](nn.Linear(2, 1), data)


def test_08_tensors_on_a_gpu_are_not_pinned():
    silent(pinned("TensorDataset(torch.ones(8, 2).cuda())"), "TL102")
    with pytest.raises(RuntimeError, match=r"cannot pin|pin"):
        torch.ones(2, device="meta").pin_memory()


def test_08_a_batch_that_would_not_be_pinned_is_not_said_to_be():
    own = "class Batch:\n    def __init__(self, x):\n        self.x = x\n"
    silent(pinned(arguments=", collate_fn=Batch", head=own).replace("(x,)", "x")
           .replace("x.to", "x.x.to"), "TL102")  # fmt: skip


# 9. non_blocking is safe from a pinned batch to CUDA: not to the host, not to MPS, and not where
# the batch is changed afterwards.


def moved(line: str) -> str:
    return (
        f"import torch\nfrom torch.utils.data import DataLoader\n{DEVICE}"
        "loader = DataLoader(dataset, 4, num_workers=1, pin_memory=True)\n"
        f"for x in loader:\n{textwrap.indent(line, '    ')}\n    model(g).sum().backward()\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("g = x.to('cpu')", id="to the host"),
        pytest.param("g = z.to('cpu')", id="from the GPU"),
        pytest.param("g = z.cpu()", id="from the GPU, by cpu()"),
        pytest.param("g = x.to('mps')", id="to Apple's GPU"),
        pytest.param("g = x.to(device)\nx.add_(1)", id="changed in place afterwards"),
        pytest.param("g = x.to(device)\nx[0] = 1", id="written to afterwards"),
    ],
)
def test_09_copies_that_would_race_wait(line):
    source = moved(f"z = model(x.to(device, non_blocking=True))\n{line}")
    silent(source, "TL205")
    assert textwrap.indent(line, "    ") in all_fixed(source)


def test_09_a_copy_to_the_host_that_races_is_made_to_wait():
    source = moved(
        "g = model(x.to(device, non_blocking=True)).to('cpu', non_blocking=True)\nprint(g.sum())"
    ).replace("loader:", "loader:\n    model = torch.nn.Linear(4, 2).to(device)")
    assert ".to('cpu')\n" in all_fixed(source)
    assert "(x.to(device, non_blocking=True))" in all_fixed(source)


# 10. Tensors of inference_mode cannot enter autograd, nor be changed outside of it.


def test_10_evaluations_run_under_no_grad(written):
    source = training(
        "def evaluate(data):\n    model.eval()\n    outputs = []\n    for x, y in data:\n"
        "        outputs.append(model(x.to(device)))\n    return outputs[0]\n",
        step="scores = evaluate(data)\nmodel.train()",
    )
    after = fixed(source, "TL401")
    use = "scores.add_(1)\n(model.weight.sum() * scores).sum().backward()\n"
    assert run(after + use, data=batches())["model"].weight.grad is not None
    assert "inference_mode" not in after + written
    inference = after.replace("no_grad()", "inference_mode()")
    for line in use.splitlines():
        with pytest.raises(RuntimeError, match=r"[Ii]nference"):
            run(inference + line, data=batches())


# 11. A random tensor that is made on another device comes from another generator; one that requires
# gradients is a leaf there, and was none when it was moved.


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("z = torch.randn(3).to(device)", "random", id="random numbers"),
        pytest.param("z = torch.randperm(3).to(device)", "random", id="a permutation"),
        pytest.param("z = torch.zeros(3, requires_grad=True).to(device)", "leaf", id="a leaf"),
    ],
)
def test_11_where_a_tensor_is_made_is_safe_only_for_the_same_values(line, said):
    assert said in changes(training("", step=line), "TL301")
    safe = training("", step="z = torch.zeros(3).to(device)")
    assert "torch.zeros(3, device=device)" in fixed(safe, "TL301", unsafe=False)
    assert not torch.zeros(3, requires_grad=True).to("meta").is_leaf
    assert torch.zeros(3, requires_grad=True, device="meta").is_leaf


# 12. A total that stays on the device: float64 is summed as before, bfloat16 does not stop at 256;
# nothing is aliased, a tensor on the CPU is not added to, and who reads the total gets a float.


def totals(statement: str, *, start: str = "total = 0.0", after: str = "result = total"):
    return training(start, step=statement) + after + "\n"


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        pytest.param("total += loss.item()", 3, id="a total"),
        pytest.param("total += loss.item() * x.size(0)", 3, id="a weighted total"),
        pytest.param("total += float(loss)", 3, id="float"),
        pytest.param("total += loss.item()", 0, id="no batch at all"),
        pytest.param("total += (0 * loss + 1).bfloat16().item()", 3, id="bfloat16"),
    ],
)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_12_a_total_is_the_same_float(statement, count):
    after = "result = json.dumps([total, round(total, 3), f'{total:.4f}'])"
    source = totals(statement, start="total = 256.0", after=after)
    text = fixed(source, "TL201", unsafe=False)
    data = batches(1) * count
    before, now = (run(one, data=data, json=json)["result"] for one in (source, text))
    assert before == now
    if "bfloat16" in statement:
        assert "256.0" in run(text.replace(".double()", ""), data=data, json=json)["result"]
    kept = text.replace("    total = float(total)\n", "").replace("total = float(total)\n", "")
    if count:
        with pytest.raises(TypeError):
            run(kept, data=data, json=json)


@pytest.mark.parametrize(
    ("statement", "start"),
    [
        pytest.param("total += loss.item()", "total = torch.zeros(1)", id="a total on the CPU"),
        pytest.param("total[0] += loss.item()", "total = torch.zeros(1)", id="a part of one"),
        pytest.param("losses.append(loss.item())\nloss /= 2", "losses = []", id="then divided"),
    ],
)
def test_12_what_would_alias_or_mix_devices_is_not_kept_on_the_device(statement, start):
    source = totals(statement, start=start, after="")
    assert statement.splitlines()[0] in all_fixed(source)


def test_12_what_is_appended_and_divided_in_place_has_to_be_cloned():
    (found,) = check(totals("losses.append(loss.item())", start="losses = []", after=""), "TL202")
    assert "detach().clone()" in found.message + found.help
    loss = torch.ones(())
    kept, cloned = loss.detach(), loss.detach().clone()
    loss /= 2
    assert (kept.item(), cloned.item()) == (0.5, 1.0)


# 13. Code that reads .grad does not expect None; momentum and decay move a parameter by zeros.


def test_13_gradients_that_are_read_stay_zeros():
    step = "optimizer.zero_grad(set_to_none=False)\nnorm = model.weight.grad.norm()"
    source = wide(training("", step=step))
    fixes = [one.fix for one in check(source, "TL602") if "set_to_none=False" in one.message]
    assert fixes == [None]
    assert run(source, data=batches())["norm"] == 0
    with pytest.raises(AttributeError):
        run(source.replace("False", "True"), data=batches())


@pytest.mark.parametrize("option", ["momentum=0.9", "weight_decay=0.5"])
def test_13_none_leaves_alone_what_gets_no_gradient_which_the_fix_says(option):
    source = f"""
        import torch

        used, unused = (torch.nn.Parameter(torch.ones(())) for _ in range(2))
        both = torch.nn.ParameterList([used, unused])
        optimizer = torch.optim.SGD(both.parameters(), lr=0.1, {option})
        for other in (unused, 2):
            optimizer.zero_grad(set_to_none=False)
            (used * other).backward()
            start = unused.item()
            optimizer.step()
    """
    assert "let momentum and weight decay move it" in changes(source, "TL602")
    before, after = run(source), run(fixed(source, "TL602"))
    assert before["unused"].item() < before["start"]
    assert after["unused"].item() == after["start"]


# 14. torch.compile: assigned, it changes the keys and the class; a counter is compiled anew eight
# times; printing and logging break no graph.


def compiled(forward: str = "", init: str = "") -> str:
    return f"""\
import logging
import torch
from torch import nn
{DEVICE}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        {init or "pass"}

    def forward(self, x):
        {forward or "pass"}
        return self.layer(x)

model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def graphs(source: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the model of a script is compiled, were it on a GPU."""
    source = source.replace('if device.type == "cuda":', "if True:")
    found = []
    compile_with = nn.Module.compile
    torch.compiler.reset()

    def backend(graph, _):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", lambda self: compile_with(self, backend=backend))
    run(source, data=batches(1) * 12)
    return len(found)


@pytest.mark.filterwarnings("ignore:.*jit.script_method:DeprecationWarning")
def test_14_a_model_is_compiled_in_place(monkeypatch, written):
    after = fixed(compiled(), "TL705", target="2.13")
    assert "torch.compile(" not in after + written
    plain = set(run(compiled(), data=[])["model"].state_dict())
    space = run(after, data=[])
    assert set(space["model"].state_dict()) == plain
    assert isinstance(space["model"], space["Net"])
    assert set(torch.compile(space["Net"]()).state_dict()) != plain
    assert graphs(after, monkeypatch) == 1


@pytest.mark.parametrize("line", ["print('forward')", "logging.debug('forward')"])
def test_14_what_prints_and_logs_is_compiled_as_a_whole(line, monkeypatch):
    assert graphs(fixed(compiled(line), "TL705", target="2.13"), monkeypatch) == 1


def test_14_what_counts_its_calls_is_not_compiled(monkeypatch):
    source = compiled("self.calls += 1", "self.calls = 0")
    silent(source, "TL705", "2.13")
    in_place = source.replace(".to(device)\nopt", ".to(device)\nmodel.compile()\nopt")
    assert graphs(in_place, monkeypatch) == 8


# 15. cudnn.benchmark measures anew for each shape, the last batch's as well, and is not repeatable.


def images(data: str = "MNIST('data', transform=transforms.ToTensor())", head: str = "") -> str:
    return f"""
import torch
from torch import nn
from torchvision import datasets, transforms
{head}
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(datasets.{data}, 64):
    loss = nn.functional.cross_entropy(model(x.cuda()).mean((2, 3)), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(images(head="torch.use_deterministic_algorithms(True)"), id="repeatable"),
        pytest.param(images(head="torch.backends.cudnn.deterministic = True"), id="deterministic"),
    ],
)
def test_15_benchmark_is_for_images_of_one_size_that_need_not_be_repeatable(source):
    said = changes(images(), "TL701")
    assert "from run to run" in said
    assert "smaller last batch" in said
    silent(source, "TL701")


# 16. The old and the new switches of TensorFloat-32 do not mix: reading one raises after the other.


def test_16_the_switch_of_tf32_is_the_one_that_may_be_read(written):
    source = """
        import torch
        from torch import nn
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8), 6).cuda()
        optimizer = torch.optim.SGD(model.parameters())
        for x, y in loader:
            nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
    """
    after = fixed(source, "TL507")
    assert 'torch.set_float32_matmul_precision("high")' in after
    assert "allow_tf32" not in after + written
    assert "fp32_precision" not in after + written
    new = "torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
    assert "set_float32" not in all_fixed(source.replace("model =", f"{new}        model =", 1))
    silent(new.join(("import torch\n", "")), "TL507")
    read = "seen = torch.backends.cuda.matmul.allow_tf32\n"
    try:
        assert run(f"import torch\ntorch.set_float32_matmul_precision('high')\n{read}")["seen"]
        with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
            run(f"import torch\n{new.replace('tf32', 'ieee')}{read}")
    finally:
        torch.set_float32_matmul_precision("highest")
        run(f"import torch\n{new.replace('tf32', 'none')}")


# 17. autocast: float16 on CUDA, bfloat16 on a CPU; the old one's first argument is `enabled`; it is
# slow where there is no bfloat16; BCELoss raises in it, on CUDA alone.


@pytest.mark.parametrize(
    ("old", "device", "enabled"),
    [
        ("torch.cuda.amp.autocast(False)", "cuda", False),
        ("torch.cpu.amp.autocast(False)", "cpu", False),
        ("torch.cpu.amp.autocast()", "cpu", True),
        ("torch.cpu.amp.autocast(True, torch.float16)", "cpu", True),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_17_the_new_autocast_does_what_the_old_one_did(old, device, enabled):
    source = f"import torch\ncast = {old}\n"
    contexts = [run(text)["cast"] for text in (source, fixed(source, "TL906", target="2.13"))]
    for one in contexts:
        assert (one.device, one._enabled) == (device, enabled)
    assert contexts[0].fast_dtype is contexts[1].fast_dtype


def test_17_the_type_is_written_and_the_cpu_left_out():
    source = deeper(training(""))
    after = fixed(source, "TL501")
    assert "dtype=torch.bfloat16" in after
    assert (torch.get_autocast_dtype("cuda"), torch.get_autocast_dtype("cpu")) == (
        torch.float16, torch.bfloat16)  # fmt: skip
    if not torch.cuda.is_available():
        one, other = (run(text, data=batches())["loss"] for text in (source, after))
        assert torch.equal(one, other), "slower on a CPU: it is off there"
    assert "slow on a GPU of compute capability below 8.0" in changes(source, "TL501")


def test_17_what_raises_in_autocast_is_left_out_of_it():
    source = deeper(training(""))
    source = source.replace("F.cross_entropy", "F.binary_cross_entropy_with_logits")
    assert "autocast" in fixed(source, "TL501")
    no_fix(source.replace("_with_logits", ""), "TL501")
    outputs = torch.rand(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.binary_cross_entropy(outputs, outputs.round())
    assert loss >= 0, "a CPU does not show it"


# 18. Attention: scaled_dot_product_attention drops out in evaluation too, its masks mean the
# opposite, and rows that see nothing are zero where they were NaN.  No rule writes it.


def test_18_attention_by_hand_stays_as_it_is(written):
    forward = (
        "q, k, v = self.layer(x).chunk(3, -1)\n"
        "        weights = (q @ k.transpose(-2, -1) / 8).masked_fill(mask, -1e9).softmax(-1)\n"
        "        return nn.functional.dropout(weights, 0.1, self.training) @ v"
    )
    source = compiled(forward)
    assert forward in all_fixed(source)
    assert "scaled_dot_product_attention" not in all_fixed(source) + written


def test_18_fused_attention_gives_zeros_for_rows_that_see_nothing_which_the_fix_says():
    source = """
        import torch
        attention = torch.nn.MultiheadAttention(4, 1, batch_first=True)
        with torch.no_grad():
            attention.out_proj.bias.zero_()
        def attend(x, mask):
            out, _ = attention(x, x, x, key_padding_mask=mask)
            return out
    """
    assert "zero where a mask allows nothing" in changes(source, "TL713")
    x, sees_nothing = torch.ones(1, 2, 4), torch.ones(1, 2, dtype=torch.bool)
    before, after = (run(text)["attend"] for text in (source, fixed(source, "TL713")))
    assert before(x, sees_nothing).isnan().all()
    assert not after(x, sees_nothing).isnan().any()
    mask = torch.tensor([[False, True]])
    torch.testing.assert_close(before(x, mask), after(x, mask))


# 19. channels_last and .view() raise; so may a view of a tensor that keeps the gaps of an array.


def test_19_views_keep_working(written):
    source = images().replace("nn.ReLU(), nn.Conv2d(8, 8, 3)", "nn.Conv2d(8, 8, 3)")
    assert "channels_last" not in all_fixed(source) + written
    x = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.view(2, -1)
    assert x.flatten(1).shape == (2, 48)


def test_19_gaps_between_the_rows_of_an_array_are_not_kept_safely():
    source = arrays("return torch.tensor(np.ones((x, 4))[:, 1:]).view(-1)")
    assert "view" in changes(source, "TL302")
    assert run(source)["f"](3).shape == (9,)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        run(fixed(source, "TL302"))["f"](3)


# 20. A DistributedSampler shuffles anew only if it is told the epoch; with shuffle=True it raises.


def test_20_a_sampler_is_told_the_epoch():
    source = """
        from torch.utils.data import DataLoader, DistributedSampler

        def train(model, dataset, optimizer):
            sampler = DistributedSampler(dataset, 2, 0)
            loader = DataLoader(dataset, 4, sampler=sampler)
            for epoch in range(2):
                for x in loader:
                    model(x).backward()
                    optimizer.step()
    """
    for text, same in ((source, True), (fixed(source, "TL804"), False)):
        seen = []

        def model(x, seen=seen):
            seen.extend(x.tolist())
            return torch.ones((), requires_grad=True)

        run(text)["train"](model, list(range(64)), torch.optim.SGD([torch.ones(1)]))
        assert (seen[:32] == seen[32:]) is same


def test_20_a_sampler_and_shuffle_exclude_each_other():
    source = "from torch.utils.data import DataLoader, DistributedSampler\n"
    source += "loader = DataLoader(data, 4, shuffle=True, sampler=DistributedSampler(data, 2, 0))\n"
    assert [one.severity for one in check(source, "TL105")] == [Severity.ERROR]
    with pytest.raises(ValueError, match="mutually exclusive"):
        run(source, data=[1, 2])
    source = (
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(x), 4, shuffle=True)\n"
        "for (x,) in loader:\n    model(x).backward()\n    optimizer.step()\n"
    )
    after = fixed(source, "TL104").partition("for (x")[0]
    sampler = run(after, x=torch.ones(8))["loader"].sampler
    assert isinstance(sampler.sampler, torch.utils.data.RandomSampler)


# 21. Without empty_cache, synchronize or gc.collect memory may run out, and timings be wrong.


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("torch.cuda.synchronize()", "TL208"),
        ("torch.cuda.empty_cache()", "TL209"),
        ("gc.collect()", "TL209"),
    ],
)
def test_21_calls_that_wait_or_clean_up_are_not_safe_to_remove(call, code):
    source = training("", "import gc, time", call)
    said = changes(source, code)
    assert ("memory" if code == "TL209" else "error") in said
    measured = "start = time.perf_counter()\n" if code == "TL208" else ""
    measured = measured or "torch.cuda.reset_peak_memory_stats()\n"
    leave = no_fix if code == "TL208" else silent  # a time of the step is information
    leave(training("", "import gc, time", measured + call), code)
    caught = ("model(x)", call) if code == "TL209" else (call, "model(x)")
    caught = "try:\n    {}\nexcept RuntimeError:\n    {}\n".format(*caught)
    silent(training("", "import gc, time", caught), code)


# 22. no_sync has to hold the forward and the backward pass, and the last window has to synchronise.
# No rule writes it, and none takes a pass out of it.


def test_22_gradients_are_exchanged_as_often_as_before(written):
    source = f"""
import contextlib
import torch
import torch.nn.functional as F
{DEVICE}
if not torch.distributed.is_initialized():  # kept, as the fixture of TL802 says
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).to(device))
model.register_comm_hook(counts, lambda counts, bucket: counts.append(1) or done(bucket))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(data):
    last = (i + 1) % 3 == 0 or i + 1 == len(data)
    with contextlib.nullcontext() if last else model.no_sync():
        loss = F.cross_entropy(model(x.to(device)), y.to(device)) / 3
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
"""

    def done(bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    forward = source.rpartition("    with")[2].splitlines()[1]
    outside = source.replace(forward + "\n", "").replace("    with", f"{forward[4:]}\n    with")
    for text, exchanged in [(source, 2), (all_fixed(source), 2), (outside, 5)]:
        counts: list[int] = []
        run(text, counts=counts, data=batches(5), done=done)
        assert len(counts) == exchanged
    assert "no_sync" not in written


# 23. Environment variables do nothing once torch has been imported.  No rule writes one.


def test_23_no_fix_sets_an_environment_variable(monkeypatch, written):
    source = training("", "import os")
    assert "environ" not in all_fixed(source) + written
    threads = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads + 1))
    assert torch.get_num_threads() == threads

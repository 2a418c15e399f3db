"""TL501: training steps that compute in float32 on a GPU."""

from __future__ import annotations

import textwrap

import pytest
import torch
from tools import check, check_in, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.preferences import Preferences
from torchlint.rule import Severity

CODE = "TL501"
HALF = Preferences(amp_dtype="float16")
NET = "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))"
FORWARD = "output = model(x)\nloss = criterion(output, y)"
BACKWARD = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"
CUDA = ".cuda()"


def script(
    forward: str = FORWARD,
    backward: str = BACKWARD,
    *,
    head: str = "",
    model: str = NET,
    move: str = CUDA,
    criterion: str = "nn.CrossEntropyLoss()",
    optimizer: str = "torch.optim.SGD(model.parameters(), lr=0.1)",
    scaler: str = "",
) -> str:
    """Return a training script for the GPU with the given lines in its step."""
    lines = ["import torch", "from torch import nn", *head.splitlines(), "", "def train(loader):"]
    made = [f"model = {model}{move}", f"criterion = {criterion}", f"optimizer = {optimizer}"]
    lines += [f"    {line}" for line in [*made, *filter(None, [scaler])]]
    lines += ["    for x, y in loader:", f"        x, y = x{move}, y{move}"]
    body = textwrap.indent(f"{forward}\n{backward}", " " * 8)
    return "\n".join(lines) + "\n" + body + "\n"


def under(context: str) -> str:
    return f"with {context}:\n" + textwrap.indent(FORWARD, "    ")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(move=""), id="on the CPU"),
        pytest.param(script(under("torch.autocast('cuda')")), id="autocast"),
        pytest.param(script(under("torch.autocast('cuda', enabled=amp)")), id="by an option"),
        pytest.param(
            script(under("cast()"), head="from torch.cuda.amp import autocast as cast"), id="alias"
        ),
        pytest.param(script(model=f"{NET}.half()"), id="in float16"),
        pytest.param(script(move=".cuda().to(torch.bfloat16)"), id="in bfloat16"),
        pytest.param(script(model=f"{NET}.double()"), id="in double precision"),
        pytest.param(script(head="torch.set_default_dtype(torch.float64)"), id="all in double"),
        pytest.param(script(model="nn.Linear(8, 4)"), id="one layer"),
        pytest.param(script(under("torch.no_grad()")), id="without gradients"),
        pytest.param(script(FORWARD, "log(loss)"), id="no training"),
        pytest.param(
            script(
                "engine, *_ = deepspeed.initialize(model=model, config='ds.json')\n" + FORWARD,
                head="import deepspeed",
            ),
            id="a configuration that is not seen",
        ),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


def test_is_silent_where_torch_has_no_autocast():
    silent(script(), CODE, "1.9")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(under("torch.autocast('cuda', enabled=False)")), id="autocast is off"),
        pytest.param(script(criterion="nn.BCELoss()"), id="a loss that raises"),
        pytest.param(script(criterion="MyLoss()"), id="a loss of somebody"),
        pytest.param(script("loss = criterion(model(x), y) + model.penalty()"), id="a sum"),
        pytest.param(script(model=f"nn.DataParallel({NET})"), id="DataParallel"),
        pytest.param(script(model="nn.LSTM(8, 8)"), id="recurrent layers"),
        pytest.param(script(FORWARD + "\nq = torch.linalg.svd(y)"), id="linear algebra"),
        pytest.param(script(FORWARD + "\nq = torch.spmm(y, y)"), id="sparse matrices"),
        pytest.param(script(FORWARD + "\ntorch.autograd.grad(loss, x)"), id="gradients by hand"),
        pytest.param(script(optimizer="torch.optim.LBFGS(model.parameters())"), id="line search"),
        pytest.param(script(backward=f"{BACKWARD}\nlog(output.cpu().numpy())"), id="an array"),
        pytest.param(
            script(backward=f"{BACKWARD}\nloss = f(y)\nloss.backward()"), id="two backward passes"
        ),
    ],
)
def test_reports_without_a_fix(source):
    (found,) = check(source, CODE)
    assert (found.severity, found.fix) == (Severity.INFO, None)
    assert "computes in float32 in every training step" in found.message


def test_once_for_each_step():
    (found,) = check(script(f"z = model(x)\n{FORWARD}"), CODE)
    assert found.location.row == 10
    assert len(check(script() + script().replace("train", "again"), CODE)) == 2


@pytest.mark.parametrize(
    "head",
    [
        "# amp, apex and compiled are words",
        "use_amp = False  # --amp",
        "import apex\nnorm = apex.parallel.SyncBatchNorm(8)",
        "other = nn.BCELoss()",
    ],
)
def test_what_chooses_no_precision_changes_nothing(head):
    (found,) = check(script(head=head), CODE)
    assert found.fix is not None
    assert "BCELoss" not in found.message


def test_the_rate_is_said_only_where_it_is_known():
    source = f"""
    import torch
    from torch import nn

    def step(x, y, optimizer):
        model = {NET}.cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    """
    (found,) = check(source, CODE)
    assert "every" not in found.message


def test_models_of_other_files(tmp_path):
    net = f"from torch import nn\n\ndef build():\n    return {NET}{{}}\n"
    files = {"main.py": script(head="from net import build", model="build()")}
    for cast, count in (("", 1), (".half()", 0)):
        found = check_in(tmp_path, files | {"net.py": net.format(cast)}, "main.py", CODE)
        assert len(found) == count


def test_a_script_is_not_judged_by_another_one_that_imports_the_same(tmp_path):
    shared = {"net.py": f"from torch import nn\n\ndef build():\n    return {NET}\n"}
    plain = script(head="from net import build", model="build()")
    mixed = script(under("torch.autocast('cuda')"), head="from net import build", model="build()")
    files = shared | {"plain.py": plain, "mixed.py": mixed}
    assert [len(check_in(tmp_path, files, name, CODE)) for name in ("plain.py", "mixed.py")] == [
        1,
        0,
    ]
    caller = "import torch\nfrom plain import train\nwith torch.autocast('cuda'):\n    train(x)\n"
    assert not check_in(tmp_path, files | {"mixed.py": caller}, "plain.py", CODE)


# -- frameworks -------------------------------------------------------------------------------

LIGHTNING = "from lightning import Trainer\nt = Trainer({})\nt.fit(model)\n"
ACCELERATE = "from accelerate import Accelerator\na = Accelerator({})\na.backward(loss)\n"


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (LIGHTNING.format(""), "bf16-mixed"),
        (LIGHTNING.format("precision=32"), "bf16-mixed"),
        (LIGHTNING.format("").replace("lightning", "pytorch_lightning"), "bf16-mixed"),
        (ACCELERATE.format(""), 'mixed_precision="bf16"'),
        (
            "from transformers import TrainingArguments as T\nargs = T('out')\ntrainer.train()\n",
            "bf16=True",
        ),
    ],
)
def test_a_framework_has_its_own_switch(source, advice):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None
    assert advice in found.help


@pytest.mark.parametrize(
    "source",
    [
        LIGHTNING.format("precision='bf16-mixed'"),
        LIGHTNING.format("precision=args.precision"),
        LIGHTNING.format("**options"),
        LIGHTNING.format("accelerator='cpu'"),
        LIGHTNING.format("").replace("t.fit", "t.predict"),
        LIGHTNING.format("").replace("t.fit", "other.fit"),
        ACCELERATE.format("mixed_precision=args.mixed_precision"),
        ACCELERATE.format("").replace("a.backward(loss)", "a.print(1)"),
        ACCELERATE.format("cpu=True"),
    ],
)
def test_a_framework_that_is_told(source):
    silent(source, CODE)


# -- fixes ------------------------------------------------------------------------------------

WITH = 'with torch.autocast(device_type="cuda", dtype=torch.bfloat16):\n'


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param(FORWARD, id="two lines"),
        pytest.param("loss = criterion(model(x), y)  # the loss", id="one line"),
        pytest.param(
            "output = model(\n    x\n)\n# compare\n"
            "loss = nn.functional.mse_loss(output.view(-1), y)",
            id="several lines, with a comment",
        ),
        pytest.param(
            "output = model(x)\n_, right = torch.max(output, 1)\nloss = criterion(output, y)",
            id="with the prediction in between",
        ),
    ],
)
def test_fixes(forward):
    wanted = script(WITH + textwrap.indent(forward, "    "))
    assert fixed(script(forward), CODE) == wanted
    (found,) = check(script(forward), CODE)
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    "use",
    [
        "right += (output.argmax(1) == y).sum()",
        "_, best = output.detach().max(1)",
        "best = torch.max(output.data, 1)[1]",
        "print(output.shape, loss.item())",
        "total += loss.item() * len(output)",
        "report(float=nn.functional.cross_entropy(output, y).item())",
    ],
)
def test_uses_of_the_output_that_no_type_matters_to(use):
    assert "autocast" in fixed(script(backward=f"{BACKWARD}\n{use}"), CODE)


@pytest.mark.parametrize(
    ("device", "enabled"),
    [
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'device.type == "cuda"'),
        ('"cuda" if torch.cuda.is_available() else "cpu"', "torch.cuda.is_available()"),
    ],
)
def test_autocast_is_off_where_there_is_no_gpu(device, enabled):
    source = script(head=f"device = {device}", move=".to(device)")
    text = fixed(source, CODE)
    assert f'autocast("cuda", dtype=torch.bfloat16, enabled={enabled}):' in text
    text = fixed(source, CODE, preferences=HALF)
    assert f'scaler = torch.amp.GradScaler("cuda", enabled={enabled})' in text


SCALED = (
    "optimizer.zero_grad()\nscaler.scale(loss).backward()\n{}"
    "scaler.step(optimizer)\nscaler.update()"
)
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
CLIPPED = BACKWARD.replace("optimizer.step", CLIP + "optimizer.step")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BACKWARD, SCALED.format(""), id="scaled"),
        pytest.param(
            CLIPPED, SCALED.format("scaler.unscale_(optimizer)\n" + CLIP), id="unscaled to clip"
        ),
    ],
)
def test_float16_gets_a_scaler(before, after):
    forward = WITH.replace("bfloat16", "float16") + textwrap.indent(FORWARD, "    ")
    made = 'scaler = torch.amp.GradScaler("cuda")'
    wanted = script(forward, after, scaler=made)
    assert fixed(script(backward=before), CODE, preferences=HALF) == wanted
    old = wanted.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    assert fixed(script(backward=before), CODE, preferences=HALF, target="2.0") == old


@pytest.mark.parametrize(
    "source",
    [
        script(backward=BACKWARD.replace("optimizer.step", "log(model)\noptimizer.step")),
        script(optimizer="torch.optim.SGD(model.parameters(), lr=0.1, fused=True)"),
        script(optimizer="choose(torch.optim.SGD(model.parameters(), lr=0.1))"),
    ],
    ids=["something may look at the gradients", "a fused update", "from somewhere"],
)
def test_float16_without_a_fix(source):
    assert fixed(source, CODE, preferences=HALF, settles=False) == source


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (script(criterion="nn.BCELoss()"), "BCEWithLogitsLoss"),
        (
            script("loss = nn.functional.binary_cross_entropy(model(x), y)"),
            "binary_cross_entropy_with_logits",
        ),
        (script(model=f"nn.DataParallel({NET})"), "DataParallel"),
        (script(model="nn.LSTM(8, 8)"), "dtype=torch.float16"),
    ],
)
def test_says_what_stands_in_the_way(source, said):
    (found,) = check(source, CODE)
    assert said in found.help


# -- what torch does --------------------------------------------------------------------------


RUN = """
torch.manual_seed(0)
losses = []
def batches():
    for _ in range(40):
        x = torch.randn(64, 8)
        yield x, x[:, :4].argmax(1)
train(batches())
"""


@pytest.mark.parametrize("preferences", [Preferences(), HALF], ids=["bfloat16", "float16"])
def test_what_is_written_trains_as_before(preferences):
    """On the CPU, in the lower precision: losses go down as they did."""
    source = script(backward=BACKWARD.replace("optimizer.step", CLIP + "optimizer.step"))
    after = fixed(source, CODE, preferences=preferences)
    losses = []
    for text in (source, after):
        on_cpu = text.replace(".cuda()", "").replace('"cuda"', '"cpu"')
        names: dict[str, object] = {}
        exec(on_cpu + "        losses.append(loss.item())\n" + RUN, names)  # noqa: S102
        losses.append(names["losses"])
    assert losses[0] != losses[1]
    assert losses[0][-1] < losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_what_torch_does():
    """A loss is computed in float32 under autocast, whatever its input is."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = torch.nn.Linear(4, 4)(torch.ones(2, 4))
        loss = torch.nn.functional.cross_entropy(output, torch.tensor([0, 1]))
    assert output.dtype is torch.bfloat16
    assert loss.dtype is torch.float32


OWN_BACKWARD = "from torch.autograd import Function\nclass Group(Function): ...\n"

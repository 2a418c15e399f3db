"""TL601: optimizers that could update in one kernel, and fused ones that lose it or go wrong."""

from __future__ import annotations

import warnings

import pytest
import torch
from tools import check, fixed, silent

from torchlint.edits.fix import Safety
from torchlint.rule import Severity

CODE = "TL601"
P = "model.parameters()"
SCALER = "scaler = torch.amp.GradScaler('cuda')"


def script(
    made: str = f"torch.optim.AdamW({P}, lr=0.1)",
    head: str = "",
    tail: str = "",
    to: str = "cuda()",
) -> str:
    """Return a script that trains a model on a GPU."""
    return (
        f"import torch\n{head}\n"
        f"model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)]).{to}\n"
        f"optimizer = {made}\n"
        "for x in data:\n    optimizer.zero_grad()\n    model(x).sum().backward()\n"
        f"    optimizer.step()\n{tail}"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(f"torch.optim.RMSprop({P})"), id="no fused kernel"),
        pytest.param(script(f"torch.optim.AdamW({P}, fused=True)"), id="fused"),
        pytest.param(script(f"torch.optim.AdamW({P}, fused=fused)"), id="a variable decides"),
        pytest.param(
            script(f"torch.optim.AdamW({P}, **kw)", "kw = dict(fused=use_cuda)"), id="a dictionary"
        ),
        pytest.param(script(f"torch.optim.AdamW({P}, foreach=True)"), id="beside foreach"),
        pytest.param(
            script(f"torch.optim.Adagrad({P}, 0.1, 0, 0, 0, 1e-9, True)"), id="by position"
        ),
        pytest.param(script(f"torch.optim.AdamW({P}, differentiable=True)"), id="differentiable"),
        pytest.param(script(f"torch.optim.SGD({P}, 0.1, 0.9)"), id="few kernels for SGD"),
        pytest.param(
            script(f"torch.optim.SGD({P}, 0.1, 0.9, foreach=False)", SCALER), id="it may spoil it"
        ),
        pytest.param(script(head="import torch_xla"), id="another device"),
        pytest.param(script("other.AdamW(model.parameters())"), id="not torch's"),
    ],
)
def test_is_silent(source):
    silent(source, CODE)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (script(), "1.13"),
        (script(f"torch.optim.SGD({P}, foreach=False)"), "2.2"),
        (script(f"torch.optim.Adagrad({P})"), "2.12"),
        (script(to="train()"), "2.3"),
    ],
)
def test_is_silent_on_versions_without_the_kernel(source, target):
    silent(source, CODE, target)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(script(f"torch.optim.AdamW({P}, **options)"), id="unknown arguments"),
        pytest.param(script(f"torch.optim.Adagrad({P})"), id="by torch 2.13"),
        pytest.param(script(head="import accelerate"), id="under a framework"),
        pytest.param(script(f"torch.optim.AdamW({P}, fused=None)"), id="in so many words"),
        pytest.param(
            script(f"torch.optim.AdamW({P}, **kw)", "kw = {'fused': False}"), id="in a dictionary"
        ),
        pytest.param(
            script("OF[args.name](model.parameters())", "OF = {'a': torch.optim.Adam, "
                   "'b': torch.optim.RMSprop}"),
            id="another one has none",
        ),
    ],
)  # fmt: skip
def test_advises_without_a_fix(source):
    (found,) = check(source, CODE)
    assert found.severity is Severity.INFO
    assert found.fix is None


@pytest.mark.parametrize(
    ("made", "head", "since"),
    [
        (f"torch.optim.Adam({P})", "", "2.0"),
        (f"torch.optim.SGD({P}, foreach=False)", "", "2.3"),
        (f"getattr(torch.optim, 'Adam')({P})", "", "2.0"),
        (f"OF[args.name]({P})", "OF = {'a': torch.optim.Adam, 's': torch.optim.SGD}", "2.3"),
        (f"optim.Adam({P})", "import torch.optim as optim", "2.0"),
        (f"getattr(torch.optim, 'SGD')({P})", "", "2.3"),
        (f"torch.optim.Adam({P})", "# amp, compiled, fused and apex are words", "2.0"),
    ],
)
def test_reports(made, head, since):
    (found,) = check(script(made, head), CODE)
    assert found.severity is Severity.INFO
    assert found.message.endswith(f"does it in one kernel (from torch {since} on)")
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize("argument", ["foreach=False", "fused=False"])
def test_told_not_to(argument):
    (found,) = check(script(f"torch.optim.AdamW({P}, {argument})"), CODE, "2.4")
    assert found.message.startswith(f"`{argument}` makes `torch.optim.AdamW` update one parameter")


def test_on_the_cpu_whatever_else_is_on_a_gpu():
    (found,) = check(script("torch.optim.AdamW([{'params': [torch.zeros(3)]}])"), CODE)
    assert "on the CPU" in found.message


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad"])
def test_on_the_cpu(kind):
    source = script(f"torch.optim.{kind}({P})", to="train()")
    (found,) = check(source, CODE, "2.4")
    assert "one parameter after the other on the CPU" in found.message
    assert f"torch.optim.{kind}({P}, fused=True)" in fixed(source, CODE, target="2.4")


# -- fixes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (f"{P}, lr=0.1", f"{P}, lr=0.1, fused=True"),
        (f"{P}, **kw", f"{P}, fused=True, **kw"),
        (f"{P}, foreach=False", f"{P}, fused=True"),
        (f"{P}, fused=False", f"{P}, fused=True"),
        (f"\n    {P},  # all\n    lr=0.1,\n", f"\n    {P},  # all\n    lr=0.1,\n    fused=True,\n"),
    ],
)
def test_fixes(given, becomes):
    before, head = script(f"torch.optim.AdamW({given})", "kw = {'lr': 0.1}"), "kw = {'lr': 0.1}"
    assert fixed(before, CODE) == script(f"torch.optim.AdamW({becomes})", head)
    assert fixed(before, CODE, unsafe=False, settles=False) == before


LOAD = 'optimizer.load_state_dict(checkpoint["optimizer"])\n'
SET = """for group in checkpoint["optimizer"]["param_groups"]:
    group["fused"] = optimizer.defaults["fused"]
"""
TAKEN = SET.replace("group[", "saved_group[").replace("for g", "for saved_g")
UNNAMED = "optimizer.load_state_dict(torch.load(path))\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LOAD, SET + LOAD),
        (f"# go on\n{LOAD}", SET + f"# go on\n{LOAD}"),
        (f"group = 1\n{LOAD}", f"group = 1\n{TAKEN}{LOAD}"),
        (UNNAMED, UNNAMED),
        ("model.load_state_dict(state)\n", "model.load_state_dict(state)\n"),
    ],
)
def test_the_flag_is_put_into_states_that_are_loaded(before, after):
    saving = "torch.save(optimizer.state_dict(), path)\n"
    made = f"torch.optim.AdamW({P}"
    expected = script(f"{made}, fused=True)", tail=after + saving)
    assert fixed(script(f"{made})", tail=before + saving), CODE) == expected


def test_says_what_it_changes():
    (found,) = check(script(tail=UNNAMED), CODE)
    assert found.fix is not None
    assert "turns it off again" in found.fix.changes
    assert "below 2.0" in found.fix.changes
    (found,) = check(script(), CODE, "2.13")
    assert found.fix is not None
    assert found.fix.changes == "the results differ by rounding"


# -- TL601b -----------------------------------------------------------------------------------

FUSED = f"torch.optim.AdamW({P}, fused=True)"


@pytest.mark.parametrize(
    "source",
    [
        script(FUSED, tail=LOAD + "torch.save(optimizer.state_dict(), path)\n"),
        script(FUSED, tail=SET + LOAD),
        script(FUSED, tail=LOAD + "for g in optimizer.param_groups:\n    g['fused'] = True\n"),
        script(f"torch.optim.SGD({P}, momentum=0.9, fused=True)"),
    ],
)
def test_fused_is_left_alone(source):
    silent(source, CODE)


def test_lost_on_load():
    (found,) = check(script(FUSED, tail=LOAD), CODE)
    assert (found.code, found.severity) == ("TL601b", Severity.INFO)
    assert fixed(script(FUSED, tail=LOAD), CODE) == script(FUSED, tail=SET + LOAD)
    (found,) = check(script(FUSED, tail=UNNAMED), CODE)
    assert found.fix is None


# -- what torch does --------------------------------------------------------------------------


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

"""Parameters that no call gives: what may be given, what calls may hide, and what is left."""

from __future__ import annotations

import libcst as cst
import pytest
from probing import HEAD, parsed, probed, probes

from torchlint.analysis.left_out import is_never_named
from torchlint.analysis.values import Device

EVALUATE = """
def evaluate(loader, log=None, device="cpu"):
    probe(torch.ones(3).to(device))
"""


def lands(source: str, function: str = EVALUATE) -> Device:
    program = parsed(function + source, HEAD)
    return program.value(probed(program)).device


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param("", id="nobody calls it here"),
        pytest.param("evaluate(loader, device=device)", id="given by name"),
        pytest.param("evaluate(loader, None, 'cuda')", id="given by its place"),
        pytest.param("evaluate(loader)\nevaluate(loader, device='cuda')", id="by one of two"),
        pytest.param("evaluate(loader, **options)", id="perhaps, by a dictionary"),
        pytest.param("evaluate(*given)", id="perhaps, by a star"),
        pytest.param("evaluate(loader)\nrun(evaluate, device='cuda')", id="passed on"),
        pytest.param("evaluate(loader)\nsteps = {'eval': evaluate}", id="kept in a table"),
        pytest.param("evaluate(loader)\ntest = evaluate\ntest(x, None, 0)", id="another name"),
        pytest.param("evaluate(loader)\ntest: object = evaluate", id="another, annotated"),
        pytest.param("evaluate(loader)\nother.evaluate(loader, device='cuda')", id="of who knows"),
    ],
)
def test_what_a_call_may_give(calls: str) -> None:
    assert lands(calls).gpu


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param("evaluate(loader)", id="left out"),
        pytest.param("evaluate(loader, None)\nevaluate(loader=loader, log=log)", id="by each"),
        pytest.param("evaluate(loader, log=evaluate(loader))", id="what it gives is passed on"),
        pytest.param("evaluate(loader)\nif args.evaluate: pass", id="an option of the same name"),
    ],
)
def test_what_each_call_leaves_out(calls: str) -> None:
    assert lands(calls) is Device.CPU


def test_of_a_method_and_of_other_defaults() -> None:
    method = """
class Trainer:
    def fit(self):
        self.evaluate(loader{given})

    def evaluate(self, loader, device={default}):
        probe(torch.ones(3).to(device))
"""
    for default in ("'cpu'", "torch.device('cpu')"):
        assert lands("", method.format(given="", default=default)) is Device.CPU
        assert lands("", method.format(given=", place", default=default)).gpu
    assert lands("", method.format(given="", default="None")).gpu
    assert lands("", method.format(given="", default="'cuda'")) is not Device.CPU
    decorated = EVALUATE.replace("def", "@command\ndef")
    assert lands("evaluate(loader)", decorated).gpu


def never_named(source: str, params: str = "x, *, progress=False") -> bool:
    program = parsed(f"def attack({params}):\n    pass\n{source}\n", HEAD)
    (function, *_) = program.index.of(cst.FunctionDef)
    *_, param = (*function.params.params, *function.params.kwonly_params)
    return is_never_named(program, function, param)


@pytest.mark.parametrize(
    ("source", "never"),
    [
        pytest.param("attack(x, **options)", True, id="hidden, and written nowhere"),
        pytest.param("attack(x, progress=True)", False, id="given"),
        pytest.param("model(x, progress=True)", False, id="given to who knows what"),
        pytest.param("options = dict(progress=True)", False, id="among options"),
        pytest.param("options = {'progress': True}", False, id="in a dictionary"),
        pytest.param("parser.add_argument('--progress')", False, id="asked of the command line"),
        pytest.param(
            "def load(x, progress=True): pass\nload(x, progress=False)", True, id="of another"
        ),
        pytest.param(
            "def run(x, **more): attack(x, **more)\nrun(x, progress=True)", False, id="handed on"
        ),
    ],
)
def test_what_nothing_names(source: str, never: bool) -> None:
    assert never_named(source) is never
    assert not never_named(source, "x, progress=False")  # may be given by its place


@pytest.mark.parametrize(
    ("default", "test", "guarded"),
    [
        ("False", "progress", True),
        ("True", "progress", False),
        ("None", "progress", False),
        ("False", "not progress", False),
        ("False", "x", False),
    ],
)
def test_a_branch_that_nothing_asks_for(default: str, test: str, guarded: bool) -> None:
    program = parsed(
        f"""
        class Attack(nn.Module):
            def forward(self, x, *, progress={default}):
                if {test}:
                    probe(x)
        """,
        HEAD,
    )
    (call,) = probes(program)
    assert program.context(call).guarded is guarded

"""What runs in every training step, what in evaluation, and what only now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import pytest
from probing import HEAD, parsed, probes

from torchlint.analysis.loops import Role
from torchlint.analysis.program import Program
from torchlint.analysis.project import Project
from torchlint.imports import Imports

if TYPE_CHECKING:
    from pathlib import Path

STEP = "optimizer.zero_grad(); loss = f(x); loss.backward(); optimizer.step()"
TRAINING = f"for x in loader:\n    {STEP}\n    "
TASKS = "@torch.no_grad()\ndef run():\n    for task in tasks:\n        evaluate_task(task)\n"


def context(source: str) -> str:
    """How often the one ``probe()`` runs, in short."""
    program = parsed(source, HEAD)
    (call,) = probes(program)
    found = program.context(call)
    return found.role.name + (" guarded" if found.guarded else "")


CASES = [
    # plain loops
    pytest.param("probe()", "OTHER", id="a script"),
    pytest.param("for x in y: probe()", "OTHER", id="any loop"),
    pytest.param(TRAINING + "probe()", "TRAIN", id="a training loop"),
    pytest.param(TRAINING + "pass\nprobe()", "OTHER", id="after it"),
    pytest.param(TRAINING + "pass\nelse:\n    probe()", "OTHER", id="its else"),
    pytest.param(f"for x in probe():\n    {STEP}", "OTHER", id="what it iterates"),
    pytest.param(f"while probe():\n    {STEP}", "TRAIN", id="the condition of a while"),
    pytest.param(
        "while step < n:\n    loss = g(); loss.backward(); opt.step()\n    probe()",
        "TRAIN",
        id="a while loop",
    ),
    pytest.param(
        f"for epoch in range(9):\n    for x in loader:\n        {STEP}\n    probe()",
        "EPOCH",
        id="an epoch",
    ),
    pytest.param(
        f"for epoch in range(9):\n    for x in loader:\n        {STEP}\n        probe()",
        "TRAIN",
        id="a step in an epoch",
    ),
    pytest.param(
        f"for fold in range(5):\n    for epoch in e:\n        for x in y:\n            {STEP}"
        "\n    probe()",
        "EPOCH",
        id="a fold",
    ),
    pytest.param(TRAINING + "for p in ps:\n        probe()", "TRAIN", id="a loop in a step"),
    pytest.param("for m in models:\n    m.train()\n    probe()", "OTHER", id="no step at all"),
    pytest.param("for x in y:\n    scheduler.step()\n    probe()", "OTHER", id="a scheduler"),
    pytest.param(
        "s = torch.optim.lr_scheduler.StepLR(o)\nfor x in y:\n    s.step()\n    probe()",
        "OTHER",
        id="a scheduler by its value",
    ),
    pytest.param("for x in y:\n    env.step(a)\n    probe()", "OTHER", id="a simulator"),
    pytest.param(
        "o = torch.optim.SGD(ps)\nfor x in y:\n    o.step()\n    probe()",
        "TRAIN",
        id="an optimizer by its value",
    ),
    pytest.param("for x in y:\n    scaler.step(opt)\n    probe()", "TRAIN", id="a scaler"),
    pytest.param("for x in y:\n    optimizer_g.step()\n    probe()", "TRAIN", id="by its name"),
    pytest.param(
        "for x in y:\n    loss_scaler(loss, optimizer)\n    probe()",
        "TRAIN",
        id="a scaler that does it all",
    ),
    pytest.param("for x in y:\n    opt.zero_grad()\n    probe()", "TRAIN", id="zero_grad only"),
    pytest.param(
        "for x in y:\n    with torch.no_grad():\n        opt.zero_grad()\n    probe()",
        "OTHER",
        id="zero_grad without gradients",
    ),
    pytest.param(
        "for x in y:\n    self.manual_backward(loss)\n    probe()", "TRAIN", id="manual_backward"
    ),
    pytest.param("for x in y:\n    f(x)()\n    probe()", "OTHER", id="calls of results"),
    # accumulation
    pytest.param(
        "for step in s:\n    for micro in m:\n        f(micro).backward()\n        probe()\n"
        "    optimizer.step()",
        "TRAIN",
        id="a micro-step",
    ),
    pytest.param(
        "for step in s:\n    for micro in m:\n        f(micro).backward()\n"
        "    optimizer.step()\n    probe()",
        "TRAIN",
        id="the step of many micro-steps",
    ),
    # GAN
    pytest.param(
        "for x in loader:\n    d_loss.backward(); opt_d.step()\n"
        "    for k in range(2):\n        g_loss.backward(); opt_g.step()\n    probe()",
        "TRAIN",
        id="two optimizers, one in an inner loop",
    ),
    # closures
    pytest.param(
        "for i in range(9):\n    def closure():\n        opt.zero_grad(); f().backward()\n"
        "        probe()\n    opt.step(closure)",
        "TRAIN",
        id="a closure",
    ),
    pytest.param(
        "def closure():\n    loss = f(); loss.backward()\n    return loss\n"
        "for i in range(9):\n    opt.step(closure)\n    probe()",
        "TRAIN",
        id="the loop of a closure",
    ),
    # functions
    pytest.param(
        f"def train():\n    for x in loader:\n        {STEP}\n        probe()",
        "TRAIN",
        id="a loop in a function",
    ),
    pytest.param(
        f"def train():\n    for x in loader:\n        {STEP}\n    probe()\n"
        "for e in range(9):\n    train()",
        "EPOCH",
        id="around it, called per epoch",
    ),
    pytest.param(
        f"def train():\n    for x in loader:\n        {STEP}\n"
        "for e in range(9):\n    train()\n    probe()",
        "EPOCH",
        id="an epoch whose steps are elsewhere",
    ),
    pytest.param(
        f"def one():\n    for x in loader:\n        {STEP}\ndef two(): one()\n"
        "for e in range(9):\n    two()\n    probe()",
        "EPOCH",
        id="two calls away",
    ),
    pytest.param(
        f"def step(x):\n    {STEP}\n    probe()\nfor x in loader: step(x)",
        "TRAIN",
        id="a step function",
    ),
    pytest.param(
        f"def step(x):\n    {STEP}\nfor x in loader:\n    step(x)\n    probe()",
        "TRAIN",
        id="the loop of a step function",
    ),
    pytest.param(
        f"def step(x):\n    {STEP}\nfor e in es:\n    for x in loader:\n        step(x)\n"
        "    probe()",
        "EPOCH",
        id="the epoch of a step function",
    ),
    pytest.param(TRAINING + "g()\ndef g():\n    probe()", "TRAIN", id="called in a step"),
    pytest.param(
        TRAINING + "g()\ndef g():\n    h()\ndef h():\n    probe()",
        "TRAIN",
        id="called by what is called in a step",
    ),
    pytest.param(
        TRAINING + "g()\ndef g():\n    h()\ndef h():\n    g()\n    probe()",
        "TRAIN",
        id="in a circle of calls",
    ),
    pytest.param(
        "def g():\n    h()\ndef h():\n    g()\n    probe()",
        "OTHER",
        id="a circle that nobody calls",
    ),
    pytest.param("def g():\n    probe()", "OTHER", id="a function that nobody calls"),
    pytest.param(
        "def g():\n    probe()\ng()\n" + TRAINING + "g()", "TRAIN", id="called here and in a step"
    ),
    pytest.param(
        TRAINING + "if step % 100 == 0:\n        g()\ndef g():\n    probe()",
        "TRAIN guarded",
        id="called now and then",
    ),
    pytest.param(
        "def main():\n    loss = f(); loss.backward(); opt.step()\n    probe()\nmain()",
        "OTHER",
        id="one step in a script",
    ),
    # classes
    pytest.param(
        f"class Trainer:\n    def train_step(self, x):\n        {STEP}\n        probe()",
        "TRAIN",
        id="a step method",
    ),
    pytest.param(
        f"class Trainer:\n    def step(self, x):\n        {STEP}\n        probe()\n"
        "    def fit(self):\n        for x in self.loader:\n            self.step(x)",
        "TRAIN",
        id="a step method of any name",
    ),
    pytest.param(
        f"class Trainer:\n    def step(self, x):\n        {STEP}\n"
        "    def fit(self):\n        for x in self.loader:\n            self.step(x)\n"
        "            probe()",
        "TRAIN",
        id="its loop",
    ),
    pytest.param(
        f"class Trainer:\n    def epoch(self):\n        for x in self.loader:\n"
        f"            {STEP}\n    def fit(self):\n        for e in range(9):\n"
        "            self.epoch()\n            probe()",
        "EPOCH",
        id="the epochs of a class",
    ),
    pytest.param(
        f"class Trainer:\n    def epoch(self):\n        for x in self.loader:\n"
        f"            {STEP}\nt = Trainer()\nfor e in range(9):\n    t.epoch()\n    probe()",
        "EPOCH",
        id="an object's epochs",
    ),
    pytest.param(
        "class N(nn.Module):\n    def forward(self, x):\n        probe()", "FORWARD", id="forward"
    ),
    pytest.param(
        "class N(nn.Module):\n    def forward(self, x):\n        self.g()\n"
        "    def g(self):\n        probe()",
        "FORWARD",
        id="called by forward",
    ),
    pytest.param(
        "class N:\n    def forward(self, x):\n        probe()", "OTHER", id="forward of no module"
    ),
    pytest.param(
        "class N(L):\n    def training_step(self, batch, i):\n        probe()", "TRAIN", id="a hook"
    ),
    pytest.param(
        "class N(L):\n    def validation_step(self, batch, i):\n        probe()",
        "EVAL",
        id="a hook of validation",
    ),
    # evaluation
    pytest.param(
        "with torch.no_grad():\n    for x in loader:\n        probe()",
        "EVAL",
        id="without gradients",
    ),
    pytest.param(
        "with torch.set_grad_enabled(False):\n    for x in loader:\n        probe()",
        "EVAL",
        id="gradients disabled",
    ),
    pytest.param(
        "with torch.set_grad_enabled(phase):\n    for x in loader:\n        probe()",
        "OTHER",
        id="gradients by phase",
    ),
    pytest.param(
        "@torch.inference_mode()\ndef g():\n    for x in loader:\n        probe()",
        "EVAL",
        id="a decorated function",
    ),
    pytest.param(
        "def validate():\n    for x in loader:\n        probe()", "EVAL", id="by its name"
    ),
    pytest.param(
        "def run():\n    model.eval()\n    for x in loader:\n        probe()",
        "EVAL",
        id="by .eval()",
    ),
    pytest.param(
        "def run():\n    model.train(False)\n    for x in loader:\n        probe()",
        "EVAL",
        id="by .train(False)",
    ),
    pytest.param(
        "def run():\n    model.train(True)\n    for x in loader:\n        probe()",
        "OTHER",
        id="by .train(True)",
    ),
    pytest.param(
        "def train_and_test():\n    model.eval()\n    for x in loader:\n        probe()",
        "OTHER",
        id="training by its name",
    ),
    pytest.param(
        "def attack_test():\n    f().backward()\n    for x in loader:\n        probe()",
        "OTHER",
        id="a test with gradients",
    ),
    pytest.param(
        TRAINING + "if step % 9 == 0:\n        with torch.no_grad():\n"
        "            for v in val_loader:\n                probe()",
        "EVAL",
        id="validation in training",
    ),
    pytest.param(
        TRAINING + "validate()\ndef validate():\n    for v in val_loader:\n        probe()",
        "EVAL",
        id="a function of that name called in training",
    ),
    pytest.param(
        TRAINING + "accuracy(y)\n@torch.no_grad()\ndef accuracy(y):\n    for k in ks:\n"
        "        probe()",
        "TRAIN",
        id="a metric of every step",
    ),
    pytest.param(
        TRAINING + "validate()\ndef validate():\n    run()\ndef run():\n    with torch.no_grad():\n"
        "        for v in val_loader:\n            probe()",
        "EVAL",
        id="a part of an evaluation called in training",
    ),
    pytest.param(
        "def validate():\n    for v in val_loader:\n        g(v)\ndef g(v): probe()",
        "EVAL",
        id="called in evaluation",
    ),
    pytest.param(
        f"for e in range(9):\n    for x in loader:\n        {STEP}\n"
        "    with torch.no_grad():\n        for x in val:\n            probe()",
        "EVAL",
        id="after the steps of an epoch",
    ),
    pytest.param(
        "@torch.no_grad()\ndef evaluate(folds):\n    for fold in folds:\n"
        "        for x in fold.loader:\n            model(x)\n        probe()",
        "OTHER",
        id="after the batches of a fold",
    ),
    pytest.param(
        "@torch.no_grad()\ndef evaluate(folds):\n    for fold in folds:\n"
        "        for x in fold.loader:\n            probe(model(x))",
        "EVAL",
        id="a batch of a fold",
    ),
    pytest.param(
        "@torch.no_grad()\ndef evaluate(loader):\n    for x in loader:\n"
        "        for crop in crops(x):\n            model(crop)\n        probe()",
        "EVAL",
        id="after the parts of a batch",
    ),
    pytest.param(
        TASKS + "@torch.no_grad()\ndef evaluate_task(data):\n    for i in range(len(data)):\n"
        "        model(data[i])\n    probe()",
        "OTHER",
        id="after the loop of an evaluation that a loop over tasks calls",
    ),
    pytest.param(
        TASKS + "@torch.no_grad()\ndef evaluate_task(data):\n    for i in range(len(data)):\n"
        "        probe(model(data[i]))",
        "EVAL",
        id="in the loop of an evaluation that a loop over tasks calls",
    ),
    pytest.param(
        TASKS.replace("_task", "_batch")
        + "@torch.no_grad()\ndef evaluate_batch(data):\n    for i in range(len(data)):\n"
        "        model(data[i])\n    probe()",
        "EVAL",
        id="after the loop of a step",
    ),
    pytest.param(
        TASKS + "@torch.no_grad()\ndef evaluate_task(data):\n    for i in range(9):\n"
        "        model(data[i])\n    probe()",
        "EVAL",
        id="after turns that go through no data",
    ),
    *(
        pytest.param(TRAINING + text, "TRAIN", id=reason)
        for reason, text in {
            "an option sets how to clip": "if args.clip is not None:\n"
            "        torch.nn.utils.clip_grad_norm_(ps, args.clip)\n        probe()",
            "an option above nothing": "if cfg.clip > 0:\n"
            "        torch.nn.utils.clip_grad_norm_(ps, max_norm=cfg.clip)\n        probe()",
            "an episode ends, and a step is taken": "if done:\n        optimizer.step(); probe()",
            "an episode goes on": "if not done:\n        probe()",
            "many processes": "if args.distributed:\n        probe()",
            "more than one process": "if args.world_size > 1:\n        probe()",
            "with the step of the gradients that were added up": "if (i + 1) % args.every == 0:\n"
            "        optimizer.step()\n        probe()",
            "with that of a scaler": "if i % 4 == 3:\n        scaler.step(o)\n        probe()",
        }.items()
    ),
    # guards
    *(
        pytest.param(TRAINING + text, "TRAIN guarded", id=reason)
        for reason, text in {
            "an episode ends": "if done:\n        probe()",
            "that of an object": "if not x: pass\n    if agent.is_done:\n        probe()",
            "an episode ends or is cut": "if terminated or truncated:\n        probe()",
            "every n steps": "if i % 100 == 0:\n        probe()",
            "every n steps, beside a schedule": "if i % 9 == 0:\n        plan.step()\n"
            "        probe()",
            "with an extra step every n": "if i % 16 == 0:\n        penalty(x).backward()\n"
            "        optimizer.step()\n        probe()",
            "now and then, with the step": "if i % 4 == 0:\n        optimizer.step()\n"
            "        if i % 100 == 0:\n            probe()",
            "every n steps, negated": "if not i % 100:\n        probe()",
            "every n steps, otherwise": "if i % 100 != 0: pass\n    else: probe()",
            "by an option": "if args.x:\n        probe()",
            "by an option of how much": "if args.shots > 0:\n        probe(args.shots)",
            "by an option, for a file": "if args.log is not None:\n"
            "        torch.save(x, args.log)\n        probe()",
            "by an option for something else": "if args.x:\n        torch.rand(args.y)\n"
            "        probe()",
            "by less than an option": "if args.world_size < 2:\n        probe()",
            "in one process": "if not args.distributed:\n        probe()",
            "on another rank": "if rank == 1:\n        probe()",
            "on some ranks": "if rank < 4:\n        probe()",
            "on the main process, if asked": "if args.x and is_main_process():\n        probe()",
            "on one rank, every n steps": "if rank == 0 and i % 9 == 0:\n        probe()",
            "on the main process, by time": "if is_main() and time() - t > 9:\n        probe()",
            "by a word": "if verbose:\n        probe()",
            "by time": "if time.time() - t > 9:\n        probe()",
            "in elif": "if a:\n        pass\n    elif i % 9 == 0:\n        probe()",
            "the first step": "if i == 0:\n        probe()",
            "the first steps": "for j, y in enumerate(x):\n        if j < 4:\n            probe()",
            "the last step": "if i == len(loader) - 1:\n        probe()",
            "steps that are named": "if i in shown:\n        probe()",
            "steps of an object": "if self.on and batch_idx in self.shown:\n        probe()",
            "then it ends": "if bad(loss):\n        probe()\n        break",
            "then it raises": "if bad(loss):\n        probe()\n        raise ValueError",
            "else it raises": "if a:\n        pass\n    else:\n        probe()\n        raise E",
            "the first turn": "if kept is None:\n        kept = probe()",
            "the first call": "if self.kept is None:\n        self.kept = probe()",
            "then it exits": "if bad(loss):\n        probe()\n        sys.exit(1)",
            "in a handler": "try:\n        g()\n    except E:\n        probe()",
            "in a handler of groups": "try:\n        g()\n    except* E:\n        probe()",
            "after continue": "if i % 100:\n        continue\n    probe()",
            "after a step that is counted off": "if i % 5:\n        critic(x).backward()\n"
            "        continue\n    probe()",
            "after a step that is drawn": "if random.random() < args.rate:\n"
            "        mixed(x).backward()\n        continue\n    probe()",
            "after what an option leaves out": "if i < args.skip:\n        continue\n    probe()",
            "after all turns but one": "if i != 4:\n        continue\n    probe()",
            "after turns that are counted off": "if i % 9 == 0:\n        continue\n    probe()",
            "after a wanted value": "if not args.debug == 0:\n        continue\n    probe()",
            "in the turn that is left out": "if i == 4:\n        probe()\n        continue",
            "on the first two ranks": "if rank in (0, 1):\n        probe()",
            "at times, alone": "if rank in (-1, 0) and i % 9 == 0:\n        probe()",
            "in an expression": "x = probe() if i % 9 == 0 else 0",
            "drawn": "if random.random() < rate:\n        probe()",
            "drawn by torch": "if torch.rand([]).item() < rate:\n        probe()",
            "drawn before": "some = random.random() < rate and a\n    if some:\n        probe()",
            "not drawn": "if np.random.rand() > rate: pass\n    else: probe()",
            "into an empty list": "if len(kept) == 0:\n        kept.append(probe())",
            "into no list": "if not kept:\n        kept.append(probe())",
            "with nothing yet": "if not seen:\n        first = probe()\n        seen = True",
            "after a guard": "if i % 9 == 0 and probe():\n        pass",
            "in a branch of a branch": "if i % 9 == 0:\n        if a:\n            probe()",
            "in a loop in a branch": "if i % 9 == 0:\n        for k in ks:\n            probe()",
        }.items()
    ),
    *(
        pytest.param(TRAINING + text, "TRAIN", id=reason)
        for reason, text in {
            "one of two names": "some = random.random() < rate\n    if a: some = b\n"
            "    if some:\n        probe()",
            "of what is drawn": "if sample(x) < rate:\n        probe()",
            "empty in each turn": "kept = []\n    if not kept:\n        kept.append(probe())",
            "emptied": "if not kept:\n        kept.append(probe())\n    kept.clear()",
            "left empty": "if not kept:\n        probe()",
            "filled at times": "if not kept:\n        if probe():\n            kept.append(1)",
            "set to nothing": "if not kept:\n        kept = []\n        probe()",
            "before a guard": "if probe() and i % 9 == 0:\n        pass",
            "or a guard": "if i % 9 == 0 or probe():\n        pass",
            "none in each turn": "a = None\n    if a is None:\n        a = probe()",
            "none of something else": "if kept is None:\n        rest = probe()",
            "else it ends": "if good(x):\n        break\n    else:\n        probe()",
            "any condition": "if loss > 3:\n        probe()",
            "the first block": "if is_first_block:\n        probe()",
            "one of many": "if label in known:\n        probe()",
            "a small value": "for j, y in enumerate(x):\n        if y < 4:\n            probe()",
            "all but the first": "for j in range(9):\n        if j > 4:\n            probe()",
            "any question": "if fits():\n        probe()",
            "otherwise of any condition": "if loss > 3:\n        pass\n    else:\n        probe()",
            "otherwise of every n steps": "if i % 9 == 0: pass\n    else: probe()",
            "the test itself": "if probe() and i % 9 == 0:\n        pass",
            "otherwise of an expression": "x = 0 if i % 9 == 0 else probe()",
            "before continue": "probe()\n    if i % 100:\n        continue",
            "on one rank": "if rank == 0:\n        probe()",
            "on one rank, but for failures": "if not failed and rank == 0:\n        probe()",
            "on the rank of an option": "if args.local_rank == 0:\n        probe()",
            "on the main process": "if is_main_process():\n        probe()",
            "on the master process": "if master_process:\n        probe()",
            "on the primary process": "if comm.is_primary():\n        probe()",
            "on the chief": "if not free and self.is_chief:\n        probe()",
            "after a rank that has a name": "one = get_rank() == 0\n    if one:\n        probe()",
            "alone or on the first rank": "if rank in {-1, 0}:\n        probe()",
            "alone or on the first local rank": "if args.local_rank in [-1, 0]:\n        probe()",
            "alone": "if rank == -1:\n        probe()",
            "after continue for any reason": "if bad(x):\n        continue\n    probe()",
            "after continue for a value": "if bool(loss == 0):\n        continue\n    probe()",
            "after continue in the first turn": "if i == 0:\n        continue\n    probe()",
            "after continue in the last": "if i == n - 1:\n        continue\n    probe()",
            "after continue in a few": "for j in range(9):\n        if j < 4:\n"
            "            continue\n        probe()",
            "after continue on the first rank": "if rank == 0 and bad(x):\n        continue\n"
            "    probe()",
            "in try": "try:\n        probe()\n    except E:\n        pass",
            "without gradients": "with torch.no_grad():\n        probe()",
            "in a lambda": "g(lambda: probe())",
        }.items()
    ),
]


@pytest.mark.parametrize(("source", "role"), CASES)
def test_context(source: str, role: str) -> None:
    assert context(source) == role


@pytest.mark.parametrize(
    ("mark", "role"),
    [
        ("@functools.lru_cache(maxsize=128)", "OTHER"),
        ("@functools.cache", "OTHER"),
        ("@functools.wraps(g)", "TRAIN"),
        ("@cache", "TRAIN"),
    ],
)
def test_a_function_whose_results_are_remembered_runs_once(mark: str, role: str) -> None:
    source = f"import functools\n{mark}\ndef f(n):\n    probe()\n"
    assert context(source + TRAINING.replace("f(x)", "f(4)") + "pass") == role


@pytest.mark.parametrize(
    ("lines", "role"),
    [
        ("if phase == 'valid': probe()", "EVAL"),
        ("if self.mode == 'test':\n        show()\n        probe()", "EVAL"),
        ("if phase != 'train': probe()", "EVAL"),
        ("if phase == 'train': show()\n    else: probe()", "EVAL"),
        ("if stage != sb.Stage.TRAIN: probe()", "EVAL"),
        ("if stage == Stage.VALID: probe()", "EVAL"),
        ("if stage == Stage.TRAIN: probe()\n    else: show()", "TRAIN"),
        ("if kind != other.train: probe()", "TRAIN"),
        ("if not self.training: probe()", "EVAL"),
        ("if self.training is False: probe()", "EVAL"),
        ("if self.training is True: show()\n    else: probe()", "EVAL"),
        ("if not self.training: show()\n    else: probe()", "TRAIN"),
        ("if self.training: probe()", "TRAIN"),
        ("if not self.training and loud: probe()", "EVAL"),
        ("if self.training or loud: show()\n    else: probe()", "EVAL"),
        ("if self.training and loud: show()\n    else: probe()", "TRAIN"),  # both
        ("if not self.training or loud: probe()", "TRAIN"),
        ("if self.ready is False: probe()", "TRAIN"),
        ("if train: show()\n    else: probe()", "EVAL"),
        ("if not opt.isTrain: probe()", "EVAL"),
        ("if train: probe()", "TRAIN"),
        ("if not train:\n        probe()\n        loss.backward()", "TRAIN"),
        ("if not trained: probe()", "TRAIN"),
        ("if not train_on(x): probe()", "TRAIN"),
        ("if phase == 'train': probe()", "TRAIN"),
        ("if phase != 'train': show()\n    else: probe()", "TRAIN"),
        ("if phase == 'valid': show()\n    else: probe()", "TRAIN"),
        ("if loss_type == 'mse': probe()", "TRAIN"),
        ("if phase == 'test':\n        probe()\n        loss.backward()", "TRAIN"),
    ],
)
def test_the_branch_for_an_evaluation_of_a_loop_that_does_both(lines: str, role: str) -> None:
    assert context(TRAINING + lines) == role


BESIDE = """\
def fit(model, loader, others):
    for x in loader:
        model(x).backward()
        opt.step()
    for x in {}:
        with torch.no_grad():
            {}
        probe()
"""


@pytest.mark.parametrize(
    ("data", "line", "role"),
    [
        ("val_loader", "y = model(x)", "EVAL"),
        ("others", "y = model(x)", "OTHER"),  # nobody knows of what
        ("val_loader", "x.mul_(2)", "OTHER"),
        ("range(9)", "y = model(x)", "OTHER"),
    ],
)
def test_turns_that_run_a_model_without_gradients_beside_a_training(
    data: str, line: str, role: str
) -> None:
    assert context(BESIDE.format(data, line)) == role


def test_a_default_is_made_for_a_key_that_is_not_there_yet() -> None:
    made = "from collections import defaultdict\n" + TRAINING
    assert context(made + "found = defaultdict(lambda: probe())") == "TRAIN guarded"
    assert context(made + "found = default(lambda: probe())") == "TRAIN"


def test_only_unguarded_steps_are_per_step() -> None:
    program = parsed(TRAINING + "probe()\n    if i % 9 == 0:\n        probe()\nprobe()", HEAD)
    assert [program.context(call).per_step for call in probes(program)] == [True, False, False]


def test_the_loop_that_makes_it_run() -> None:
    program = parsed(
        f"def step(x):\n    {STEP}\n    probe()\nfor x in y:\n    step(x)\n    probe()"
    )
    inside, outside = probes(program)
    assert isinstance(program.context(inside).loop, cst.FunctionDef)
    assert program.context(outside).loop is program.index.of(cst.For)[0]


LOSSES = """\
def losses(x):
    optimizer.zero_grad()
    return model(x)

{}:
    {}
    for x in loader:
        loss = losses(x)
        {}
        probe()
"""


@pytest.mark.parametrize(
    ("function", "before", "step", "expected"),
    [
        pytest.param("def evaluate()", "pass", "pass", "EVAL", id="an evaluation by name"),
        pytest.param("def measure()", "model.eval()", "pass", "EVAL", id="by what it calls"),
        pytest.param("with torch.no_grad()", "pass", "pass", "EVAL", id="without gradients"),
        pytest.param("def run()", "pass", "pass", "TRAIN", id="nobody knows who goes backward"),
        pytest.param("def train()", "model.eval()", "pass", "TRAIN", id="it trains"),
        pytest.param("def evaluate()", "pass", "engine.backward(loss)", "TRAIN", id="backward"),
        pytest.param("def evaluate()", "pass", "optimizer.step()", "TRAIN", id="a step"),
    ],
)
def test_an_evaluation_may_clear_gradients_with_its_losses(
    function: str, before: str, step: str, expected: str
) -> None:
    assert context(LOSSES.format(function, before, step)) == expected


def test_roles_of_loops() -> None:
    program = parsed(
        f"for e in es:\n    for x in loader:\n        {STEP}\nwhile a:\n    pass\n"
        "def test():\n    for x in loader: pass",
        HEAD,
    )
    loops = [*program.index.of(cst.For), *program.index.of(cst.While)]
    roles = [program.loops.role(loop) for loop in loops]
    assert roles == [Role.EPOCH, Role.TRAIN, Role.EVAL, Role.OTHER]
    assert program.loops.training == [loops[1]]


def test_answers_do_not_depend_on_the_order_of_the_questions() -> None:
    source = TRAINING + "a()\ndef a(): probe(); b()\ndef b(): probe(); c()\ndef c(): probe(); a()"
    first, second = Program(source), Program(source)
    forwards = [first.context(call).role for call in probes(first)]
    backwards = [second.context(call).role for call in reversed(probes(second))]
    assert forwards == backwards[::-1] == [Role.TRAIN] * 3


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for x in y:\n    loss.backward()\n", True),
        ("def step():\n    for x in y:\n        loss.backward()\nwhile go:\n    step()\n", True),
        ("for x in y:\n    model(x)\n", False),
        ("loss.backward()\n", False),
    ],
)
def test_leads(source, expected):
    assert Program(source).loops.leads is expected


@pytest.mark.parametrize(
    ("test", "guarded"),
    [("self.onnx", True), ("self.training", False), ("self.use_cuda", False)],
)
@pytest.mark.parametrize("branch", ["body", "else"])
def test_what_an_instance_was_made_for_guards(test: str, branch: str, guarded: bool) -> None:
    other = "pass\n        else:\n            " if branch == "else" else ""
    source = (
        "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n"
        f"        if {test}:\n            {other}x.item()\n"
    )
    program = Program(source)
    (call,) = (c for c, _ in program.method_calls("item"))
    context = program.context(call)
    evaluates = branch == "else" and test == "self.training"
    assert context.role is (Role.EVAL if evaluates else Role.FORWARD)
    assert context.guarded is guarded


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("if bad(x): return", "TRAIN"),
        ("if x is None: return", "TRAIN"),
        ("if not valid: return", "TRAIN"),
        ("if step % every == 0: return", "TRAIN"),
        ("if args.debug: return", "TRAIN"),
        ("if step % every: pass", "TRAIN"),
        ("if step % every: return", "TRAIN guarded"),
        ("if step % every != 0: return", "TRAIN guarded"),
        ("if every == 0 or step % every != 0: return", "TRAIN guarded"),
        ("if step % every != 0 and not every: return", "TRAIN"),
        ("if not args.keep: return", "TRAIN guarded"),
        ("if self.writer is None: return", "TRAIN guarded"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_an_early_return_guards_what_comes_after_it(test: str, expected: str, inside: bool) -> None:
    last = "probe()" if inside else "keep()"
    source = f"def step(self, x):\n    loss.backward(); opt.step()\n    {test}\n    {last}\n"
    assert context(source + ("" if inside else "def keep():\n    probe()\n")) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("while y: probe()", "EVAL guarded"),
        ("for batch in loader: probe(model(batch))", "EVAL"),
    ],
)
def test_a_guard_in_an_evaluation_holds_for_short_loops_below_it(body: str, expected: str) -> None:
    source = (
        "def probe(*_): pass\n"
        "def evaluate():\n    for i, x in enumerate(loader):\n        if i < 1 and x:\n"
    )
    assert context(f"{source}            {body}\n") == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param("for text in texts:\n        probe(text.tolist())", "OTHER", id="results"),
        pytest.param("for p in groups:\n        probe(p.norm())", "OTHER", id="parameters"),
        pytest.param(
            "for limit in (1, 9):\n        probe(model(limit))", "OTHER", id="constant settings"
        ),
        pytest.param(
            "areas = {'all': '', 'small': -1}\n    for name, x in areas.items():\n"
            "        probe(model(x))",
            "OTHER",
            id="a table of settings",
        ),
        pytest.param("for x in (xs, texts):\n        probe(model(x))", "EVAL", id="few inputs"),
        pytest.param("for x in loader:\n        probe(x)", "EVAL", id="batches"),
        pytest.param("for x in xs:\n        probe(model(x))", "EVAL", id="a model"),
        pytest.param("while True:\n        x = model(x)\n        probe(x)", "EVAL", id="tokens"),
    ],
)
@pytest.mark.parametrize(
    "head", ["def sample(xs, texts):\n    ", "@torch.no_grad()\ndef f(xs, texts):\n    "]
)
def test_a_step_of_an_evaluation_runs_a_model_or_takes_a_batch(
    head: str, loop: str, expected: str
) -> None:
    assert context(f"def probe(*_): pass\n{head}{loop}\n") == expected


SALIENCY = """
def maps(model, images):
    {switch}
    for x in images:
        score = model(x).max()
        model.zero_grad()
        score.backward()
        probe(x.grad)
{rest}"""


@pytest.mark.parametrize(
    ("switch", "rest", "expected"),
    [
        pytest.param("model.eval()", "", "OTHER", id="gradients of an evaluated model"),
        pytest.param("model.train()", "", "TRAIN", id="of a model in training mode"),
        pytest.param("pass", "", "TRAIN", id="of a model in any mode"),
        pytest.param("model.eval()", "optimizer = None", "EVAL", id="in a file that trains, too"),
        pytest.param("model.eval()", "maps(); rule.step()", "TRAIN", id="what calls it steps"),
        pytest.param("model.eval()", "o = optim.SGD([x], 1)", "OTHER", id="an attack on the input"),
        pytest.param(
            "model.eval()", "maps(); o = optim.SGD([x], 1); o.step()", "TRAIN", id="it steps"
        ),
    ],
)
def test_gradients_that_train_nothing_are_no_step(switch: str, rest: str, expected: str) -> None:
    assert context(SALIENCY.format(switch=switch, rest=rest)) == expected


HEAT = """
def heat(model, images):
    {first}
    for x in images:
        model.zero_grad()
        model(x).max().backward()
        {then}
        probe(model.blocks[0].gradients())

def learn(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    for x in batches:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

def main(model, images, schedule):
    while True:
        learn(model, images)
        {call}
"""
HELPER = "\ndef update(optimizer):\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("first", "then", "call", "expected"),
    [
        pytest.param("model.eval()", "pass", "heat(model, x)", "EVAL", id="heat maps"),
        pytest.param("model.eval()", "pass", "pass", "EVAL", id="that are drawn elsewhere"),
        pytest.param(
            "model.eval()", "pass", "heat(model, x); lr_schedule.step()", "EVAL", id="a schedule"
        ),
        pytest.param("model.train()", "pass", "heat(model, x)", "TRAIN", id="in training mode"),
        pytest.param("pass", "pass", "heat(model, x)", "TRAIN", id="in any mode"),
        pytest.param(
            "teacher.eval()", "pass", "heat(model, x)", "TRAIN", id="another is evaluated"
        ),
        pytest.param("model.eval()", "model.train()", "heat(model, x)", "TRAIN", id="both modes"),
        pytest.param("model.eval()", "rule.step()", "heat(model, x)", "TRAIN", id="with a step"),
        pytest.param("model.eval()", "update(rule)", "heat(model, x)", "TRAIN", id="by a helper"),
        pytest.param("model.eval()", "f(optimizer)", "heat(model, x)", "TRAIN", id="it is passed"),
        pytest.param(
            "model.eval()", "pass", "heat(model, x); rule.step()", "TRAIN", id="what calls it steps"
        ),
        pytest.param(
            "model.eval()", "pass", "heat(model, x); update(rule)", "TRAIN", id="by a helper too"
        ),
        pytest.param("model.eval()", "pass", "optimizer.step(heat)", "TRAIN", id="a step runs it"),
    ],
)
def test_gradients_to_look_at_are_no_step_in_a_file_that_trains(
    first: str, then: str, call: str, expected: str
) -> None:
    source = HEAT.format(first=first, then=then, call=call) + HELPER
    assert context(source) == expected


ATTACK = """
def evaluate_{name}(model, loader):
    {before}
    for x, y in loader:
        {first}
        model.zero_grad()
        f(model(x), y).backward()
        {then}
        probe(model(x + x.grad.sign()))

def main(model, loader):
    for _ in range(9):
        {call}
"""
LEAF = "x = Variable(x, requires_grad=True)"
CALL = "evaluate_attack(model, loader)"


@pytest.mark.parametrize(
    ("first", "then", "call", "expected"),
    [
        pytest.param(LEAF, "pass", CALL, "EVAL", id="a variable"),
        pytest.param("x.requires_grad_()", "pass", CALL, "EVAL", id="of a batch"),
        pytest.param("x.requires_grad = True", "pass", CALL, "EVAL", id="set"),
        pytest.param(LEAF, "pass", "pass", "EVAL", id="called by nothing that is seen"),
        pytest.param("x = x.cuda()", "pass", CALL, "TRAIN", id="nobody asks for it"),
        pytest.param(LEAF, "optimizer.step()", CALL, "TRAIN", id="a step is taken"),
        pytest.param(LEAF, "pass", f"{CALL}; optimizer.step()", "TRAIN", id="by what calls it"),
        pytest.param(LEAF, "x = old", CALL, "TRAIN", id="of something else"),
    ],
)
def test_the_gradient_of_an_input_alone_is_no_step(
    first: str, then: str, call: str, expected: str
) -> None:
    source = ATTACK.format(name="attack", before="pass", first=first, then=then, call=call)
    assert context(source) == expected


def test_what_is_kept_from_turn_to_turn_is_trained_by_hand():
    source = ATTACK.format(name="attack", before=LEAF, first="pass", then="pass", call=CALL)
    assert context(source.replace("for x, y in", "for z, y in")) == "TRAIN"


def test_what_no_model_gets_is_trained_by_hand():
    source = ATTACK.format(name="attack", before="pass", first=LEAF, then="pass", call=CALL)
    assert context(source.replace("model(x", "torch.tanh(x")) == "TRAIN"


@pytest.mark.parametrize(
    ("before", "made", "rest", "expected"),
    [
        pytest.param("pass", "pass", "pass", "TRAIN", id="nobody knows who goes backward"),
        pytest.param("opt = SGD(ps)", "pass", "pass", "TRAIN", id="made before the loop"),
        pytest.param("pass", "opt = optimizers()", "pass", "TRAIN", id="looked up"),
        pytest.param("pass", "opt = mine[i]", "pass", "TRAIN", id="one of several"),
        pytest.param("opt = SGD(ps)", "if new: opt = SGD(ps)", "pass", "TRAIN", id="now and then"),
        pytest.param("pass", "opt = SGD(ps)", "f().backward()", "TRAIN", id="one step a turn"),
        pytest.param("pass", "opt = SGD(ps)", "opt.step()", "TRAIN", id="a step of its own"),
        pytest.param("pass", "opt = SGD(ps)", "fit(opt)", "OTHER", id="made in each turn"),
        pytest.param("pass", "opt, graph = make(ps)", "fit(opt)", "OTHER", id="with something"),
    ],
)
def test_a_turn_that_makes_its_optimizer_is_no_step(
    before: str, made: str, rest: str, expected: str
) -> None:
    loop = f"for i in stages:\n    {made}\n    opt.zero_grad()\n    {rest}\n    probe()\n"
    assert context(f"from helpers import fit, make, SGD\n{before}\n{loop}") == expected


def test_gradients_dropped_where_none_are_recorded_are_no_step_of_a_training() -> None:
    source = "for x in loader:\n    with {}:\n        opt.zero_grad()\n        probe(model(x))\n"
    assert context(source.format("torch.no_grad()")) == "EVAL"
    assert context(source.format("autocast()")) == "TRAIN"


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("if step - last < 100: continue", "TRAIN guarded"),
        ("if self.step - self.last <= every: continue", "TRAIN guarded"),
        ("if done[k] or step != first: continue", "TRAIN guarded"),
        ("if done[k] and step != first: continue", "TRAIN"),
        ("if high - low < 100: continue", "TRAIN"),
        ("if step - last > 100: continue", "TRAIN"),
        ("if name != first: continue", "TRAIN"),
    ],
)
def test_turns_that_wait_for_one(test: str, expected: str) -> None:
    assert context(TRAINING + f"{test}\n    probe()") == expected
    returns = test.replace("continue", "return")
    called = f"def note():\n    {returns}\n    probe()\n"
    assert context(f"{called}{TRAINING}note()\n") == expected


@pytest.mark.parametrize(
    ("before", "test", "expected"),
    [
        ("False", "not found", "TRAIN guarded"),
        ("False", "found", "TRAIN guarded"),
        ("None", "found", "TRAIN"),
        ("fits(x)", "not found", "TRAIN"),
    ],
)
def test_a_flag_that_some_turns_set(before: str, test: str, expected: str) -> None:
    body = f"found = {before}\n    for y in ys:\n        if y > 3:\n            found = True\n    "
    assert context(f"{TRAINING}{body}if {test}:\n        probe()") == expected


@pytest.mark.parametrize(
    ("call", "test", "expected"),
    [
        ("net(x, extra)", "late(i)", "TRAIN"),
        ("net(x, extra=extra)", "late(i)", "TRAIN"),
        ("net(x, other)", "late(i)", "TRAIN guarded"),
        ("tell(x, extra)", "late(i)", "TRAIN guarded"),
        ("net(x, extra)", "i % 9 == 0", "TRAIN guarded"),
    ],
)
def test_a_flag_that_the_model_gets_says_how_to_train(call: str, test: str, expected: str) -> None:
    body = f"if {test}:\n        extra = True\n    else:\n        extra = False\n    {call}\n    "
    source = f"net = nn.Linear(4, 2)\n{TRAINING}{body}if extra:\n        probe()"
    assert context(source) == expected


@pytest.mark.parametrize(
    ("name", "inside", "expected"),
    [
        pytest.param("score", "model.eval()", "OTHER", id="a whole evaluation: it switches"),
        pytest.param("evaluate_all", "pass", "OTHER", id="by its name"),
        pytest.param("generate", "pass", "OTHER", id="a whole generation"),
        pytest.param("score", "pass", "EVAL", id="a part of a step"),
    ],
)
def test_what_comes_after_the_loop_of_an_evaluation_runs_once(
    name: str, inside: str, expected: str
) -> None:
    source = (
        f"@torch.no_grad()\ndef {name}(batches):\n    {inside}\n"
        "    for x in batches:\n        y = model(x)\n    probe()\n"
        "@torch.no_grad()\ndef search():\n    for trial in trials:\n"
        f"        {name}(held); model(trial)\n"
    )
    assert context(source) == expected


@pytest.mark.parametrize(
    ("data", "turns", "expected"),
    [
        pytest.param("next(iter(held))", "0, n, 8", "OTHER", id="a whole evaluation"),
        pytest.param("held", "0, n, 8", "EVAL", id="the parts of a step"),
        pytest.param("next(iter(held))", "n", "EVAL", id="several turns for a batch"),
    ],
)
def test_an_evaluation_that_splits_what_it_takes(data: str, turns: str, expected: str) -> None:
    source = (
        f"def test_once(held, n):\n    x = {data}\n"
        f"    for i in range({turns}):\n        y = model(x[i:i+8])\n    probe()\n"
        "@torch.no_grad()\ndef search():\n    for trial in trials:\n"
        "        test_once(trial, 64); model(trial)\n"
    )
    assert context(source) == expected


def test_a_condition_of_a_forward_pass_holds_for_the_turns_of_its_helper() -> None:
    source = (
        "class Net(nn.Module):\n    def forward(self, x):\n        if self.cfg.SHOW:\n"
        "            self.visualize(x)\n        return x\n"
        "    def visualize(self, x):\n        for i in range(9):\n            probe(show(x))\n"
    )
    assert context(f"def probe(*_): pass\n{source}") == "FORWARD guarded"


def test_an_evaluation_now_and_then_has_steps() -> None:
    source = (
        "def valid(progress):\n    for x in progress:\n        probe(model(x))\n"
        f"{TRAINING}if i % 100 == 0:\n        valid(tqdm(held))\n"
    )
    assert context(f"def probe(*_): pass\n{source}") == "EVAL"


@pytest.mark.parametrize(("base", "expected"), [("Optimizer", "OTHER"), ("Trainer", "EVAL")])
def test_the_step_of_an_optimizer_is_no_evaluation(base: str, expected: str) -> None:
    source = (
        f"class Mine(torch.optim.{base}):\n    @torch.no_grad()\n    def update(self):\n"
        "        for group in self.groups:\n            probe(self.work(group))\n"
    )
    assert context(f"def probe(*_): pass\n{source}") == expected


def test_a_type_that_is_asked_for_guards() -> None:
    assert context(TRAINING + "if isinstance(x, torch.Tensor):\n        probe()") == "TRAIN guarded"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("'--weight', default=1.0", "TRAIN"),
        ("'--weight', default=0.0", "TRAIN guarded"),
        ("'--weight'", "TRAIN guarded"),
    ],
)
def test_an_option_that_holds_by_default_guards_nothing(option: str, expected: str) -> None:
    adds = f"p.add_argument({option})\nargs = p.parse_args()\n"
    assert context(adds + TRAINING + "if args.weight > 0:\n        probe()") == expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("mask(x, 9)", "TRAIN guarded"),
        ("mask(x)\n    mask(x, longest=9)", "TRAIN guarded"),
        ("mask(x)", "TRAIN"),
    ],
)
def test_the_default_of_a_parameter_that_calls_pass(calls: str, expected: str) -> None:
    function = "def mask(x, longest=None):\n    if longest is None:\n        longest = probe()\n"
    assert context(function + TRAINING + calls) == expected


ONE_PROCESS = """
def {name}():
    return {answer}
for x in loader:
    loss = f(x); loss.backward(); optimizer.step()
    if {test}:
        probe()
"""


@pytest.mark.parametrize(
    ("answer", "test", "found"),
    [
        pytest.param("dist.get_rank() + 1", "mine()", "TRAIN", id="a rank that is not compared"),
        pytest.param("size == 0", "mine()", "TRAIN", id="no rank"),
        pytest.param("dist.get_rank() == 0", "mine(x, y)", "TRAIN", id="told what it looks at"),
        pytest.param("dist.get_rank() == 0", "mine()", "TRAIN guarded", id="the first rank"),
        pytest.param("rank in (-1, 0)", "ready and mine()", "TRAIN guarded", id="one of two"),
    ],
)
def test_a_function_that_asks_for_the_rank_guards(answer: str, test: str, found: str) -> None:
    source = ONE_PROCESS.format(name="mine", answer=answer, test=test)
    assert context(source) == found


def test_a_function_of_another_file_that_asks_for_the_rank_guards(tmp_path: Path) -> None:
    helper, _, script = ONE_PROCESS.partition("for x")
    helper = helper.format(name="mine", answer="get_rank() == 0")
    (tmp_path / "comm.py").write_text(helper)
    script = "from comm import mine\nfor x" + script.format(test="mine()")
    (tmp_path / "main.py").write_text(script)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "main.py"))
    assert program is not None
    assert program.context(probes(program)[0]).guarded


CHOICE = """
def work(x, kind="a", also=False, extra=None):
    {head}
        probe(x)
for x in loader:
    {step}
    {calls}
"""


@pytest.mark.parametrize(
    ("head", "calls", "expected"),
    [
        ("if kind == 'b':", "work(x)", "TRAIN guarded"),
        ("if kind == 'a':", "work(x)", "TRAIN"),
        ("if kind == 'b':", "work(x); work(x, 'b')", "TRAIN"),
        ("if kind == 'b':", "work(x, found)", "TRAIN"),
        ("if kind == 'b':", "work(x, *more)", "TRAIN"),
        ("if kind in ('b', 'c'):", "work(x, kind='a')", "TRAIN guarded"),
        ("if kind in ('a', 'c'):", "work(x, kind='a')", "TRAIN"),
        ("if also:", "work(x)", "TRAIN guarded"),
        ("if also:", "work(x, also=True)", "TRAIN"),
        ("if kind == 'a':\n        pass\n    else:", "work(x)", "TRAIN guarded"),
        ("if kind == 'a':\n        pass\n    else:", "work(x, 'b')", "TRAIN"),
        ("if kind == 'a':\n        pass\n    elif kind == 'b':", "work(x)", "TRAIN guarded"),
        ("if extra is not None:", "work(x)", "TRAIN guarded"),
        ("if extra is not None:", "work(x, extra=None)", "TRAIN guarded"),
        ("if extra is not None:", "work(x, extra=found)", "TRAIN"),
        ("if extra is not None:", "work(x); work(x, extra=3)", "TRAIN"),
        ("if extra is None:\n        pass\n    else:", "work(x)", "TRAIN guarded"),
        ("if kind != 'a':", "work(x)", "TRAIN guarded"),
        ("if kind != 'b':", "work(x)", "TRAIN"),
        ("if kind not in ('a', 'b'):", "work(x, 'b')", "TRAIN guarded"),
        ("if kind not in ('c', 'd'):", "work(x, 'b')", "TRAIN"),
    ],
)
def test_a_value_that_no_call_gives_is_not_asked_for(head: str, calls: str, expected: str) -> None:
    assert context(CHOICE.format(head=head, step=STEP, calls=calls)) == expected


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [("torch.inference_mode()", "TRAIN guarded"), ("torch.no_grad()", "TRAIN guarded"),
     ("with_extra", "TRAIN")],
)  # fmt: skip
def test_a_decorator_may_give_a_value_by_itself(decorator: str, expected: str) -> None:
    source = CHOICE.format(head="if extra is not None:", step=STEP, calls="work(x)")
    assert context(f"@{decorator}{source}") == expected


def test_a_parameter_of_the_function_around_is_not_given_by_calls_of_the_inner_one() -> None:
    source = (
        "def work(xs, also=False):\n    def inner(x):\n        if also:\n            probe(x)\n"
        f"    for x in xs:\n        {STEP}\n        inner(x)\nwork(loader, **options)\n"
    )
    assert context(source) == "TRAIN"


HOOK = """
class Base:
    def run(self, loader):
        for x in loader:
            loss = self.update(x)
            {loop}
    def update(self, x):
        {body}
"""
HEIR = """
class Training(Base):
    def update(self, x):
        loss = self.loss(self.model(x)); loss.backward(); self.optimizer.step()
        {training}
        return loss
"""
VALIDATION = """
class Validation(Base):
    def update(self, x):
        with torch.no_grad():
            {validation}
            return self.loss(self.model(x))
"""
EMPTY = ["raise NotImplementedError", "raise NotImplementedError()", "pass", "...", "'''Say.'''"]


def roles_in(folder: Path, **files: str) -> dict[str, list[str]]:
    """The roles of the probes of each of some files that make up a project."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(HEAD + text)
    project = Project(Imports(folder, lambda _: False))
    programs = {name: project.program(str(folder / f"{name}.py")) for name in files}
    return {
        name: [program.context(call).role.name for call in probes(program)]
        for name, program in programs.items()
        if program is not None
    }


@pytest.mark.parametrize("body", EMPTY)
def test_heirs_are_run_in_the_place_of_a_method_that_does_nothing(body: str) -> None:
    assert context(HOOK.format(loop="probe()", body=body) + HEIR.format(training="")) == "TRAIN"


def test_heirs_are_run_in_the_place_of_a_method_that_does_something() -> None:
    base = HOOK.format(loop="probe()", body="return self.loss(x)")
    assert context(base + HEIR.format(training="")) == "TRAIN"


def test_a_class_of_the_same_methods_is_no_heir() -> None:
    heir = HEIR.format(training="").replace("(Base)", "")
    assert context(HOOK.format(loop="probe()", body="pass") + heir) == "OTHER"


def test_of_two_heirs_one_trains() -> None:
    base = HOOK.format(loop="pass", body="pass")
    trained = HEIR.format(training="probe()") + VALIDATION.format(validation="pass")
    assert context(base + trained) == "TRAIN"
    validated = HEIR.format(training="") + VALIDATION.format(validation="probe()")
    assert context(base + validated) == "OTHER"


def test_heirs_in_another_file_are_run(tmp_path: Path) -> None:
    base = HOOK.format(loop="probe()", body="raise NotImplementedError")
    heir = HEIR.format(training="probe()") + VALIDATION.format(validation="probe()")
    roles = roles_in(tmp_path, base=base, heir=f"from base import Base\n{heir}")
    assert roles == {"base": ["TRAIN"], "heir": ["TRAIN", "OTHER"]}


def test_a_base_in_another_file_trains_with_what_an_heir_gives(tmp_path: Path) -> None:
    base = HOOK.format(loop="loss.backward(); self.optimizer.step()", body="pass")
    heir = "from base import Base\nclass Mine(Base):\n    def update(self, x):\n        probe()"
    assert roles_in(tmp_path, base=base, heir=heir)["heir"] == ["TRAIN"]
    other = heir.replace("(Base)", "(Other)")
    assert roles_in(tmp_path, base=base, heir=other)["heir"] == ["OTHER"]


def test_a_base_is_a_training_where_an_heir_in_another_file_takes_the_step(tmp_path: Path) -> None:
    base = HOOK.format(loop="probe()", body="return self.loss(x)")
    heir = "from base import Base\n" + HEIR.format(training="probe()")
    assert roles_in(tmp_path, base=base, heir=heir) == {"base": ["TRAIN"], "heir": ["TRAIN"]}


def test_classes_that_extend_one_another_end(tmp_path: Path) -> None:
    one = "from other import Other\nclass One(Other):\n    def update(self, x):\n        probe()"
    other = "from one import One\nclass Other(One):\n    def update(self, x):\n        pass"
    assert roles_in(tmp_path, one=one, other=other)["one"] == ["OTHER"]


def test_what_tests_call_tells_nothing_of_what_runs_elsewhere(tmp_path: Path) -> None:
    library = "def collect(model):\n    probe()"
    steps = "from library import collect\nfor x in loader:\n    " + STEP + "\n    collect(model)"
    assert roles_in(tmp_path, library=library, main=steps)["library"] == ["TRAIN"]
    (tmp_path / "main.py").unlink()
    tests = f"import unittest\n{steps}"
    assert roles_in(tmp_path, library=library, test_library=tests)["library"] == ["OTHER"]


MAKER = f"""
def make(model, optimizer, train=True):
    def step(x):
        {STEP}
        probe()
    return step
"""
MADE = "run = make(model, optimizer{given})\nfor x in loader:\n    run(x)\n    probe()"


@pytest.mark.parametrize(
    ("given", "role"),
    [("", "TRAIN"), (", train=True", "TRAIN"), (", train=False", "OTHER")],
)
def test_what_a_function_made_runs_in_every_step(tmp_path: Path, given: str, role: str) -> None:
    made = MADE.format(given=given)
    assert context(MAKER.replace("probe()", "pass") + made) == role
    main = "import steps\n" + made.replace("make", "steps.make")
    assert roles_in(tmp_path, main=main, steps=MAKER)["main"] == [role]


def test_what_another_file_made_here_runs_there(tmp_path: Path) -> None:
    step = f"from steps import make\nrun = make(model, o)\nfor x in loader:\n    run(x)\n    {STEP}"
    maker = MAKER.replace(STEP, "pass")
    assert roles_in(tmp_path, main=step, steps=maker)["steps"] == ["TRAIN"]
    kept = maker.replace("return step", "return model")
    assert roles_in(tmp_path, main=step, steps=kept)["steps"] == ["OTHER"]


READS = """
def make(model):
    def step(x):
        probe()
    {before}
    return {result}
run = make(model)
for x in loader:
    run(x)
    loss = f(x); loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "result", "expected"),
    [
        pytest.param("pass", "step", "TRAIN", id="returned"),
        pytest.param("also = step", "also", "TRAIN", id="returned by another name"),
        pytest.param("pass", "step(0)", "OTHER", id="its result"),
        pytest.param("pass", "model", "OTHER", id="something else"),
    ],
)
def test_only_what_a_function_returns_is_made(before: str, result: str, expected: str) -> None:
    assert context(READS.format(before=before, result=result)) == expected


TURNS = """
for x in {data}:
    for _ in {turns}:
        loss = f(x); loss.backward(); optimizer.step()
    probe()
    {own}
"""


@pytest.mark.parametrize(
    ("data", "turns", "own", "expected"),
    [
        pytest.param("loader", "range(n)", "other_opt.step()", "TRAIN", id="a batch"),
        pytest.param("range(9)", "range(n)", "other_opt.step()", "EPOCH", id="a number"),
        pytest.param("parts", "loader", "other_opt.step()", "EPOCH", id="what holds batches"),
        pytest.param("parts", "range(len(data))", "other_opt.step()", "EPOCH", id="their numbers"),
        pytest.param("loader", "range(n)", "pass", "EPOCH", id="without a step of its own"),
    ],
)
def test_turns_with_one_batch_are_parts_of_its_step(
    data: str, turns: str, own: str, expected: str
) -> None:
    assert context(TURNS.format(data=data, turns=turns, own=own)) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("done < args.warmup", "TRAIN", id="the turns before a limit"),
        pytest.param("args.simple", "TRAIN", id="an option"),
        pytest.param("done % args.every", "TRAIN guarded", id="one of every few"),
        pytest.param("step != args.every", "TRAIN guarded", id="all but one"),
    ],
)
def test_what_follows_a_step_of_another_kind_is_a_step(test: str, expected: str) -> None:
    first = f"if {test}:\n        {STEP}\n        continue\n    "
    source = f"import random\nfor x in loader:\n    {first}{STEP}\n    probe()"
    assert context(source) == expected


@pytest.mark.parametrize(
    ("test", "step", "other", "expected"),
    [
        pytest.param("loss < args.limit", "loss.backward()", "", "TRAIN guarded", id="too large"),
        pytest.param(
            "loss.isfinite() and go",
            "scaler.scale(loss).backward()",
            "",
            "TRAIN guarded",
            id="infinite",
        ),
        pytest.param("scaler is None", "loss.backward()", "", "TRAIN", id="says how to train"),
        pytest.param(
            "loss < args.limit", "loss.backward()", "(loss / 2).backward()", "TRAIN", id="a step"
        ),
        pytest.param("loss < args.limit", "show(loss)", "", "TRAIN", id="no step before"),
    ],
)
def test_what_is_done_in_place_of_a_step_is_rare(
    test: str, step: str, other: str, expected: str
) -> None:
    source = f"loss = f(x)\n    if {test}:\n        {step}\n        optimizer.step()\n    else:\n"
    assert context(
        f"for x in loader:\n    {STEP}\n    {source}        {other}\n        probe()"
    ) == (expected)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param("pass", STEP, id="no step before"),
        pytest.param(STEP, "pass", id="no step behind"),
    ],
)
def test_what_follows_a_limit_is_rare_but_for_another_step(first: str, then: str) -> None:
    skips = f"if done < args.first:\n        {first}\n        continue\n    "
    assert context(f"for x in loader:\n    {STEP}\n    {skips}{then}\n    probe()") == (
        "TRAIN guarded"
    )


RESUMED = (
    "for x in loader:\n    {before}\n    if {test}:\n        {first}\n        continue\n    {then}"
)


@pytest.mark.parametrize(
    "test",
    [
        "step < args.first",
        "self.step < self.args.first",
        "i <= start_iter",
        "isinstance(x, float)",
        "loss_now < args.least",
        "x is None or isnan(x)",
    ],
)
def test_turns_that_go_on_take_the_whole_step(test: str) -> None:
    then = f"{STEP}\n    probe()"
    source = RESUMED.format(before="pass", test=test, first="step += 1", then=then)
    assert context(source) == "TRAIN"


@pytest.mark.parametrize(
    ("test", "then", "expected"),
    [
        pytest.param("args.stops and not exists(path)", f"{STEP}\n    probe()", "", id="is gone"),
        pytest.param("isfile(args.path)", f"{STEP}\n    probe()", "", id="is there"),
        pytest.param("args.stops or exists(path)", f"{STEP}\n    probe()", "", id="or"),
        pytest.param("args.stops and gone(path)", f"{STEP}\n    probe()", "", id="unknown"),
        pytest.param("exists(args.path)", f"probe()\n    {STEP}", "", id="before the step"),
        pytest.param("exists(args.path)", "probe()", " guarded", id="no step behind"),
    ],
)
def test_steps_go_on_until_a_file_stops_them(test: str, then: str, expected: str) -> None:
    before = "pass" if STEP in then else STEP
    source = RESUMED.format(before=before, test=test, first="pass", then=then)
    head = "from os.path import exists, isfile\nfrom tools import gone\n"
    assert context(head + source) == f"TRAIN{expected}"


@pytest.mark.parametrize(
    ("test", "before", "then"),
    [
        pytest.param("loss_now < args.least", STEP, "probe()", id="no count"),
        pytest.param("step % 9 < args.first", "pass", f"{STEP}\n    probe()", id="some of few"),
        pytest.param("step > args.first", STEP, "probe()", id="the first turns"),
        pytest.param("step < args.first", STEP, "probe()", id="the step is before it"),
        pytest.param("step < args.first", STEP, f"probe()\n    {STEP}", id="a further step"),
    ],
)
def test_what_an_option_leaves_out_is_rare(test: str, before: str, then: str) -> None:
    source = RESUMED.format(before=before, test=test, first="step += 1", then=then)
    assert context(source) == "TRAIN guarded"


OBJECT = """
class Compute:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, loss, only_loss=False):
        if only_loss:
            return loss
        loss.backward()
        self.optimizer.step()
        probe()
"""
CALLED = "compute = Compute(optimizer)\nfor x in loader:\n    compute(f(x))\n    probe()"


def test_what_an_object_does_that_is_called_runs_in_every_step(tmp_path: Path) -> None:
    assert context(OBJECT.replace("probe()", "pass") + CALLED) == "TRAIN"
    main = f"from compute import Compute\n{CALLED}"
    assert roles_in(tmp_path, main=main, compute=OBJECT)["main"] == ["TRAIN"]
    kept = (
        "class Trainer:\n    def __init__(self, o):\n        self.compute = Compute(o)\n"
        "    def run(self):\n        for x in loader:\n            self.compute(f(x))\n"
        "            probe()"
    )
    assert context(OBJECT.replace("probe()", "pass") + kept) == "TRAIN"
    own = OBJECT.replace("loss.backward()", "pass").replace("self.optimizer.step()", "pass")
    assert context(f"{own}compute = Compute(1)\n{TRAINING}compute(x)") == "TRAIN"


@pytest.mark.parametrize("old", ["__call__", "optimizer)\nfor"])
def test_another_method_or_another_object_is_not_called(tmp_path: Path, old: str) -> None:
    new = {"__call__": "call"}.get(old, "optimizer)\ncompute = other\nfor")
    source = OBJECT.replace("probe()", "pass") + CALLED
    assert context(source.replace(old, new)) == "OTHER"
    main = f"from compute import Compute\n{CALLED}".replace(old, new)
    files = {"main": main, "compute": OBJECT.replace(old, new)}
    assert roles_in(tmp_path, **files)["main"] == ["OTHER"]


@pytest.mark.parametrize(
    "head",
    ["def score(xs):\n    with torch.no_grad():\n        ", "@torch.no_grad()\ndef f(xs):\n    "],
)
def test_what_goes_back_is_left_before_that_without_gradients(tmp_path: Path, head: str) -> None:
    deep = "    " * (2 + head.count("with"))
    loop = f"{head}for x in xs:\n{deep}compute(x, only_loss=True)\n{deep}probe()"
    source = f"compute = Compute(optimizer)\n{loop}"
    assert context(OBJECT.replace("probe()", "pass") + source) == "EVAL"
    main = f"import torch\nfrom compute import Compute\n{source}"
    assert roles_in(tmp_path, main=main, compute=OBJECT)["main"] == ["EVAL"]


@pytest.mark.parametrize(("switch", "role"), [("model.eval()", "EVAL"), ("pass", "TRAIN guarded")])
def test_what_switches_a_model_and_goes_through_data_is_an_evaluation(
    switch: str, role: str
) -> None:
    rare = "if n in [1000, 2000] and log:\n        scores(data)\n"
    function = (
        f"def scores(data):\n    with torch.no_grad():\n        {switch}\n"
        "        for x in data:\n            y = model(x)\n            probe()"
    )
    assert context(f"{TRAINING}{rare}{function}") == role


KINDS = """
for x in loader:
    if {test}:
        with autocast():
            loss = f(x)
            probe()
    else:
        {other}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "other", "role"),
    [
        pytest.param("time.time() < end", "continue", "TRAIN guarded", id="it goes on"),
        pytest.param("args.time > 9", "break", "TRAIN guarded", id="an option"),
        pytest.param("i % 9 == 0", "break", "TRAIN guarded", id="every n steps"),
        pytest.param("time.time() < end", "save()\n        sys.exit(0)", "TRAIN", id="it ends"),
        pytest.param("time.time() - start < args.time", "break", "TRAIN", id="the loop ends"),
        pytest.param("time.time() < end", "raise TimeoutError", "TRAIN", id="it fails"),
    ],
)
def test_turns_until_a_time_are_all_turns(test: str, other: str, role: str) -> None:
    branch = f"if {test}:\n        probe()\n    else:\n        {other}"
    assert context(f"import time\n{TRAINING}{branch}") == role


@pytest.mark.parametrize("test", ["args.fp16", "self.args.use_amp", "cfg.clip > 0"])
def test_either_arm_with_the_loss_is_a_kind_of_step(test: str) -> None:
    assert context(KINDS.format(test=test, other="loss = g(x)")) == "TRAIN"


@pytest.mark.parametrize(
    ("test", "other"),
    [
        pytest.param("args.fp16", "y = g(x)", id="the other has no loss"),
        pytest.param("args.fp16", "loss = g(x); break", id="the other leaves the loop"),
        pytest.param("args.log_images", "loss = g(x)", id="asked for to look at"),
        pytest.param("args.fp16 and i % 9 == 0", "loss = g(x)", id="every n steps"),
        pytest.param("i % 9 == 0", "loss = g(x)", id="no option"),
    ],
)
def test_an_arm_for_now_and_then_is_no_kind_of_step(test: str, other: str) -> None:
    assert context(KINDS.format(test=test, other=other)) == "TRAIN guarded"


def test_both_arms_that_go_back_are_kinds_of_step() -> None:
    arms = (
        "if args.fp16:\n        scaler.scale(loss).backward()\n        probe()\n    "
        "else:\n        loss.backward()"
    )
    assert context(f"for x in loader:\n    loss = f(x)\n    {arms}") == "TRAIN"
    assert (
        context(f"for x in loader:\n    loss = f(x)\n    {arms}".replace("loss.backward()", "pass"))
        == "TRAIN guarded"
    )
    once = arms.replace("probe()", "probe()\n        break")
    assert context(f"for x in loader:\n    loss = f(x)\n    {once}") == "TRAIN guarded"


SAME = """
for x in loader:
    loss = f(x)
    loss.backward()
    optimizer.step()
    if {test}:
        shown = loss.item()
        probe()
    {other}
"""


PHASES = """
for x in loader:
    if {test}:
        loss = f(x)
        loss.backward()
        optimizer.step()
        probe()
    {other}
"""
LATER = "else:\n        loss = g(x)\n        loss.backward()\n        optimizer.step()"


@pytest.mark.parametrize(
    ("test", "other", "role"),
    [
        pytest.param("epoch > args.first", LATER, "TRAIN", id="after an epoch"),
        pytest.param("epoch <= cfg.warmup", LATER, "TRAIN", id="before one"),
        pytest.param("epoch % args.k == 0", LATER, "TRAIN guarded", id="every k epochs"),
        pytest.param("epoch > args.log_first", LATER, "TRAIN guarded", id="to log"),
        pytest.param("epoch > args.first", "else: pass", "TRAIN guarded", id="no other step"),
    ],
)
def test_steps_of_whole_epochs(test: str, other: str, role: str) -> None:
    assert context(PHASES.format(test=test, other=other)) == role


@pytest.mark.parametrize("test", ["cfg.boxes.on", "args.kind == 'boxes'", "args.kind != 'boxes'"])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param("else: shown = 2 * loss.item()", id="of two"),
        pytest.param("elif args.b: y = loss.item()\n    else: z = loss.item()", id="of three"),
        pytest.param(
            "else:\n        if args.b: y = loss.item()\n        else: z = loss.item()", id="below"
        ),
        pytest.param("else:\n        with timer: y = loss.item()", id="in a with statement"),
    ],
)
def test_every_arm_that_reads_the_same_is_a_kind_of_step(test: str, other: str) -> None:
    assert context(SAME.format(test=test, other=other)) == "TRAIN"


@pytest.mark.parametrize(
    ("test", "other"),
    [
        pytest.param("cfg.boxes.on", "else: pass", id="the other reads nothing"),
        pytest.param("cfg.boxes.on", "else: shown = x.item()", id="the other reads another"),
        pytest.param("cfg.boxes.on", "elif args.b: y = loss.item()", id="no last arm"),
        pytest.param("cfg.boxes.on", "else: y = loss.item() if z else 0", id="reads it or not"),
        pytest.param("cfg.boxes.on", "else: y = lambda: loss.item()", id="reads it later"),
        pytest.param(
            "cfg.boxes.on", "else:\n        if args.b: y = loss.item()", id="on request below"
        ),
        pytest.param("args.mode == 'debug'", "else: shown = loss.item()", id="to look at"),
        pytest.param("i % 9 == 0", "else: shown = loss.item()", id="every n steps"),
    ],
)
def test_an_arm_that_alone_reads_is_no_kind_of_step(test: str, other: str) -> None:
    assert context(SAME.format(test=test, other=other)) == "TRAIN guarded"


TOLD = """
for x in loader:
    loss = f(x)
    loss.backward()
    optimizer.step()
    if {test}:
        print(loss)
        probe()
    {other}
"""


@pytest.mark.parametrize(
    ("test", "other", "expected"),
    [
        pytest.param("cfg.boxes.on", "else: print(x)", "TRAIN", id="of two"),
        pytest.param(
            "cfg.boxes.on", "elif args.b: print(x)\n    else: print(1)", "TRAIN", id="of three"
        ),
        pytest.param("cfg.boxes.on", "elif args.b: print(x)", "TRAIN guarded", id="no last arm"),
        pytest.param("cfg.boxes.on", "else: pass", "TRAIN guarded", id="one alone"),
        pytest.param("args.verbose", "else: print(1)", "TRAIN guarded", id="to look at"),
        pytest.param("i % 9 == 0", "else: print(1)", "TRAIN guarded", id="every n steps"),
    ],
)
def test_arms_that_all_tell_of_the_step_are_kinds_of_it(
    test: str, other: str, expected: str
) -> None:
    assert context(TOLD.format(test=test, other=other)) == expected


WRITES = "        writer.add_scalar('loss', probe(), i)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(f"if writer is not None:\n{WRITES}", "TRAIN", id="one that is there or not"),
        pytest.param(f"if tb_writer:\n        x = 1\n{WRITES}", "TRAIN", id="in short"),
        pytest.param("if writer: writer.add_scalar('loss', probe())", "TRAIN", id="in a line"),
        pytest.param(
            f"if writer and i % 9 == 0:\n{WRITES}", "TRAIN guarded", id="told every n steps"
        ),
        pytest.param(f"if args.log:\n{WRITES}", "TRAIN guarded", id="by an option"),
        pytest.param(
            "if writer:\n        writer.add_image('x', probe())", "TRAIN guarded", id="no number"
        ),
        pytest.param(
            f"if writer:\n        for y in x: show(y)\n{WRITES}",
            "TRAIN guarded",
            id="more beside it",
        ),
    ],
)
def test_a_writer_of_a_whole_training_is_told_of_each_step(lines: str, expected: str) -> None:
    assert context(TRAINING + lines) == expected


METHODS = """
for x in loader:
    loss = f(x)
    if {first}:
        {other}
    elif {test}:
        {own}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "test"),
    [
        pytest.param("args.method == 'a'", "args.method == 'b'", id="strings"),
        pytest.param("args.method in ('a', 'b')", "args.method in {'c', 'd'}", id="of several"),
        pytest.param("args.method == 'a'", "args.method.startswith('b')", id="beginnings"),
        pytest.param("args.method[:2] == 'ab'", "args.method[-1] == 'b'", id="parts"),
        pytest.param("self.opt.method == 'a'", "self.opt.method == 'b'", id="of an object"),
        pytest.param("args.stage == 1", "args.stage == 2", id="numbers"),
        pytest.param("kind == 1", "kind == 2", id="by a name"),
        pytest.param("kind == 1", "args.kind == 2", id="by a name and not"),
    ],
)
@pytest.mark.parametrize(
    ("other", "own"),
    [
        pytest.param("loss += g(x)", "loss = loss + probe()", id="terms of the loss"),
        pytest.param("term = g(x)", "term = probe()", id="what is the same to all"),
    ],
)
def test_every_method_of_several_is_a_kind_of_step(
    first: str, test: str, other: str, own: str
) -> None:
    source = METHODS.format(first=first, other=other, test=test, own=own)
    assert context("kind = args.kind" + source) == "TRAIN"


@pytest.mark.parametrize(
    ("first", "other", "test", "own"),
    [
        pytest.param(
            "args.method == 'a'", "pass", "args.method == 'b'", "loss += probe()", id="no other"
        ),
        pytest.param(
            "args.method == 'a'", "shown = 1", "args.method == 'b'", "y = probe()", id="other names"
        ),
        pytest.param(
            "args.kind == 'a'", "loss += 1", "args.method == 'b'", "loss += probe()", id="options"
        ),
        pytest.param(
            "args.log == 'a'", "shown = 1", "args.log == 'b'", "shown = probe()", id="to look at"
        ),
        pytest.param("i == 1", "loss += g(x)", "i == 2", "loss += probe()", id="turns"),
        pytest.param("args.n > 1", "loss += g(x)", "args.n == 2", "loss += probe()", id="limits"),
    ],
)
def test_what_one_method_alone_does_is_no_kind_of_step(
    first: str, other: str, test: str, own: str
) -> None:
    found = context(METHODS.format(first=first, other=other, test=test, own=own))
    assert found == "TRAIN guarded"


CLIPS = "torch.nn.utils.clip_grad_norm_({}.parameters(), 1)"


def test_either_arm_that_clips_is_a_kind_of_step() -> None:
    arms = "if {}:\n        {}\n        probe()\n    else:\n        {}"
    start = f"import torch\nfor x in loader:\n    {STEP}\n    "
    one, other = CLIPS.format("a"), CLIPS.format("b")
    assert context(start + arms.format("args.fp16", one, other)) == "TRAIN"
    assert context(start + arms.format("args.fp16", one, "y = 0")) == "TRAIN guarded"
    assert context(start + arms.format("args.fp16", "y = 0", other)) == "TRAIN guarded"
    assert context(start + arms.format("i % 9", one, other)) == "TRAIN guarded"


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param("", "TRAIN guarded", id="one arm"),
        pytest.param("else:\n        return x", "TRAIN guarded", id="the other does not"),
        pytest.param("elif x:\n        return show(x)", "TRAIN guarded", id="no last arm"),
        pytest.param(
            "else:\n        return show(x) if x else x", "TRAIN guarded", id="perhaps in the other"
        ),
        pytest.param(
            "else:\n        return later(lambda: show(x))", "TRAIN guarded", id="later in the other"
        ),
        pytest.param(
            "else:\n        for y in x: show(y)\n        return x", "TRAIN guarded", id="of no turn"
        ),
        pytest.param("else:\n        return show(x)", "TRAIN", id="two arms"),
        pytest.param(
            "elif x:\n        return 2 * show(x)\n    else:\n        return show(x, x)",
            "TRAIN",
            id="three arms",
        ),
    ],
)
def test_a_function_that_each_arm_calls_runs_in_each_turn(other: str, found: str) -> None:
    source = (
        "def show(x, y=0): probe()\n"
        f"def run(x, y):\n    if y is not None:\n        return show(y)\n    {other}\n"
        f"for x in loader:\n    {STEP}\n    run(x, y)\n"
    )
    assert context(source) == found


@pytest.mark.parametrize(
    ("files", "trains"),
    [
        pytest.param(
            {"net.py": "from parts import Part\ndef forward(x): pass\n"}, False, id="alone"
        ),
        pytest.param(
            {"net.py": "from parts import Part\n", "main.py": "import net\nloss.backward()\n"},
            False,
            id="of no model",
        ),
        pytest.param(
            {
                "net.py": "from parts import Part\ndef forward(x): pass\n",
                "main.py": "import net\nnet.run()\n",
            },
            False,
            id="of a model that nobody trains",
        ),
        pytest.param(
            {
                "net.py": "from parts import Part\ndef forward(x): pass\n",
                "main.py": "import net\nloss.backward()\n",
            },
            True,
            id="of a model that another file trains",
        ),
    ],
)
def test_what_trains_a_model_trains_its_parts(
    tmp_path: Path, files: dict[str, str], trains: bool
) -> None:
    parts = "class Part(Module):\n    def forward(self, x): return x\n"
    for name, text in {"requirements.txt": "", "parts.py": parts, **files}.items():
        (tmp_path / name).write_text(text)
    program = Project(Imports(tmp_path, lambda _: False)).program(str(tmp_path / "parts.py"))
    assert program is not None
    assert program.loops.trains is trains


@pytest.mark.parametrize(("every", "found"), [("9", "TRAIN guarded"), ("1", "TRAIN")])
def test_a_remainder_of_1_holds_in_each_turn(every: str, found: str) -> None:
    steps = f"for i, x in enumerate(loader):\n    {STEP}\n    "
    assert context(f"{steps}if (i + 1) % {every} == 0: probe()") == found


@pytest.mark.parametrize(
    ("branch", "found"),
    [
        ("if loss.item() > 10 * first: probe(); continue", "TRAIN guarded"),
        ("if loss.data.item() >= 9: probe(); continue", "TRAIN guarded"),
        ("if loss.item() < 9: probe(); continue", "TRAIN"),
        ("if loss.item() > 9: probe()", "TRAIN"),
        ("if size > 9: probe(); continue", "TRAIN"),
    ],
)
def test_what_drops_a_loss_that_is_too_large_is_rare(branch: str, found: str) -> None:
    assert context(f"for x in loader:\n    loss = f(x)\n    {branch}\n    {STEP}\n") == found


FIT = """def fit(self, logits):
    optimizer = {made}
    def closure():
        optimizer.zero_grad()
        loss = f(logits)
        loss.backward()
        return loss
    optimizer.step(closure)
    probe()
"""
OWN = FIT.format(made="LBFGS([self.temperature])")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(FIT.format(made="self.optimizer"), "TRAIN", id="another's optimizer"),
        pytest.param(OWN + "for x in loader:\n    fit(x)", "TRAIN", id="called in each turn"),
        pytest.param(OWN + "    optimizer2.step()", "TRAIN", id="another's besides"),
        pytest.param(OWN, "OTHER", id="its own"),
        pytest.param(
            FIT.replace("    probe()\n", "").format(made="LBFGS([t])")
            + "def run(self):\n    fit(self, x)\n    probe()",
            "OTHER",
            id="what calls it",
        ),
        pytest.param(
            FIT.replace("    probe()\n", "").format(made="LBFGS([t])")
            + "def run(self, opt):\n    fit(self, x)\n    opt.step()\n    probe()",
            "TRAIN",
            id="what calls it, and takes a step",
        ),
    ],
)
def test_what_makes_the_optimizer_that_it_steps_is_no_step(source: str, expected: str) -> None:
    assert context(source) == expected


def test_what_calls_a_whole_fit_of_another_file_is_no_step(tmp_path: Path) -> None:
    made = FIT.replace("    probe()\n", "")
    run = "from fits import fit\ndef run(x):\n    fit(model, x)\n    probe()\n"
    for made_by, expected in (("LBFGS([t])", Role.OTHER), ("self.optimizer", Role.TRAIN)):
        (tmp_path / "fits.py").write_text(made.format(made=made_by))
        (tmp_path / "main.py").write_text(run)
        project = Project(Imports(tmp_path, lambda _: False))
        program = project.program(str(tmp_path / "main.py"))
        assert program is not None
        (call,) = probes(program)
        assert program.context(call).role is expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param("for i in range(10):", "TRAIN guarded", id="pictures"),
        pytest.param("for z in loader:", "EVAL", id="an evaluation"),
    ],
)
def test_what_a_step_shows_now_and_then_is_no_evaluation(head: str, expected: str) -> None:
    source = (
        f"{TRAINING}if i % 100 == 0:\n        with torch.no_grad():\n            {head}\n"
        "                probe(model(z))"
    )
    assert context(f"def probe(*_): pass\n{source}") == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("early or late", "TRAIN guarded"),
        ("early and other", "TRAIN guarded"),
        ("early or other", "TRAIN"),
    ],
)
def test_conditions_that_count_by_names(test: str, expected: str) -> None:
    names = "early = n % 9 == 0 and n < 99; late = n % 99 == 0"
    assert context(f"{TRAINING}{names}\n    if {test}:\n        probe()") == expected


def test_the_text_of_an_assertion_is_for_a_failure() -> None:
    assert context(f"{TRAINING}assert x, probe()") == "TRAIN guarded"
    assert context(f"{TRAINING}assert probe(), x") == "TRAIN"


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("loader", "EVAL"),
        ("self.loaders['val']", "EVAL"),
        ("loaders.val", "EVAL"),
        ("zip(*loaders)", "EVAL"),
        ("loaders", "OTHER"),
        ("zip(names, self.data_loaders_val)", "OTHER"),
    ],
)
def test_of_several_loaders_one_is_taken_at_a_time(what: str, expected: str) -> None:
    source = (
        f"def run_test(model):\n    model.eval()\n    for x in {what}:\n        probe(model(x))"
    )
    assert context(f"def probe(*_): pass\n{source}") == expected

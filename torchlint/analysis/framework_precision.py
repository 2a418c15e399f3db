"""Training frameworks that run in full precision, because their own switch is not set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.analysis.arguments import keywords, literal
from torchlint.analysis.trainers import is_asked
from torchlint.syntax.chains import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.analysis.program import Program


@dataclass(frozen=True, slots=True)
class Switch:
    """How one framework is told to compute in a lower precision.

    ``decides`` are the parameters that tell it, or may; ``trains`` are methods one of which
    the file has to call, so that the object is there to train; ``predicts``, that it may as well be
    there to test and to predict, so that one of them has to be called on it.  ``unless`` says where
    else the precision may be set.
    """

    calls: frozenset[str]
    decides: frozenset[str]
    trains: frozenset[str]
    advice: str
    unless: str = ""
    predicts: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Unset:
    """A call that leaves a framework's switch as it is."""

    call: cst.Call
    switch: Switch


_LIGHTNING = ("lightning", "lightning.pytorch", "pytorch_lightning")
_CONFIG = frozenset({"deepspeed", "deepspeed_plugin", "deepspeed_plugins"})
SWITCHES = (
    Switch(
        frozenset(
            f"{root}.{name}"
            for root in _LIGHTNING
            for name in ("Trainer", "trainer.Trainer", "trainer.trainer.Trainer")
        ),
        frozenset({"precision", "plugins", "amp_backend", "amp_level"}),
        frozenset({"fit"}),
        'Trainer(precision="bf16-mixed")',
        predicts=True,
    ),
    Switch(
        frozenset(
            f"{root}.Fabric" for root in ("lightning", "lightning.fabric", "lightning_fabric")
        ),
        frozenset({"precision", "plugins"}),
        frozenset({"backward"}),
        'Fabric(precision="bf16-mixed")',
        "its command line",
    ),
    Switch(
        frozenset({"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}),
        frozenset({"mixed_precision", "fp16", "fsdp_plugin", "megatron_lm_plugin", *_CONFIG}),
        frozenset({"backward"}),
        'Accelerator(mixed_precision="bf16")',
        "`accelerate config` or `accelerate launch`",
    ),
    Switch(
        frozenset(
            f"transformers.{module}{name}"
            for module in ("", "training_args.", "training_args_seq2seq.")
            for name in ("TrainingArguments", "Seq2SeqTrainingArguments")
        ),
        frozenset({"bf16", "fp16", *_CONFIG}),
        frozenset({"train"}),
        "TrainingArguments(bf16=True)",
    ),
    Switch(
        frozenset({"ignite.engine.create_supervised_trainer"}),
        frozenset({"amp_mode"}),
        frozenset({"run"}),
        'create_supervised_trainer(amp_mode="amp", scaler=True)',
    ),
    Switch(
        frozenset({"deepspeed.initialize"}),
        frozenset(),
        frozenset({"backward"}),
        '"bf16": {"enabled": true} in its configuration',
    ),
)
_FASTAI = Switch(
    frozenset(
        {"Learner", "vision_learner", "cnn_learner", "unet_learner", "tabular_learner",
         "collab_learner", "text_classifier_learner", "language_model_learner"}
    ),
    frozenset({"cbs", "mixed_precision"}),
    frozenset({"fit", "fit_one_cycle", "fine_tune", "fit_flat_cos"}),
    "learn.to_bf16(), or learn.to_fp16() on older GPUs",
)  # fmt: skip
_ELSEWHERE = frozenset({"cpu", "tpu", "mps", "hpu"})


def unset_switches(program: Program) -> Iterator[Unset]:
    """Find calls that start a framework's training in full precision."""
    for switch in SWITCHES:
        for call in program.calls_of(*switch.calls):
            if _is_unset(program, call, switch):
                yield Unset(call, switch)
    if _fastai(program) and not any(program.method_calls("to_fp16", "to_bf16")):
        for call in program.index.of(cst.Call):
            if _makes_learner(program, call) and _is_unset(program, call, _FASTAI):
                yield Unset(call, _FASTAI)


def _is_unset(program: Program, call: cst.Call, switch: Switch) -> bool:
    if any(arg.star for arg in call.args) or not any(program.method_calls(*switch.trains)):
        return False
    given = keywords(call)
    if switch.decides & given.keys() or _avoids_gpus(given):
        return False
    if switch.predicts and not is_asked(program, call, switch.trains):
        return False
    if "deepspeed.initialize" in switch.calls:
        return _has_plain_configuration(program, given)
    return True


def _avoids_gpus(given: dict[str, cst.BaseExpression]) -> bool:
    """Whether the framework is told to train elsewhere than on a GPU."""
    for name in ("accelerator", "device"):
        if name in given and literal(given[name]) in _ELSEWHERE:
            return True
    if any(
        name in given and literal(given[name]) == "True" for name in ("cpu", "use_cpu", "no_cuda")
    ):
        return True
    return "gpus" in given and literal(given["gpus"]) in ("0", "None")


def _has_plain_configuration(program: Program, given: dict[str, cst.BaseExpression]) -> bool:
    """Whether DeepSpeed is given a dictionary of this file that has no entry for precision."""
    node: cst.CSTNode | None = given.get("config", given.get("config_params"))
    if isinstance(node, cst.Name):
        bindings = program.flow.reaching(node)
        plain = len(bindings) == 1 and bindings[0].is_plain
        node = bindings[0].value if plain else None
    if not isinstance(node, cst.Dict):
        return False
    keys = [
        literal(element.key) if isinstance(element, cst.DictElement) else None
        for element in node.elements
    ]
    return None not in keys and not {"bf16", "fp16", "amp", "torch_autocast"} & set(keys)


def _fastai(program: Program) -> bool:
    """Whether names come from fastai: its scripts import all of them."""
    stars = program.index.root.stars
    return "fastai" in program.frameworks or any(
        star.module is not None and dotted(star.module).startswith("fastai.") for star in stars
    )


def _makes_learner(program: Program, call: cst.Call) -> bool:
    name = dotted(call.func).rpartition(".")[2]
    if name not in _FASTAI.calls:
        return False
    known = program.qualified(call.func)
    own = program.index.root.owner(name) is not None
    return known.startswith("fastai.") if known or own else bool(program.index.root.stars)

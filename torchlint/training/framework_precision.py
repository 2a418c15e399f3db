"""Training frameworks that train in float32, because their own switch is not set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Dictionary, Nothing, Number, Text, Truth
from torchlint.training.precisions import NO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchlint.semantics.arguments import Argument
    from torchlint.syntax.module import Module
    from torchlint.training.script import Script


@dataclass(frozen=True, slots=True)
class Switch:
    """How one framework is told to compute in a lower precision.

    ``decides`` are the parameters that tell it, or may; ``trains`` are methods of which one is
    called where it trains.
    """

    packages: frozenset[str]
    names: frozenset[str]
    decides: frozenset[str]
    trains: frozenset[str]
    advice: str
    unless: str = ""


def _switch(packages: str, names: str, decides: str, trains: str, *said: str) -> Switch:
    words = [frozenset(one.split()) for one in (packages, names, decides, trains)]
    return Switch(words[0], words[1], words[2], words[3], *said)


_LIGHTNING = "lightning pytorch_lightning lightning_fabric"
SWITCHES = (
    _switch(_LIGHTNING, "Trainer", "precision plugins amp_backend amp_level", "fit",
            'Trainer(precision="bf16-mixed")'),
    _switch(_LIGHTNING, "Fabric", "precision plugins", "backward",
            'Fabric(precision="bf16-mixed")', "its command line"),
    _switch("accelerate", "Accelerator",
            "mixed_precision fp16 fsdp_plugin megatron_lm_plugin deepspeed_plugin "
            "deepspeed_plugins", "backward", 'Accelerator(mixed_precision="bf16")',
            "`accelerate config` or `accelerate launch`"),
    _switch("transformers", "TrainingArguments Seq2SeqTrainingArguments", "bf16 fp16 deepspeed",
            "train", "TrainingArguments(bf16=True)"),
    _switch("ignite", "create_supervised_trainer", "amp_mode", "run",
            'create_supervised_trainer(amp_mode="amp", scaler=True)'),
    _switch("deepspeed", "initialize", "", "backward",
            '"bf16": {"enabled": true} in its configuration'),
    _switch("fastai", "Learner vision_learner cnn_learner unet_learner tabular_learner "
            "collab_learner text_classifier_learner language_model_learner",
            "cbs mixed_precision", "fit fit_one_cycle fine_tune fit_flat_cos",
            "learn.to_bf16(), or learn.to_fp16() on older GPUs"),
)  # fmt: skip
_ELSEWHERE = tuple(Text(word) for word in ("cpu", "tpu", "mps", "hpu"))
_LOWER = ("to_fp16", "to_bf16")  # fastai's


def unset_switches(script: Script) -> Iterator[tuple[cst.Call, Switch]]:
    """Yield the calls that start a framework's training in float32."""
    named = script.module.index.named
    switches = [one for one in SWITCHES if one.names & named.keys()]
    for call in script.module.index.of(cst.Call) if switches else ():
        name = script.name(call.func)
        package, last = name.partition(".")[0], name.rpartition(".")[2]
        for switch in switches:
            is_own = package in switch.packages and last in switch.names
            if is_own and _is_unset(script, call, switch) and _trains(script, call, switch):
                yield call, switch


def _is_unset(script: Script, call: cst.Call, switch: Switch) -> bool:
    given, is_sure = given_to(script.connected.evaluation, call, ())
    decided = [given[name] for name in sorted(switch.decides & given.keys())]
    if not is_sure or not all(map(_is_no, decided)):
        return False
    if "deepspeed" in switch.packages:
        return _is_plain(given.get("config", given.get("config_params")))
    if any(word in module.index.named for module in _modules(script) for word in _LOWER):
        return False
    told = [one for name in ("accelerator", "device") if name in given for one in given[name].value]
    off = [given[name].value for name in ("cpu", "use_cpu", "no_cuda") if name in given]
    gpus = given["gpus"].value if "gpus" in given else ()
    return not (
        any(one in _ELSEWHERE for one in told)
        or any(Truth(True) in value for value in off)
        or any(one in (Number(0), Nothing()) for one in gpus)
    )


def _is_no(given: Argument) -> bool:
    """Whether a literal says so: an option that is off may be switched on."""
    is_option = not isinstance(given.node, (cst.SimpleString, cst.Integer, cst.Name))
    return not is_option and bool(given.value) and all(one in NO for one in given.value)


def _is_plain(config: Argument | None) -> bool:
    """Whether DeepSpeed is given a dictionary that is seen to say nothing of precision."""
    match config.value if config else ():
        case (Dictionary(entries=entries, element=()),):
            return not {"bf16", "fp16", "amp", "torch_autocast"} & dict(entries).keys()
    return False


def _trains(script: Script, call: cst.Call, switch: Switch) -> bool:
    """Whether anything is asked to train; of Lightning's trainers, what the call makes."""
    at = script.connected.evaluation.at(call, script.file)
    return any(
        isinstance(node.func, cst.Attribute)
        and node.func.attr.value in switch.trains
        and (
            "Trainer" not in switch.names
            or any(getattr(one, "call", None) == at for one in script.value(node.func.value))
        )
        for module in _modules(script)
        if switch.trains & module.index.named.keys()
        for node in module.index.of(cst.Call)
    )


def _modules(script: Script) -> list[Module]:
    return script.connected.files.modules

"""Switches of training frameworks: which of them nothing sets, where a framework trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics.arguments import given_to
from torchlint.semantics.values import Nothing, Number, Text, Truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchlint.semantics.arguments import Argument
    from torchlint.training.script import Script

NO = (Truth(value=False), Nothing(), Text("no"), Text("32"), Text("32-true"), Number(32))
PLACES = ("accelerator", "device", "cpu", "use_cpu", "no_cuda")
ELSEWHERE = (Text("cpu"), Text("tpu"), Text("mps"), Text("hpu"), Truth(True))


@dataclass(frozen=True, slots=True)
class Switch:
    """How a framework is told: ``decides`` are the parameters that do, or may.

    ``trains`` is the method that is called where it trains, ``advice`` what to write.
    """

    decides: str
    trains: str
    advice: str
    unless: str = ""


def unset_switches(
    script: Script, switches: Mapping[str, Switch]
) -> Iterator[tuple[cst.Call, Switch]]:
    """Yield the calls that start a framework's training on a GPU, and do not set a switch."""
    for call, name in script.calls_of(*switches):
        switch = switches[name]
        given, is_sure = given_to(script.connected.evaluation, call, ())
        decided = [given[word] for word in switch.decides.split() if word in given]
        places = [one for word in PLACES if word in given for one in given[word].value]
        is_elsewhere = any(one in ELSEWHERE for one in places)
        if is_sure and not is_elsewhere and all(map(_is_no, decided)):
            made = script.connected.evaluation.at(call, script.file)
            if any(
                not name.endswith("Trainer")
                or any(getattr(one, "call", None) == made for one in script.value(owner))
                for owner in _owners(script, switch.trains)
            ):
                yield call, switch


def _owners(script: Script, method: str) -> Iterator[cst.BaseExpression]:
    """Yield what a method is called of, in connected files."""
    files = script.connected.files
    for asked, file in files.attributes(method):
        if isinstance(files.modules[file].parent(asked), cst.Call):
            yield asked.value


def _is_no(given: Argument) -> bool:
    """Whether a literal says so: an option that is off may be switched on."""
    is_literal = isinstance(given.node, (cst.SimpleString, cst.Integer, cst.Name))
    return is_literal and bool(given.value) and all(one in NO for one in given.value)

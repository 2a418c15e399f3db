"""The built-in rules: one file a rule, and the table that lists them.

The table is literal and is imported before libcst is: it decides which files are parsed at all.
"""

from __future__ import annotations

from torchlint.edits import Safety
from torchlint.rule import Rule, Severity

INFO, WARNING = Severity.INFO, Severity.WARNING
SAFE, UNSAFE = Safety.SAFE, Safety.UNSAFE

# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("TL102", "dataloader-no-pin-memory", "batches go to a GPU from a DataLoader without pinned memory", WARNING, SAFE, 4, (("DataLoader",),)),
    Rule("TL201", "item-accumulate-in-train-loop", "a running total waits for the GPU in every training step", WARNING, SAFE, 5, ((".item", "float(", "int("), ("backward", "training_step", "zero_grad", ".step("))),
    Rule("TL202", "log-every-step", "a value is read from the GPU in every training step to be logged or kept", WARNING, None, 5, (("backward", "training_step", "zero_grad", ".step("),)),
    Rule("TL204", "device-roundtrip-in-loop", "tensors are copied to the host in every training step", WARNING, SAFE, 5, ((".cpu", ".numpy", ".tolist"),)),
    Rule("TL208", "synchronize-in-loop", "the host waits for the whole GPU in every training step", WARNING, UNSAFE, 5, (("synchronize",),)),
    Rule("TL302", "tensor-copies-numpy", "torch.tensor copies a NumPy array that nobody else needs", WARNING, SAFE, 5, (("tensor(",), ("numpy", "np"))),
    Rule("TL303", "tensor-from-list-of-arrays", "torch.tensor takes a list of arrays apart element by element, or copies a tensor", WARNING, SAFE, 5, (("ensor(",),)),
    Rule("TL602", "zero-grad-not-none", "gradients are filled with zeros instead of dropped", WARNING, UNSAFE, 7, (("zero_grad", ".grad"),)),
    Rule("TL703", "bias-before-norm", "a bias that the following normalisation subtracts again", WARNING, UNSAFE, 8, (("Norm",),)),
)
# fmt: on

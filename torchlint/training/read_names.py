"""What libraries call functions and methods that read, show, write or count with tensors."""

from __future__ import annotations

NUMBERS = frozenset({"item", "__float__", "__int__", "__bool__", "__index__"})
COPIES = frozenset({"cpu", "numpy", "tolist", "__array__"})
# What counts what it selects, or looks at all numbers, before the host knows a size.
SIZES = frozenset({"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere",
                   "bincount", "repeat_interleave"})  # fmt: skip
CONVERSIONS = frozenset({"float", "int", "bool", "complex"})
SHOWS = frozenset({"print", "str", "repr", "format"})
# What needs whole numbers on the host: how many turns there are, or rows.
COUNTS = frozenset({"builtins.range", *(f"torch.{name}" for name in
                    "arange zeros ones full empty rand randn eye".split())})  # fmt: skip
# Methods that show or write numbers, by the libraries that have them.
WRITES = frozenset("add_scalar add_scalars set_postfix set_postfix_str set_description "
                   "set_description_str".split())  # fmt: skip
LOGS = frozenset("debug info warning error critical log".split())
LOGGERS = ("logging.", "wandb.log", "mlflow.log_", "tqdm.", "sys.stdout.", "sys.stderr.")
LOGGING = ("logging.", "wandb.", "tqdm.", "loguru.", "torch.utils.tensorboard.", "tensorboardX.")
# What a copy goes through on the host before it is a number.
ON_THE_WAY = frozenset("cpu detach data numpy item".split())

"""Seeds every random stream of a trace run, and shifts the seeds that the script itself sets."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from .finder import after_import

TORCH = 67280421310721  # torch's own, where a script sets none
OTHERS = 0


def seed_early(reseed: int) -> None:
    """Seed Python's and NumPy's streams when they come in; shift what is set later."""

    def random_came(random: Any) -> None:
        if hasattr(random, "getstate"):  # else it is a file of the project
            random.seed(OTHERS + reseed)
            _shift(random, "seed", reseed)

    def numpy_came(numpy: Any) -> None:
        numpy.seed(OTHERS + reseed)
        _shift(numpy, "seed", reseed)
        _shift(numpy, "default_rng", reseed)

    after_import("random", random_came)
    after_import("numpy.random", numpy_came)


def seed_torch(torch: Any, reseed: int) -> None:
    """Seed torch's streams on all devices; shift what is set later."""
    torch.manual_seed(TORCH + reseed)
    if reseed:
        shifted = _shift(torch, "manual_seed", reseed)
        torch.random.manual_seed = shifted
        # torch.manual_seed has its own way to the devices: these are for those who ask themselves
        _shift(torch.cuda, "manual_seed", reseed)
        _shift(torch.cuda, "manual_seed_all", reseed)
        torch.Generator = _shifted_generator(torch.Generator, reseed)


def _shift(module: Any, name: str, reseed: int) -> Any:
    call = getattr(module, name)
    unseeded = itertools.count(OTHERS + reseed)  # else these would come from the system's noise

    @functools.wraps(call)
    def shifted(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        if not values or values[0] is None:
            return call(next(unseeded))
        args = tuple(_moved(value, reseed) for value in args)
        return call(*args, **{key: _moved(value, reseed) for key, value in kwargs.items()})

    setattr(module, name, shifted)
    return shifted


def _moved(value: Any, reseed: int) -> Any:
    return value + reseed if isinstance(value, int) and not isinstance(value, bool) else value


def _shifted_generator(generator: Any, reseed: int) -> Any:
    """Return a class that stands for `torch.Generator`, of which an attribute cannot be set."""

    class Kind(type(generator)):  # type: ignore[misc]
        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, generator)

    class Generator(generator, metaclass=Kind):  # type: ignore[misc]
        def manual_seed(self, seed: int) -> Any:
            return super().manual_seed(_moved(seed, reseed))

    Generator.__module__, Generator.__qualname__ = generator.__module__, generator.__qualname__
    return Generator

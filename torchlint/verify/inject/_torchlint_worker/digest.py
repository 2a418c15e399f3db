"""Hashes of batches, parameters and random states: the same bytes, the same hash, on any device."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEPTH = 8  # of containers in containers; what lies deeper counts by its type


class Digest:
    """Feeds values to one hash; tensors as dtype, shape and their numbers in logical order."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.hash = hashlib.blake2b(digest_size=8)

    def text(self) -> str:
        """Return the hash so far, in hexadecimal digits."""
        return self.hash.hexdigest()

    def say(self, word: str) -> None:
        """Feed a word; words cannot run into each other."""
        self.hash.update(word.encode("utf-8", "surrogatepass") + b"\0")

    def value(self, value: Any, depth: int = 0) -> None:
        """Feed a batch or a part of one."""
        self.say(type(value).__name__)
        if isinstance(value, self.torch.Tensor):
            self.tensor(value)
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.say(repr(value))
        elif depth >= _DEPTH:
            return
        elif _is_array(value):
            self.say(f"{value.dtype} {value.shape}")
            self.hash.update(repr(value).encode() if value.dtype.hasobject else value.tobytes())
        else:
            for part in _parts(value):
                self.value(part, depth + 1)

    def tensor(self, tensor: Any) -> None:
        """Feed a tensor: a sharded one as its local part, one of another kind as its parts."""
        self.say(f"{tensor.dtype} {tuple(tensor.shape)}")
        if hasattr(tensor, "to_local"):
            tensor = tensor.to_local()
        if hasattr(tensor, "__tensor_flatten__"):
            for name in tensor.__tensor_flatten__()[0]:
                self.tensor(getattr(tensor, name))
        elif tensor.layout is not self.torch.strided or tensor.is_quantized:
            self.say(str(tensor))
        elif tensor.device.type != "meta":
            self._numbers(tensor)

    def _numbers(self, tensor: Any) -> None:
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        size = flat.numel() * flat.element_size()
        if size:
            self.hash.update((ctypes.c_char * size).from_address(flat.data_ptr()))


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _parts(value: Any) -> Iterable[Any]:
    """Return the parts of a container, or the attributes of an object that stands for a batch."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if hasattr(value, "items") and hasattr(value, "keys"):
        return [part for item in value.items() for part in item]
    if hasattr(value, "tobytes"):  # an image
        return [value.tobytes()]
    return [part for item in getattr(value, "__dict__", {}).items() for part in item]

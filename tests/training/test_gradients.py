"""Gradients by hand: reads behind a check for None, and others."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.syntax.module import Module
from torchlint.training.gradients import is_checked


@pytest.mark.parametrize(
    ("code", "checked"),
    [
        ("norm = w.grad.norm()", False),
        ("if w.grad is None:\n    g = 1 + w.grad", False),
        ("if x or w.grad is not None:\n    g = w.grad.norm()", False),
        ("g = [p.grad.norm() for p in model.parameters()]", False),
        ("if w.grad is not None:\n    g = w.grad.norm()", True),
        ("if not w.grad is None:\n    g = w.grad", True),
        ("if w.grad is None:\n    pass\nelse:\n    g = w.grad", True),
        ("for w in ws:\n    if w.grad is None:\n        continue\n    g = w.grad", True),
        ("for w in ws:\n    assert w.grad is not None\n    g = w.grad", True),
        ("g = w.grad if w.grad is not None else 0", True),
        ("g = w.grad is not None and w.grad.norm()", True),
        ("g = w.grad is None or w.grad.norm()", True),
        ("if w.grad:\n    g = w.grad", True),
        ("while w.grad is not None:\n    g = w.grad", True),
        ("g = hasattr(w.grad, 'norm') and w.grad.norm()", True),
        ("g = [p.grad for p in params if p.grad is not None]", True),
        ("g = {p.grad for ps in all for p in ps if p.grad is not None}", True),
        ("try:\n    g = w.grad.norm()\nexcept AttributeError:\n    pass", True),
    ],
)
def test_is_checked(code, checked):
    module = Module(code + "\n")
    reads = [one for one in module.index.of(cst.Attribute) if one.attr.value == "grad"]
    assert all(is_checked(module, one) for one in reads) == checked

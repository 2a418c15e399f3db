"""Names suggest things, not actions."""

from __future__ import annotations

import pytest

from torchlint.training.conventions import suggested


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ("model net model_g student_model", "model"),
        ("train_loader dataloader val_dataloader", "loader"),
        ("optimizer opt optimizer_d", "optimizer"),
        ("loss_fn criterion", "criterion"),
        ("generator generator_a", "model"),
        ("data_generator get_model build_optimizer num_loader models use_scaler x data", ""),
        ("evaluate_model compile_net unwrap_model Generator", ""),
    ],
)
def test_what_names_suggest(names: str, what: str) -> None:
    assert {name: suggested(name) for name in names.split()} == dict.fromkeys(names.split(), what)

"""What training frameworks call of what extends their classes, how often, and with gradients.

From the documentation of Lightning ("LightningModule", "Callback") and transformers ("Trainer",
"Callbacks").
"""

from __future__ import annotations

from typing import NamedTuple


class Hook(NamedTuple):
    """A method that a framework calls.

    ``rate`` is "step", "evaluation", "epoch" or "once"; ``batch`` is the place of the parameter
    that gets a batch, behind ``self``, -1 where none does.
    """

    rate: str
    batch: int = -1
    has_gradients: bool = True


def _hooks(
    rate: str, names: str, batch: int = -1, *, has_gradients: bool = True
) -> dict[str, Hook]:
    return dict.fromkeys(names.split(), Hook(rate, batch, has_gradients))


_LIGHTNING = {
    **_hooks("step", "training_step on_train_batch_start", 0),
    **_hooks("step", "on_train_batch_end", 1),
    **_hooks("step", """on_before_backward on_after_backward on_before_optimizer_step
        on_before_zero_grad optimizer_step optimizer_zero_grad lr_scheduler_step"""),
    **_hooks("evaluation", """validation_step test_step predict_step on_validation_batch_start
        on_test_batch_start""", 0, has_gradients=False),
    **_hooks("evaluation", "on_validation_batch_end on_test_batch_end", 1, has_gradients=False),
    **_hooks("epoch", "on_train_epoch_start on_train_epoch_end training_epoch_end"),
    **_hooks("epoch", """on_validation_epoch_start on_validation_epoch_end validation_epoch_end
        on_test_epoch_end test_epoch_end""", has_gradients=False),
    **_hooks("once", """configure_optimizers train_dataloader val_dataloader test_dataloader
        predict_dataloader prepare_data setup on_fit_start on_fit_end on_train_start
        on_train_end"""),
}  # fmt: skip
_TRAINER = {
    **_hooks("step", "training_step compute_loss", 1),
    **_hooks("epoch", "log"),
    **_hooks("evaluation", "prediction_step", 1, has_gradients=False),
    **_hooks("once", "get_train_dataloader create_optimizer create_scheduler"),
}
_CALLBACK = {
    **_hooks("step", "on_step_begin on_step_end on_substep_end"),
    **_hooks("evaluation", "on_prediction_step"),
    **_hooks("epoch", "on_epoch_begin on_epoch_end on_evaluate"),
}
HOOKS: dict[str, dict[str, Hook]] = {
    "lightning.LightningModule": _LIGHTNING,
    "lightning.LightningDataModule": _LIGHTNING,
    "transformers.Trainer": _TRAINER,
    "transformers.Seq2SeqTrainer": _TRAINER,
    "transformers.TrainerCallback": _CALLBACK,
}

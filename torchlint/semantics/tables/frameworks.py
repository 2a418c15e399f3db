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


_LIGHTNING = {
    "training_step": Hook("step", 0),
    "on_train_batch_start": Hook("step", 0),
    "on_train_batch_end": Hook("step", 1),
    "on_before_backward": Hook("step"),
    "on_after_backward": Hook("step"),
    "on_before_optimizer_step": Hook("step"),
    "on_before_zero_grad": Hook("step"),
    "optimizer_step": Hook("step"),
    "optimizer_zero_grad": Hook("step"),
    "lr_scheduler_step": Hook("step"),
    **{
        name: Hook("evaluation", 0, has_gradients=False)
        for name in ("validation_step", "test_step", "predict_step", "on_validation_batch_start",
                     "on_test_batch_start")
    },
    **{
        name: Hook("evaluation", 1, has_gradients=False)
        for name in ("on_validation_batch_end", "on_test_batch_end")
    },
    **{
        name: Hook("epoch")
        for name in ("on_train_epoch_start", "on_train_epoch_end", "training_epoch_end")
    },
    **{
        name: Hook("epoch", has_gradients=False)
        for name in ("on_validation_epoch_start", "on_validation_epoch_end",
                     "validation_epoch_end", "on_test_epoch_end", "test_epoch_end")
    },
    **{
        name: Hook("once")
        for name in ("configure_optimizers", "train_dataloader", "val_dataloader",
                     "test_dataloader", "predict_dataloader", "prepare_data", "setup",
                     "on_fit_start", "on_fit_end", "on_train_start", "on_train_end")
    },
}  # fmt: skip
_TRAINER = {
    "training_step": Hook("step", 1),
    "compute_loss": Hook("step", 1),
    "log": Hook("epoch"),
    "prediction_step": Hook("evaluation", 1, has_gradients=False),
    "get_train_dataloader": Hook("once"),
    "create_optimizer": Hook("once"),
    "create_scheduler": Hook("once"),
}
_CALLBACK = {
    **{name: Hook("step") for name in ("on_step_begin", "on_step_end", "on_substep_end")},
    "on_prediction_step": Hook("evaluation"),
    **{name: Hook("epoch") for name in ("on_epoch_begin", "on_epoch_end", "on_evaluate")},
}
HOOKS: dict[str, dict[str, Hook]] = {
    "lightning.LightningModule": _LIGHTNING,
    "lightning.LightningDataModule": _LIGHTNING,
    "transformers.Trainer": _TRAINER,
    "transformers.Seq2SeqTrainer": _TRAINER,
    "transformers.TrainerCallback": _CALLBACK,
}
# What the outputs of transformers' and diffusers' models hold.
OUTPUTS = frozenset(
    "loss logits last_hidden_state pooler_output sample prediction_logits start_logits end_logits "
    "image_embeds text_embeds logits_per_image logits_per_text".split()
)

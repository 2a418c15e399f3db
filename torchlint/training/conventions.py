"""Which names of parameters and attributes suggest which type, where nothing better is known.

The one place where a name counts.  Names of things are read, not names of actions: `get_model`,
`build_optimizer` and `num_loaders` suggest nothing, nor do those of classes: `Generator`.
"""

from __future__ import annotations

from functools import lru_cache

_SUGGESTED = {
    "model": "model net network backbone encoder decoder generator discriminator critic",
    "optimizer": "optimizer optim opt",
    "loader": "loader dataloader",
    "criterion": "criterion loss_fn loss_func",
    "scheduler": "scheduler lr_scheduler",
    "scaler": "scaler grad_scaler",
    "device": "device",
}
_WORDS = {word: kind for kind, words in _SUGGESTED.items() for word in words.split()}
_ALONE = frozenset({"generator"})  # that suggest nothing with another word before them
_ACTIONS = frozenset(
    """get build make create load save init setup set num use is has n evaluate validate run fit
    prepare define construct wrap freeze export convert restore update compile print predict plot
    profile benchmark unwrap optimize quantize""".split()
)


@lru_cache(4096)
def suggested(name: str) -> str:
    """Return the kind of thing that a name suggests: a "model", a "loader" ..., or "".

    >>> suggested("train_loader"), suggested("model_g"), suggested("get_model")
    ('loader', 'model', '')
    """
    plain = name.strip("_").lower()
    if name.istitle():
        return ""
    if plain in _WORDS:
        return _WORDS[plain]
    parts = plain.split("_")
    if parts[0] in _ACTIONS or plain.endswith("s"):
        return ""
    for word in (parts[-1], "_".join(parts[-2:])):
        if word in _WORDS and word not in _ALONE:
            return _WORDS[word]
    is_numbered = len(parts) == 2 and len(parts[1]) == 1
    return _WORDS.get(parts[0], "") if is_numbered else ""

"""Every class of "same results", from made-up traces, and what each level allows."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from torchlint.edits.fix import Safety
from torchlint.rule import Level
from torchlint.verify.agree import agreement, needs_other_seed
from torchlint.verify.curves import differences, limits, times_seed
from torchlint.verify.model import Ending, Phase, Record, Run, Same, Trace

STEPS = 40


def losses(seed: int = 0, factor: float = 1.0) -> tuple[float, ...]:
    """Return a falling curve with noise of 5 % from batch to batch."""
    rng = random.Random(seed)  # noqa: S311 - noise, no secret
    return tuple(factor * 2 * 0.97**k * (1 + rng.gauss(0, 0.05)) for k in range(STEPS))


def changed(values: tuple[float, ...], begin: int, size: float, growth: float = 1.0):
    """Return the losses with a relative difference that begins at one backward and grows."""
    return tuple(
        v * (1 + size * growth ** (k - begin) * (-1) ** k) if k >= begin else v
        for k, v in enumerate(values)
    )


BEFORE = Trace(
    losses=losses(), batches=tuple(map(str, range(STEPS))), initial="i", parameters="p",
    norms=(3.0, 4.0), random="r", reads=(),
)  # fmt: skip
OTHER = replace(
    BEFORE, losses=losses(1), batches=tuple(map(str, range(STEPS, 2 * STEPS))), initial="j",
    parameters="q", norms=(3.1, 3.9), random="s",
)  # fmt: skip


def run(*traces: Trace) -> Run:
    records = tuple(
        Record(
            rank=rank, world=len(traces), ended="bound", device="cpu", torch="2.13", steps=(),
            optimizers=(), backwards=(), waits=(), start=0.0, workers=0, trace=trace,
        )
        for rank, trace in enumerate(traces)
    )  # fmt: skip
    return Run("x", Phase.TRACE, Ending.BOUND, 0, "", 1.0, 0, records)


def agree(after: Trace, *, again: Trace = BEFORE, other=OTHER, level=Level.E1, safety=None):
    others = run(other) if other else None
    return agreement(run(BEFORE), run(again), others, run(after), level=level, safety=safety)


def after(**known) -> Trace:
    return replace(BEFORE, parameters="other", **known)


def test_the_same_is_bitwise_equal() -> None:
    found = agree(BEFORE, level=Level.E0, safety=Safety.SAFE)
    assert (found.same, found.allowed, found.first) == (Same.BITWISE, True, None)
    assert found.why == "all 40 losses and the parameters are equal, bit for bit"


def test_rounding_that_grows_is_within_tolerance() -> None:
    found = agree(after(losses=changed(BEFORE.losses, 2, 1e-7, 1.4)))
    assert (found.same, found.allowed, found.first) == (Same.TOLERANCE, True, 2)
    assert found.why.startswith("losses differ from backward 3 on, by ")


def test_a_small_change_that_begins_large_is_no_rounding() -> None:
    found = agree(after(losses=changed(BEFORE.losses, 1, 1e-4)))
    assert (found.same, found.allowed) == (Same.SEED_SPREAD, False)


def test_rounding_that_has_grown_beyond_the_spread_of_seeds_is_not_told_from_change() -> None:
    assert agree(after(losses=changed(BEFORE.losses, 30, 0.06))).same is not Same.TOLERANCE


def test_half_precision_losses_have_a_coarser_floor() -> None:
    coarse = tuple(1 + k / 128 for k in range(STEPS))
    trace = replace(BEFORE, losses=coarse)
    off = replace(trace, losses=changed(coarse, 0, 0.008), parameters="x")
    far = replace(OTHER, losses=tuple(reversed(coarse)))
    found = agreement(run(trace), run(trace), run(far), run(off), level=Level.E1, safety=None)
    assert found.same is Same.TOLERANCE


def test_what_two_runs_of_the_original_differ_by_is_allowed() -> None:
    again = after(losses=changed(BEFORE.losses, 0, 1e-4))
    near = replace(again, losses=changed(BEFORE.losses, 0, 5e-4), parameters="third")
    found = agree(near, again=again, level=Level.E0, safety=Safety.SAFE)
    assert (found.same, found.allowed) == (Same.TOLERANCE, True)
    assert "two runs of the original differ by 1e-04" in found.why
    assert agree(near, level=Level.E0, safety=Safety.SAFE).allowed is False


def test_losses_alone_can_show_that_a_script_does_not_repeat_itself() -> None:
    again = replace(BEFORE, losses=changed(BEFORE.losses, 0, 1e-6))
    near = after(losses=changed(BEFORE.losses, 0, 2e-6))
    assert agree(near, again=again, level=Level.E0).allowed


def test_but_never_more_than_a_share_of_the_spread_of_seeds() -> None:
    again = after(losses=changed(BEFORE.losses, 0, 0.05))
    wild = after(losses=changed(BEFORE.losses, 0, 0.2))
    assert agree(wild, again=again).same is Same.DIVERGED


def test_a_safe_fix_must_be_bitwise_whatever_its_rule_declares() -> None:
    near = after(losses=changed(BEFORE.losses, 5, 1e-7))
    assert agree(near, level=Level.E1, safety=Safety.UNSAFE).allowed
    assert not agree(near, level=Level.E1, safety=Safety.SAFE).allowed


def test_the_same_batches_in_another_order_are_another_stream() -> None:
    found = agree(after(losses=losses(2), batches=tuple(reversed(BEFORE.batches))), level=Level.E2)
    assert (found.same, found.allowed) == (Same.RANDOM_STREAM, True)
    assert found.why.startswith("the same batches in another order; losses differ from backward 1")
    assert "as much as with another seed" in found.why


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"batches": tuple("abcd" * 10)}, "other batches: another order, or other augmentation"),
        ({"initial": "k"}, "other initial parameters"),
        ({"random": "k"}, "the same batches, but other random numbers"),
    ],
)
def test_other_signs_of_another_stream(known, words) -> None:
    found = agree(after(losses=losses(2), **known))
    assert (found.same, found.allowed) == (Same.RANDOM_STREAM, False)
    assert found.why.startswith(words)


def test_only_the_random_state_differs() -> None:
    found = agree(replace(BEFORE, random="k"), level=Level.E0)
    assert (found.same, found.allowed) == (Same.RANDOM_STREAM, False)
    again = replace(BEFORE, random="m")
    assert agree(replace(BEFORE, random="k"), again=again).same is Same.BITWISE


def test_batches_that_the_original_does_not_repeat_tell_nothing() -> None:
    again = replace(BEFORE, batches=tuple("dcba" * 10))
    found = agree(after(losses=losses(2), batches=tuple("abcd" * 10)), again=again)
    assert found.same is not Same.RANDOM_STREAM


def test_a_scaled_loss_has_diverged_even_when_the_stream_changed() -> None:
    found = agree(after(losses=losses(2, factor=0.5), random="k"), level=Level.E2)
    assert (found.same, found.allowed) == (Same.DIVERGED, False)


def test_with_the_same_streams_less_is_allowed_than_with_others() -> None:
    apart = 1.6 * max(differences(BEFORE.losses, OTHER.losses))
    far = after(losses=changed(BEFORE.losses, 0, apart / 2))
    assert agree(far).same is Same.DIVERGED
    assert agree(replace(far, random="k")).same is Same.RANDOM_STREAM


def test_a_part_in_which_another_seed_changes_nothing_is_held_against_the_whole() -> None:
    flat = (1.0,) * STEPS
    other = (*flat[:10], *(1.1,) * (STEPS - 10))
    assert times_seed(flat, other, (1.001, *flat[1:])) < 0.1
    assert times_seed(flat, flat, (1.001, *flat[1:])) == math.inf


def test_a_broken_training_has_diverged() -> None:
    grown = tuple(v * (1 + 0.02 * k) for k, v in enumerate(BEFORE.losses))
    found = agree(after(losses=grown), level=Level.E2)
    assert (found.same, found.allowed) == (Same.DIVERGED, False)
    assert agree(after(losses=grown), level=Level.E3).allowed


def test_nan_only_after_is_never_allowed() -> None:
    found = agree(after(losses=(*BEFORE.losses[:-1], math.nan)), level=Level.E3)
    assert (found.same, found.allowed) == (Same.DIVERGED, False)
    assert found.why.startswith("the loss of backward 40 is nan and was ")
    assert not agree(after(norms=(3.0, math.nan)), level=Level.E3).allowed


def test_nan_in_the_same_places_is_equal() -> None:
    lost = replace(BEFORE, losses=(*BEFORE.losses[:-2], math.nan, math.inf))
    found = agreement(run(lost), run(lost), None, run(lost), level=Level.E0, safety=None)
    assert found.same is Same.BITWISE


def test_missing_losses_leave_the_parameters_to_judge_by() -> None:
    none = replace(BEFORE, losses=(None,) * STEPS)
    same = agreement(run(none), run(none), None, run(none), level=Level.E0, safety=None)
    assert (same.same, "no loss was seen" in same.why) == (Same.BITWISE, True)
    near = replace(none, parameters="x", norms=(3.0001, 4.0))
    found = agreement(run(none), run(none), None, run(near), level=Level.E0, safety=None)
    assert (found.same, found.allowed) == (Same.TOLERANCE, False)
    far = replace(none, parameters="x", norms=(9.0, 4.0))
    other = run(replace(OTHER, losses=none.losses))
    found = agreement(run(none), run(none), other, run(far), level=Level.E2, safety=None)
    assert found.same is Same.DIVERGED


def test_equal_losses_with_other_parameters_are_not_bitwise() -> None:
    assert agree(after(norms=(3.0, 4.0001))).same is Same.TOLERANCE
    found = agree(after(norms=(3.0, 4.05)))
    assert found.same is Same.SEED_SPREAD
    assert found.why.startswith("the losses are equal, the parameters after the last step are not")


def test_where_parameters_came_or_went_the_losses_decide() -> None:
    found = agree(after(losses=changed(BEFORE.losses, 5, 1e-7), norms=(1.0,)), level=Level.E2)
    assert (found.same, found.allowed) == (Same.SEED_SPREAD, True)
    assert found.why.startswith("1 parameters where 2 were before; losses differ from")
    assert not agree(after(norms=(1.0,)), level=Level.E1).allowed


def test_another_number_of_backwards_has_diverged() -> None:
    assert agree(after(losses=BEFORE.losses[::2])).why == "20 backwards where 40 were before"
    assert agree(after(losses=BEFORE.losses[::2]), level=Level.E3).allowed


def test_the_farthest_of_several_processes_counts() -> None:
    near = after(losses=changed(BEFORE.losses, 5, 1e-7))
    two = run(BEFORE, BEFORE)
    found = agreement(two, two, None, run(BEFORE, near), level=Level.E1, safety=None)
    assert (found.same, found.first) == (Same.TOLERANCE, 5)
    lone = agreement(two, two, None, run(BEFORE), level=Level.E3, safety=None)
    assert (lone.same, lone.allowed) == (Same.DIVERGED, False)
    assert lone.why == "1 processes trained where 2 did before"


def test_another_seed_is_needed_only_where_it_decides() -> None:
    def needs(trace: Trace) -> bool:
        return needs_other_seed(run(BEFORE), run(BEFORE), run(trace))

    assert not needs(BEFORE)
    assert not needs(replace(BEFORE, random="k"))
    assert not needs(after(losses=changed(BEFORE.losses, 5, 1e-7)))
    assert not needs(after(losses=BEFORE.losses[::2]))
    assert needs(after(losses=changed(BEFORE.losses, 5, 1e-2)))
    assert needs(after(losses=losses(2), batches=tuple("abcd" * 10)))


def test_a_script_that_no_seed_changes_has_an_upper_bound_of_its_own() -> None:
    grown = changed(BEFORE.losses, 0, 1e-6, 1.55)
    assert agree(after(losses=grown[:20] + BEFORE.losses[20:]), other=BEFORE).same is Same.TOLERANCE
    assert max(limits(BEFORE.losses, BEFORE.losses, BEFORE.losses)) == 1e-2


def test_losses_near_zero_are_compared_with_the_typical_one() -> None:
    assert differences((1.0, 1.0, 1e-9), (1.0, 1.0, -1e-9)) == [0, 0, pytest.approx(2e-7)]
    assert differences((None, 1.0), (None, None)) == [0, math.inf]

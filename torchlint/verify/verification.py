"""One verification from the pilot to the report: all together, each fix, groups, what is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from torchlint.verify import keep, schedule
from torchlint.verify.cautions import cautions, nothing_fits, own_failure
from torchlint.verify.machine import describe
from torchlint.verify.model import ALL, Judgement, Report, Speed, Verdict
from torchlint.verify.plan import apply_command, shown_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchlint.verify.keep import Codes
    from torchlint.verify.known import Comparison, Known
    from torchlint.verify.model import Caution, Configuration, Machine, Result
    from torchlint.verify.session import Session

NOTHING = Judgement(Speed.OPEN, None, None, ())
SEARCH = 0.5  # of the time that has to be left while fixes that fail together are looked for
HARMFUL = keep.HARMFUL | {Verdict.SLOWER}


def verification(session: Session, singles: Sequence[Configuration]) -> Report:
    """Verify each configuration, all together, and choose; Ctrl-C gives what is known so far.

    Raises:
        TorchlintError: the script cannot be run as it is, or makes too few steps.

    """
    singles = session.begin(singles)
    kept, interrupted = keep.Kept((), {}), False
    try:
        _measure(session, [session.with_codes(one.codes) for one in singles])
        kept = _choose(session, singles)
    except KeyboardInterrupt:
        interrupted = True
    return _report(session, singles, kept, interrupted=interrupted)


def _measure(session: Session, singles: Sequence[Known]) -> None:
    """Time all together and each fix, as `schedule` says, and the groups that this asks for."""
    useful = [each for each in singles if not each.unexercised]
    wanted = [session.compare(session.before, each) for each in useful]
    if len(useful) == 1:
        wanted[0].leads = True
    if len(useful) > 1 and (together := _together(session, _codes(useful))):
        wanted.insert(0, session.compare(session.before, together, leads=True))
    while session.step(wanted):
        room = session.expected - 1 - len(session.comparisons)  # one is for what is kept
        wanted += islice(_asked_for(session, useful), max(room, 0))
    session.settle(wanted)


def _together(session: Session, codes: Codes) -> Known | None:
    """Return all fixes together, traced, or the most of them that work together.

    Which do not is found by traces; those that fail alone are out, of those that fail only together
    one.
    """

    def works(some: Codes) -> bool | None:
        if session.left < SEARCH * session.limits.seconds and len(some) < len(codes):
            return None
        return session.works(session.with_codes(some, ALL if some == codes else ""))

    left = codes
    while left and not (fine := works(left)):
        if fine is None:
            return None
        culprits = keep.smallest_failing(left, works)
        left = tuple(code for code in left if code != culprits[-1])
    return session.with_codes(left) if len(left) > 1 else None


def _asked_for(session: Session, singles: Sequence[Known]) -> Iterator[Comparison]:
    """Yield what else is worth timing: all but what does harm, or a half of what gains."""
    told = {each.configuration.codes[0]: session.result(each) for each in singles}
    timed = {each.codes: each for each in session.comparisons.values() if len(each.codes) > 1}
    results = {codes: session.result(each.second) for codes, each in timed.items()}
    harmful = {code for code, result in told.items() if result.verdict in HARMFUL}
    for codes, each in timed.items():
        rest = tuple(code for code in codes if code not in harmful)
        if each.leads and 1 < len(rest) < len(codes) and rest not in timed:
            each.leads = False
            yield session.compare(session.before, session.with_codes(rest), leads=True)
            return
    if any(each.is_open and not each.samples for each in session.comparisons.values()):
        return
    proved = {
        codes: timed[codes].gain
        for codes, result in results.items()
        if result.verdict is Verdict.FASTER and harmful.isdisjoint(codes)
    }
    alone = {code: _settled_gain(result) for code, result in told.items()}
    for half in schedule.halves(proved, alone, timed):
        yield session.compare(session.before, session.with_codes(half))


def _settled_gain(result: Result) -> float | None:
    """Return the log gain of a fix alone, None as long as it has no verdict."""
    return 0.0 if result.verdict is Verdict.NO_CHANGE else keep.gain(result) or None


def _choose(session: Session, singles: Sequence[Configuration]) -> keep.Kept:
    """Choose the fixes to keep, with the runs that this needs."""
    results = {one.codes[0]: session.result(session.with_codes(one.codes)) for one in singles}

    made = session.comparisons

    def works(codes: Codes) -> bool | None:
        return session.works(session.with_codes(codes))

    def compare(first: Codes, second: Codes) -> Judgement:
        pair = session.with_codes(first), session.with_codes(second)
        for each in pair:
            if each is not session.before:
                session.trace(each)
        is_new = (pair[0].configuration.codes, pair[1].configuration.codes) not in made
        places = 2 if first else 1  # what others are judged by is kept only once it is timed itself
        if is_new and len(made) + places > session.expected:
            return NOTHING  # more than the intervals allow for
        comparison = session.compare(*pair)
        if session.works(pair[1]):
            session.time([comparison])
        return comparison.judgement or NOTHING

    kept = keep.choose(results, works, compare)
    if len(kept.codes) > 1:
        compare((), kept.codes)  # what is recommended has been measured as it is
    return keep.proved(kept, results, _sets(session))


def _sets(session: Session) -> Mapping[Codes, Result]:
    """Return the results of the sets that were timed against the script as it is."""
    return {
        second: session.result(session.known[second])
        for (first, second), each in session.comparisons.items()
        if not first and len(second) > 1 and each.samples
    }


def _report(
    session: Session, singles: Sequence[Configuration], kept: keep.Kept, *, interrupted: bool
) -> Report:
    """Put together what is known."""
    known = [session.with_codes(one.codes) for one in singles]
    results = [_told(session.result(each), kept) for each in known]
    together = _all(session, known)
    groups = {codes: result for codes, result in _sets(session).items() if codes != together}
    own = groups.pop(kept.codes, None)
    whole = session.result(session.known[together]) if together else None
    shared = [each for each in (whole, own) if each]
    machine = describe(session.how.pilot)
    before = session.result(session.before)
    return Report(
        command=session.fixer.command,
        shown_command=shown_command(session.fixer.command),
        machine=machine,
        mode=session.how.turns.mode,
        bounds=session.how.bounds,
        before=before,
        singles=tuple(results),
        together=whole,
        kept=kept.codes,
        kept_result=own,
        apply_command=apply_command(session.fixer, kept.codes),
        cautions=_cautions(session, machine, before, [*results, *shared]),
        interrupted=interrupted,
        seconds=session.limits.seconds - session.left,
        groups=tuple(groups.values()),
        unfit=tuple(session.unfit),
    )


def _cautions(
    session: Session, machine: Machine, before: Result, results: Sequence[Result]
) -> tuple[Caution, ...]:
    how = session.how
    own = [own_failure(run, how.anchor) for run in session.launches.failures[:1]]
    if session.unfit and not results:
        own.append(nothing_fits(session.unfit))
    return (*own, *cautions(machine, how.bounds, how.anchor, before, results))


def _all(session: Session, singles: Sequence[Known]) -> Codes:
    """Return the fixes of the row of all together: those that run, and do no harm alone."""
    running = _codes(
        each
        for each in singles
        if not (each.failed or each.unexercised)
        and (each.agreement is None or session.may_be_timed(each))
    )
    return running if len(running) > 1 and running in session.known else ()


def _codes(known: Iterable[Known]) -> Codes:
    return tuple(sorted(code for each in known for code in each.configuration.codes))


def _told(result: Result, kept: keep.Kept) -> Result:
    """Return a result that says whether its fix is kept, and why not where it was good alone."""
    code = result.configuration.codes[0]
    why = f"{result.why}; left out: {kept.left_out[code]}" if code in kept.left_out else result.why
    return replace(result, keep=code in kept.codes, why=why)

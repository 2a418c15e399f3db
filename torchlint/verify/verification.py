"""One verification from the pilot to the report: what is run next, and when it is enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.verify import keep
from torchlint.verify.cautions import cautions
from torchlint.verify.machine import describe
from torchlint.verify.model import ALL, Judgement, Report, Speed
from torchlint.verify.plan import apply_command, shown_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchlint.verify.model import Configuration, Result
    from torchlint.verify.session import Known, Session

NOTHING = Judgement(Speed.OPEN, None, None, ())


def verification(session: Session, singles: Sequence[Configuration]) -> Report:
    """Verify each configuration, all together, and choose; Ctrl-C gives what is known so far.

    Raises:
        TorchlintError: the script cannot be run as it is, or never steps.

    """
    singles = session.begin(singles)
    kept, interrupted = keep.Kept((), {}), False
    try:
        _measure(session, singles)
        kept = _choose(session, singles)
    except KeyboardInterrupt:
        interrupted = True
    return _report(session, singles, kept, interrupted=interrupted)


def _measure(session: Session, singles: Sequence[Configuration]) -> None:
    """Trace each fix and all together, and time those that compute what they should.

    All together come first: what they gain is what most want to know.
    """
    known = [session.with_codes(one.codes) for one in singles]
    for each in known:
        session.trace(each)
    running = [each for each in known if session.may_be_timed(each)]
    if len(running) > 1:
        together = session.with_codes(_codes(running), ALL)
        session.trace(together)
        if session.may_be_timed(together):
            running.insert(0, together)
    session.time([session.compare(session.before, each) for each in running])


def _choose(session: Session, singles: Sequence[Configuration]) -> keep.Kept:
    """Choose the fixes to keep, with the runs that this needs."""
    results = {one.codes[0]: session.result(session.with_codes(one.codes)) for one in singles}

    def works(codes: tuple[str, ...]) -> bool | None:
        return session.works(session.with_codes(codes))

    def compare(first: tuple[str, ...], second: tuple[str, ...]) -> Judgement:
        pair = session.with_codes(first), session.with_codes(second)
        for each in pair:
            if each is not session.before:
                session.trace(each)
        comparison = session.compare(*pair)
        if session.works(pair[1]):
            session.time([comparison])
        return comparison.judgement or NOTHING

    kept = keep.choose(results, works, compare)
    if len(kept.codes) > 1:
        compare((), kept.codes)  # what is recommended has been measured as it is
    return kept


def _report(
    session: Session, singles: Sequence[Configuration], kept: keep.Kept, *, interrupted: bool
) -> Report:
    """Put together what is known."""
    known = [session.with_codes(one.codes) for one in singles]
    results = [_told(session.result(each), kept) for each in known]
    running = _codes(each for each in known if session.may_be_timed(each))
    together = session.known.get(running) if len(running) > 1 else None
    own = session.known.get(kept.codes) if len(kept.codes) > 1 else None
    shared = [session.result(each) for each in (together, own) if each]
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
        together=session.result(together) if together else None,
        kept=kept.codes,
        kept_result=session.result(own) if own and own is not together else None,
        apply_command=apply_command(session.fixer, kept.codes),
        cautions=cautions(
            machine, session.how.bounds, session.how.anchor, before, [*results, *shared]
        ),
        interrupted=interrupted,
        seconds=session.clock() - session.started,
    )


def _codes(known: Iterable[Known]) -> tuple[str, ...]:
    return tuple(sorted(code for each in known for code in each.configuration.codes))


def _told(result: Result, kept: keep.Kept) -> Result:
    """Return a result that says whether its fix is kept, and why not where it was good alone."""
    code = result.configuration.codes[0]
    why = f"{result.why}; left out: {kept.left_out[code]}" if code in kept.left_out else result.why
    return replace(result, keep=code in kept.codes, why=why)

"""The parts of `benchmarks/lease.py`; standard library only."""

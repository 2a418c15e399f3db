"""What torch, NumPy and Python have under which names, as data."""

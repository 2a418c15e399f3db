"""torchlint finds, fixes and proves the small habits that waste GPU hours."""

__version__ = "0.1.0"

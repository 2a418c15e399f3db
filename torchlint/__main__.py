"""`python -m torchlint`."""

import sys

from torchlint.cli import command

if __name__ == "__main__":
    sys.exit(command())

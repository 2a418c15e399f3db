"""`torchlint verify`: run a script before and after each fix, and say what it is worth."""

"""`torchlint bench`: what each rule's fix is worth, in a small program that has the habit."""

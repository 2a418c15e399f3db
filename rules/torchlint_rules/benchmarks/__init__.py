"""What `torchlint bench` measures for each rule: a module that bears the rule's name."""

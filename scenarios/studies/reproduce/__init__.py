"""What papers claim, tried again: one file for each experiment, one for each study."""

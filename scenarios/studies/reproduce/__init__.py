"""Claims of papers, tried again: a module for each experiment, and one for each study."""

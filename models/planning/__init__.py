"""Planning problems and their answers."""

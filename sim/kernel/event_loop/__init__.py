"""The event loop: a compiled data plane that can do all that the specification says."""

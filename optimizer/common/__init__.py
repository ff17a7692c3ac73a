"""Tools that solvers and verifiers share: arguments, calls of solver libraries, enumeration, first fit, reasons."""

"""Solvers and verifiers: a frozen problem in, a solution with status, objective, bound and gap out."""

"""Planning problems and their answers.

Each module has one problem: a frozen class that checks itself on construction, its objective and constraints as
methods, and a plan that extends `solution.Solution`. Solvers are in `optimizer`, under the same names, and
`optimizer.verify` checks plans with the methods here. `problem_files` has the schemas of the files.
"""

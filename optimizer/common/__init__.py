"""What solvers share: arguments, granularity, Hall violators, enumeration, reasons."""

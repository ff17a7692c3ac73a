"""Files in and out, runs and sweeps, planning, questions about availability, studies and pages."""

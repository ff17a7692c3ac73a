"""What the report pages show: results turned into the plain values of `analysis.report`."""

"""What runs and traces leave: tables with units, histograms, profiles."""

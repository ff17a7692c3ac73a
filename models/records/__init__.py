"""Tables with units, histograms and profiles that runs and traces leave."""

"""Tools of the compiled kernels: compilation and its cache, memory, random draws, histograms."""

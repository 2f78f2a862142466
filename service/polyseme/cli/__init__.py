"""The command line: results to standard output, everything else to standard error."""

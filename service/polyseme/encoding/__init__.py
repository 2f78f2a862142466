"""From a request's texts to its vectors: what HTTP, the command line and Python callers share."""

"""From a request's text to its vectors: what HTTP and the command line both call."""

"""The edge to HTTP: requests in, answers and problems out."""

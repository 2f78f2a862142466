"""The mathematics, as functions of NumPy arrays: no files, network, framework or state.

Letters used throughout: n tokens of a sentence, d width of a vector, k width of a head's queries
and keys, v width of its values, h heads, L layers, V words of the vocabulary, b rows of a block.
Weights are stored `[in, out]`, so the code reads `x @ wq` as the formulas do.
"""

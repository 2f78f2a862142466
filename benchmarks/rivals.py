"""Other ways from text to vectors: MiniLM, NumPy over gensim's vectors, model2vec."""

from collections.abc import Sequence
from io import BytesIO
from re import findall
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from gensim.models import KeyedVectors
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor
from torch.nn import functional

from polyseme.engine import Floats
from polyseme.engine.layers import Layer
from polyseme.models.model import Model
from polyseme.models.onnx_graph import onnx_graph, quantized
from polyseme.operations.encode import tokenize
from polyseme.operations.limits import Limits
from polyseme.operations.schema import EncodeOptions
from polyseme_lab.evaluation.systems import load_transformer

_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
_EXAMPLE = ("a river bank", "one")


class MiniLM:
    """all-MiniLM-L6-v2 in ONNX Runtime, from text to the vectors of its last layer."""

    def __init__(self, int8: bool) -> None:
        network, self._tokenizer = load_transformer()
        self._session = _session(_exported(network), int8)
        example = self._tokenizer(["a river bank", "one"], padding=True, return_tensors="pt")
        expected = network(**example).last_hidden_state.numpy()
        rows = example["attention_mask"].numpy().astype(bool)
        cosines = functional.cosine_similarity(
            *(torch.from_numpy(states[rows]) for states in (self(list(_EXAMPLE)), expected))
        )
        if cosines.mean() < (0.9 if int8 else 1 - 1e-5):
            raise SystemExit("The exported network computes something else.")

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Encode a batch. b texts -> [b, n, 384]"""
        encoded = self._tokenizer(list(texts), padding=True, return_tensors="np")
        states: Floats = self._session.run(None, {name: encoded[name] for name in _INPUTS})[0]
        return states


class _Exportable(torch.nn.Module):
    """A BERT that takes its inputs by position and does not look at their values."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        network.set_attn_implementation("eager")
        self.network = network

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the states of the last layer. [b, n], [b, n], [b, n] -> [b, n, 384]"""
        positions = torch.cumsum(torch.ones_like(ids), 1) - 1
        states = self.network.embeddings(ids, types, positions)
        hidden = (1 - mask[:, None, None].float()) * -1e4
        output: Tensor = self.network.encoder(states, attention_mask=hidden).last_hidden_state
        return output


class InOnnxRuntime:
    """A model whose layers run in ONNX Runtime with 8-bit weights (`polyseme models export`)."""

    def __init__(self, model: Model) -> None:
        graph = onnx_graph(model.layers, model.manifest.dimension, model.manifest.name)
        self._model, self._session = model, _session(graph, int8=True)
        self._inputs = [each.name for each in self._session.get_inputs()]

    def __call__(self, texts: Sequence[str]) -> list[Floats]:
        """Return contextual vectors of each text. m texts -> m times [n, d]"""
        sentences = tokenize(self._model, texts, EncodeOptions(include=["contextual"]), Limits())
        arrays = (self._model.inputs(sentence.tokens) for sentence in sentences)
        return [
            self._session.run(
                ["contextual"], {name: getattr(each, name)[None] for name in self._inputs}
            )[0][0]
            for each in arrays
        ]


def _session(graph: onnx.ModelProto, int8: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(quantized(graph) if int8 else graph.SerializeToString(), options)


def _exported(network: Any) -> onnx.ModelProto:
    example = torch.ones((2, 5), dtype=torch.int64)
    graph = BytesIO()
    torch.onnx.export(
        _Exportable(network).eval(),
        (example, example, example),
        graph,
        input_names=_INPUTS,
        output_names=["states"],
        dynamic_axes={name: {0: "b", 1: "n"} for name in (*_INPUTS, "states")},
        opset_version=17,
        dynamo=False,
    )
    return onnx.load_model_from_string(graph.getvalue())


def keyed_vectors(model: Model) -> KeyedVectors:
    """Return the static vectors of a model in gensim."""
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    vectors = KeyedVectors(model.manifest.dimension)
    vectors.add_vectors(words, np.asarray(model.vectors, np.float32))
    return vectors


class PlainAttention:
    """What a user would write: multi-head attention in NumPy over the vectors of gensim."""

    def __init__(self, vectors: KeyedVectors, layer: Layer) -> None:
        self._vectors, self._heads = vectors, layer.heads
        self._query, self._key = layer.query.weight, layer.key.weight

    def __call__(self, texts: Sequence[str]) -> list[Floats]:
        """Return contextual vectors of the words that have a vector. -> m times [n, d]"""
        return [self._contextual(words_of(text, self._vectors)) for text in texts]

    def _contextual(self, words: Sequence[str]) -> Floats:
        x = np.array([self._vectors[word] for word in words], np.float32)
        parts = (x @ self._query, x @ self._key, x)
        queries, keys, values = (np.stack(np.split(y, self._heads, axis=1)) for y in parts)
        scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(keys.shape[2])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.concatenate(weights @ values, axis=1)


def words_of(text: str, vectors: KeyedVectors) -> list[str]:
    """Return the words and marks of a text that have a vector."""
    return [word for word in findall(r"\w+|[^\w\s]", text) if word in vectors]


def mean(vectors: KeyedVectors, texts: Sequence[str]) -> list[Floats]:
    """Return the mean of the vectors of the words of each text. -> m times [d]"""
    words = (words_of(text, vectors) for text in texts)
    return [np.mean([vectors[word] for word in each], axis=0) for each in words]


def static_model(vectors: KeyedVectors) -> StaticModel:
    """Return model2vec's `StaticModel` over the same vectors, with a tokenizer of words."""
    unknown = "[UNK]"
    vocabulary = {word: row for row, word in enumerate([unknown, *vectors.index_to_key])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unknown))
    tokenizer.pre_tokenizer = Whitespace()
    rows = np.vstack([np.zeros(vectors.vector_size, np.float32), vectors.vectors])
    return StaticModel(rows, tokenizer)

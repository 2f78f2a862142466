"""Print results of LlamaIndex's OpenAI embeddings as JSON. Arguments: ADDRESS KEY."""

import asyncio
import json
import sys

from llama_index.embeddings.openai import OpenAIEmbedding

address, key = sys.argv[1:]
TEXTS = ["river bank", "money bank end", "Apple"]
fields = {"api_base": f"{address}/v1", "api_key": key, "model_name": "tiny"}
embedding = OpenAIEmbedding(**fields)
shortened = OpenAIEmbedding(**fields, dimensions=3, embed_batch_size=2)
results = {
    "documents": embedding.get_text_embedding_batch(TEXTS),
    "query": embedding.get_query_embedding("river bank"),
    "async": asyncio.run(embedding.aget_text_embedding_batch(TEXTS)),
    "cut": shortened.get_text_embedding_batch(TEXTS),
}
sys.stdout.write(json.dumps(results))

"""Print results of LangChain's OpenAI embeddings as JSON. Arguments: ADDRESS KEY."""

import asyncio
import json
import sys

from langchain_openai import OpenAIEmbeddings

address, key = sys.argv[1:]
TEXTS = ["river bank", "money bank end", "Apple"]
fields = {"base_url": f"{address}/v1", "api_key": key, "model": "tiny"}
embeddings = OpenAIEmbeddings(**fields, check_embedding_ctx_length=False)
shortened = OpenAIEmbeddings(**fields, check_embedding_ctx_length=False, dimensions=3, chunk_size=1)
results = {
    "documents": embeddings.embed_documents(TEXTS),
    "query": embeddings.embed_query("river bank"),
    "async": asyncio.run(embeddings.aembed_documents(TEXTS)),
    "cut": shortened.embed_documents(TEXTS),
}
sys.stdout.write(json.dumps(results))

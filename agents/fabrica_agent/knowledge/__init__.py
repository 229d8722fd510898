"""The agent's own knowledge base of CSL: a primer, cards, and their retrieval."""

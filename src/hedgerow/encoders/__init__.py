"""Embeddings of what users have: texts and images, with encoders that need no network connection."""

from hedgerow.encoders.embedding import Embedded, embed

__all__ = ["Embedded", "embed"]

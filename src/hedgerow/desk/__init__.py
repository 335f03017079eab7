"""The desk: a web page over a campaign, on which people label. `hedgerow desk CAMPAIGN` opens it."""

from hedgerow.desk.server import open_desk, serve

__all__ = ["open_desk", "serve"]

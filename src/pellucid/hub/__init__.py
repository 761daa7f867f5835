"""Models and data by their name on a hub such as Hugging Face's, or by the URL of a folder.

This room and `datasets` are the only ones that open connections, and only if you name such a place.
On a hub it is `owner/name` or `owner/name@tag`. A URL such as `s3://bucket/folder` has `://`.
A name that can be a path is one. `huggingface_hub` does the transfers and honours its own variables
for the cache, the token, the endpoint and offline work. It is loaded when a hub is asked, with
`pellucid.hub.download` and `pellucid.hub.push`.

Must not know: what the files are for.
"""

from pellucid.hub.names import HubName, hub_name, local_model, parse_hub_name
from pellucid.hub.url_store import ByteRange, UrlStore, is_url

__all__ = [
    "ByteRange",
    "HubName",
    "UrlStore",
    "hub_name",
    "is_url",
    "local_model",
    "parse_hub_name",
]

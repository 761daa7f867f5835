"""Models and data by their name on a hub such as Hugging Face's: `owner/name` or `owner/name@tag`.

This room and `datasets` are the only ones that open connections, and only if you name a hub model.
A name that can be a path is one. `huggingface_hub` does the transfers and honours its own variables
for the cache, the token, the endpoint and offline work. It is loaded when a hub is asked, with
`pellucid.hub.download` and `pellucid.hub.push`.
"""

from pellucid.hub.names import HubName, hub_name, local_model, parse_hub_name

__all__ = ["HubName", "hub_name", "local_model", "parse_hub_name"]

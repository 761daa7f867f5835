"""Mixtures of experts: the layer, the rule of its router, and what evens out the loads."""

from pellucid.model.experts.balancing import Balancing, assemble_balancing, expert_layers
from pellucid.model.experts.layer import ROUTERS, Experts, RoutingRecord
from pellucid.model.experts.routing import Groups, RouterRule, Routing

__all__ = [
    "ROUTERS",
    "Balancing",
    "Experts",
    "Groups",
    "RouterRule",
    "Routing",
    "RoutingRecord",
    "assemble_balancing",
    "expert_layers",
]

"""A TCP proxy that reads Kafka's and PostgreSQL's wire, so that a fault can hit one request and be witnessed.

with Proxy() as proxy:
    port = proxy.listen("broker-1", target=("127.0.0.1", 9092), protocol=Protocol.KAFKA)
    rule = proxy.add(Rule(action=Action.HOLD_DETACH, request=Api.END_TXN, client="orders", count=1))
"""

from __future__ import annotations

from fencepost.lab.proxy.client import Proxy, ProxyControl, RemoteProxy
from fencepost.lab.proxy.kafka import Api
from fencepost.lab.proxy.postgres import Message, Statement
from fencepost.lab.proxy.rules import Action, Direction, Rule, RuleId, Witness
from fencepost.lab.proxy.server import Block, Protocol

__all__ = [
    "Action",
    "Api",
    "Block",
    "Direction",
    "Message",
    "Protocol",
    "Proxy",
    "ProxyControl",
    "RemoteProxy",
    "Rule",
    "RuleId",
    "Statement",
    "Witness",
]

"""The stories of the first hop, by name."""

from __future__ import annotations

from functools import partial

from fencepost.lab.scenarios import apart, sending, timeouts, transactions
from fencepost.lab.scenarios.shown import Story

_TOLD = (
    Story("fire-and-forget", "a request is lost on the way", sending.fire_and_forget),
    Story(
        "leader-dies",
        "the leader dies before anybody copied what it acknowledged",
        sending.leader_dies_before_replication,
    ),
    Story("below-min-in-sync", "too few replicas are in sync", sending.below_min_in_sync),
    Story("invisible", "followers have not fetched yet what was acknowledged", sending.invisible_until_replicated),
    Story(
        "lost-acknowledgement", "the broker's answer is lost, and the client asks again", sending.lost_acknowledgement
    ),
    Story("retry-out-of-order", "of two requests the first is lost and repeated", sending.first_of_two_is_retried),
    Story("restarted-producer", "the producer is killed with -9 and run again", transactions.restarted_producer),
    Story("aborted-transaction", "somebody changes their mind half-way", transactions.aborted_transaction),
    Story("zombie", "a producer stalls, is replaced, and wakes up", transactions.zombie),
    Story("timed-out-send", "the answer to a send comes after the application gave up", timeouts.timed_out_send),
    Story("transaction-timeout", "a transaction takes longer than it may", timeouts.transaction_timeout),
    Story("unclean-election", "the replicas in sync die, and a stale one comes back", timeouts.unclean_election),
    Story(
        "leader-cut-off", "the others elect a leader, and the old one goes on with its clients", apart.leader_cut_off
    ),
    Story(
        "leader-unheard",
        "the same, but the old leader hears them still",
        partial(apart.leader_cut_off, one_way=True),
    ),
    Story("follower-stopped", "a follower stands still, and the leader dies", apart.follower_stopped),
    Story("late-end", "a repeated EndTxn arrives in the next transaction", transactions.late_end_of_transaction),
)

STORIES = {story.name: story for story in _TOLD}

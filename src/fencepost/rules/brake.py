"""The brake: where too many records are bad, something else is, and the run stops instead of dead-lettering all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.errors import Refused
from fencepost.model import TopicPartition

FEW = 10  # a batch of fewer records says nothing by itself


@dataclass
class Brake:
    """Of one run. A batch here is what one partition has of one."""

    max_share: float | None = None  # of a batch that may be bad; None: all but one of them
    _in_a_row: Counter[TopicPartition] = field(default_factory=Counter)  # bad ones in small batches, and no good one

    def require(self, partition: TopicPartition, records: int, bad: Mapping[int, str]) -> None:
        """Refuse to dead-letter these (offset and why) where there are too many. Changes nothing."""
        if self.max_share == 1:
            return
        if records >= FEW:
            wrong = len(bad) >= records if self.max_share is None else len(bad) > self.max_share * records
            found = f"{len(bad):,}" if len(bad) >= records else f"at least {len(bad):,}"  # the rest is not tried yet
            said = f"{found} of the {records:,} records of a batch are bad"
        else:
            in_a_row = self._in_a_row[partition] + len(bad)
            wrong = len(bad) >= records and in_a_row >= FEW
            said = f"{in_a_row} records in a row are bad"
        if wrong:
            first = min(bad)
            raise Refused(
                f"{partition}: {said}, so the table or the transform is probably wrong; offset {first}: {bad[first]}",
                "fix that and run again; to dead-letter all of them set dead_letters: {max_share: 1}",
            )

    def landed(self, partition: TopicPartition, records: int, bad: int) -> None:
        """The batch landed, without these."""
        if bad < records:
            del self._in_a_row[partition]
        else:
            self._in_a_row[partition] += bad

    @property
    def rule(self) -> str:
        """In words, for `plan`."""
        if self.max_share == 1:
            return "however many there are"
        share = "all" if self.max_share is None else f"more than {self.max_share:.4g} of the records"
        return (
            f"a batch of {FEW} records or more of which {share} are bad stops the run, and so do {FEW} bad ones in "
            "a row"
        )

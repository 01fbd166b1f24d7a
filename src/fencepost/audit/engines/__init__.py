"""Where an audit's comparisons are computed, and how the relations get there."""

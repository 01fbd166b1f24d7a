"""What can hold and what cannot: pure functions from settings and facts to findings."""

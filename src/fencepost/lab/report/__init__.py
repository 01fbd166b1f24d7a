"""The lab's report: one page that needs nothing else, no script either."""

"""Small stories on real brokers, each told twice: with a setting that is not enough, and with one that is."""

"""What the tables of a lake have in common: the ledger is a document in their own commits."""

"""Iceberg tables, written from Spark; the ledger is a property of the table, set in the commit that adds the rows."""

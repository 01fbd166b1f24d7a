"""A folder of Parquet files: rows only. The positions are in the pipeline's consumer group."""

"""The Spark engine: a stream of batches from Kafka, each carried by tasks through the partition face of a sink."""

"""The Spark engine: a stream of batches from Kafka, each delivered by tasks through the direct path of a sink."""

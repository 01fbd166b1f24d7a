"""Looking at a Kafka cluster: how to connect, its topics and its consumer groups."""

"""One block of Kafka settings, in librdkafka's words and in Java's."""

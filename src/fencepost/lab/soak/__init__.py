"""The soak: producers and a pipeline under load, while a seeded schedule breaks two things at a time."""

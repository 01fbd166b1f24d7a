"""What is done beside a run: plan, status, positions, preparing a database."""

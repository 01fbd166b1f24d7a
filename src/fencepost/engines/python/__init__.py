"""Consumers in plain Python: a group's members, and every style of committing, with what each really gives."""

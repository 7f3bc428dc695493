"""A switch under load and disturbances for hours, with its accounts kept at both ends (`make soak`, lab/soak.py)."""

"""The audit: what a right and timed answer is looked at for besides. See stage.py."""

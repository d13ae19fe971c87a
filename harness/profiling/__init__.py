"""Where a submission's time goes and what bounds it; see stage.py for the way through the files."""

"""What is graded: problems and submissions, read as text, limited and validated before anything of them runs."""

"""What runs beside a submission, in its process. Nothing here is trusted, and nothing here knows the trusted side."""

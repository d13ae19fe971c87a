"""From what was found to what is said: evidence, verdict, reason, wording."""

"""The machine that grades: its devices, who has them, and what it can spare."""

"""The check stage: expected outputs, and how those of a submission are held against them."""

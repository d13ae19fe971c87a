"""`python -m harness` is `harness`."""

from harness.cli.main import command

if __name__ == "__main__":
    command()

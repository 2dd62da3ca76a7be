"""`python -m poolwise` is the command line."""

from poolwise.cli import main

if __name__ == "__main__":
    main(prog_name="poolwise")

"""What spark-submit starts in YARN's application master: the command line of millstream; see submit.sh."""

from millstream.cli.main import main

if __name__ == "__main__":
    main(prog_name="millstream")

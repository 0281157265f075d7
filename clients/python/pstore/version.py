"""`version` has the version of this package, which is that of the program."""

VERSION = "0.2.0"
